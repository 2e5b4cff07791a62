"""What a tool that is a chat tells the pass."""

from __future__ import annotations

import pytest
from chat_core.engine.subchat_report import InnerEvent, InnerFailure, InnerPause, InnerUsage, prefix_error
from chat_core.errors import InterruptedToolsError, PendingToolsError
from chat_core.messages import Messages
from chat_core.response import Paused
from chat_core.usage import Usage


def test_the_things_it_can_tell_are_values() -> None:
    messages = Messages()
    assert InnerPause(Paused(()), messages) == InnerPause(Paused(()), messages)
    assert InnerUsage(Usage(1, 2)) == InnerUsage(Usage(1, 2))
    assert InnerEvent(1) == InnerEvent(1)
    error = ValueError()
    assert InnerFailure("no", error) == InnerFailure("no", error)


@pytest.mark.parametrize("kind", [PendingToolsError, InterruptedToolsError])
def test_what_halts_a_chat_inside_is_raised_outside_with_paths_for_ids(
    kind: type[PendingToolsError | InterruptedToolsError],
) -> None:
    error = prefix_error(kind("2 call(s) wait", ["a", "b"]), "ask")
    assert isinstance(error, kind)
    assert error.tool_ids == ("ask/a", "ask/b")
    assert str(error) == "in the chat of tool 'ask': 2 call(s) wait"
