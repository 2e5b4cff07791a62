"""What a server says of a tool, for a policy to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from mcp import types


@final
@dataclass(frozen=True, slots=True)
class McpAnnotations:
    """What an MCP server says of one of its tools.

    Nobody has checked it: a server may call a tool harmless that is not. A policy that executes by what stands here
    trusts the server. What a server leaves unsaid is what the protocol assumes then: the worst.

    Attributes:
        server: which one it is.
        tool: its own name for the tool, without a prefix.
        title: a name for people.
        read_only: it changes nothing.
        destructive: it may overwrite or delete, and not only add. What is read only is not.
        idempotent: a second call with the same arguments changes nothing more. What is read only is.
        open_world: it deals with a world that is not the server's own, such as the web.
    """

    server: str
    tool: str
    title: str | None = None
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True


def annotations_of(server: str, tool: types.Tool) -> McpAnnotations:
    """The annotations of a tool, with the protocol's defaults for what is not said."""
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
