"""The page about the life of a tool call agrees with the table of transitions."""

from __future__ import annotations

from chat_core.messages.status import ToolEvent

from .tool_life_page import MEANINGS, PAGE, tool_life


def test_the_page_matches_the_transition_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == tool_life()


def test_every_event_has_a_meaning() -> None:
    assert list(ToolEvent) == sorted(MEANINGS, key=list(ToolEvent).index)
