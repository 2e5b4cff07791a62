"""Events and their fixed texts."""

from __future__ import annotations

from typing import get_args

from chat_agents import ErrorCode
from chat_agents.events import TEXTS, error_event


def test_every_error_code_has_a_fixed_text() -> None:
    assert set(TEXTS) == set(get_args(ErrorCode))


def test_error_texts_equal_those_of_arche() -> None:
    assert error_event("llm_error").message == "The assistant is temporarily unavailable. Please try again."
    assert error_event("internal").message == error_event("llm_error").message
    assert error_event("stream_error").message == "The reply was interrupted. Please try again."
    assert error_event("max_tool_rounds").message == "Maximum tool calling rounds exceeded"
    assert error_event("tool_error", tool="find").message == "The find tool failed."
