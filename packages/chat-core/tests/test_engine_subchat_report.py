"""The interface between an inner chat and the tool pass."""

from __future__ import annotations

import pytest
from chat_core.engine.subchat_report import InnerEvent, InnerFailure, InnerPause, InnerUsage, prefix_error
from chat_core.errors import InterruptedToolsError, PendingToolsError
from chat_core.messages import Messages
from chat_core.response import Paused
from chat_core.usage import Usage


def test_reports_of_an_inner_chat_compare_by_value() -> None:
    messages = Messages()
    assert InnerPause(Paused(()), messages) == InnerPause(Paused(()), messages)
    assert InnerUsage(Usage(1, 2)) == InnerUsage(Usage(1, 2))
    assert InnerEvent(1) == InnerEvent(1)
    error = ValueError()
    assert InnerFailure("no", error) == InnerFailure("no", error)


@pytest.mark.parametrize("kind", [PendingToolsError, InterruptedToolsError])
def test_prefix_error_adds_the_outer_call_id_to_the_ids_of_inner_calls(
    kind: type[PendingToolsError | InterruptedToolsError],
) -> None:
    error = prefix_error(kind("2 call(s) wait", ["a", "b"]), "ask")
    assert isinstance(error, kind)
    assert error.tool_ids == ("ask/a", "ask/b")
    assert str(error) == "in the chat of tool 'ask': 2 call(s) wait"
