"""Texts about tool calls that a client receives."""

from __future__ import annotations

import pytest
from chat_core.messages import Rejected
from chat_core.messages.status import Refuser
from chat_streams.client_texts import rejection_text, tool_failure_text


def test_the_text_of_a_failed_tool_omits_its_error() -> None:
    assert tool_failure_text("pay") == "The pay tool failed."


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("person", "The pay call was rejected."),
        ("policy", "The pay call is not allowed."),
        ("expiry", "The approval of the pay call has expired."),
        ("cancelled", "The pay call was cancelled."),
    ],
)
def test_the_text_of_a_rejected_call_names_the_source_and_omits_the_reason(source: Refuser, text: str) -> None:
    assert rejection_text("pay", Rejected("the budget of Maria is used up", source)) == text
