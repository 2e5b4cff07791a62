"""Progress reports for tool calls on an MCP server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class McpProgress:
    """Progress of a tool call, as reported by an MCP server. It is the value of a `ToolProgress` event."""

    progress: float
    total: float | None = None
    message: str | None = None
