"""How far a tool is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class McpProgress:
    """How far a tool is, as its server tells it: the value of a `ToolProgress`."""

    progress: float
    total: float | None = None
    message: str | None = None
