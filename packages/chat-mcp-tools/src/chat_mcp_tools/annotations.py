"""Tool annotations from an MCP server, as metadata for policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from mcp import types


@final
@dataclass(frozen=True, slots=True)
class McpAnnotations:
    """Annotations that an MCP server declares for one of its tools.

    Annotations are not verified: a server may declare that a harmful tool is harmless. A policy that relies on them
    trusts the server. Missing annotations have the protocol's defaults, which assume the worst.

    Attributes:
        server: name of the server.
        tool: name of the tool on the server, without a prefix.
        title: display name.
        read_only: whether the tool changes nothing.
        destructive: whether the tool may overwrite or delete, not only add. False for read-only tools.
        idempotent: whether a repeated call with the same arguments has no further effect. True for read-only tools.
        open_world: whether the tool accesses systems outside the server, such as the web.
    """

    server: str
    tool: str
    title: str | None = None
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True


def annotations_of(server: str, tool: types.Tool) -> McpAnnotations:
    """Return the annotations of `tool` on the server named `server`. Missing ones have the protocol's defaults."""
    hints = tool.annotations or types.ToolAnnotations()
    read_only = bool(hints.read_only_hint)
    return McpAnnotations(
        server=server,
        tool=tool.name,
        title=tool.title or hints.title,
        read_only=read_only,
        destructive=not read_only and hints.destructive_hint is not False,
        idempotent=read_only or bool(hints.idempotent_hint),
        open_world=hints.open_world_hint is not False,
    )
