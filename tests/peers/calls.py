"""Calls that wait for an approval, for this library and for others. It needs only the standard library."""

from __future__ import annotations

from typing import Any, Final

PROMPT: Final = "Please pay."
ANSWER: Final = "All is paid."
TOOL: Final = "transfer"
COUNTS: Final = (1, 2, 10)
"""How many calls wait in the documents whose size is measured."""


def calls(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return `count` calls by their ids, each with its arguments."""
    return [(f"call_{number}", {"to": f"Person {number}", "cents": 4000}) for number in range(1, count + 1)]


def row(library: str, *cells: object) -> str:
    """Return a row of a table of `docs/comparison.md`."""
    return f"| {' | '.join([library, *map(str, cells)])} |"


def executions(count: int) -> str:
    """Return how often the approved call has run, in the words of the page."""
    return str(count) if count <= 1 else f"**{count}**"
