from __future__ import annotations

from datetime import timedelta

import pytest
from chat_core.approvals import Principal, only_role
from chat_core.messages import Messages
from chat_streams import Decider, open_waits, wait_key
from chat_streams.open_waits import all_waits, client_tool_names, tool_of_key
from stream_world import LOCATE, NOW, PAY, PAY_MORE, ana, bank, conversation_of


@pytest.mark.anyio
async def test_open_waits_lists_only_calls_that_the_user_may_decide() -> None:
    target = conversation_of("Pay twice.")
    await bank([PAY, PAY_MORE], now=lambda: NOW).complete(target)
    assert [wait.tool_id for wait in open_waits(target, ana())] == ["call_1", "call_2"]
    assert open_waits(target, Decider(Principal("ben"), ana().may_decide, ana().now)) == []
    assert open_waits(target, Decider(Principal("ben"), only_role("approver"), ana().now)) == []
    assert open_waits(target, ana(lambda: NOW + timedelta(hours=1))) == []


@pytest.mark.anyio
async def test_the_key_of_a_call_changes_when_the_call_is_reconsidered() -> None:
    target = conversation_of("Pay.")
    await bank(PAY).complete(target)
    tool = target.messages.tool("call_1")
    (wait,) = open_waits(target, ana())
    key = wait_key(target.messages, wait)
    assert tool_of_key(target.messages, key) is tool
    tool.approve(at=NOW)
    tool.reconsider("other arguments are needed")
    (again,) = all_waits(target)
    assert wait_key(target.messages, again) != key
    assert tool_of_key(target.messages, key) is tool


@pytest.mark.parametrize("key", ["", "1", "1.", "1.call_9", "1.call_1/call_2"])
def test_an_unknown_key_finds_no_call(key: str) -> None:
    assert tool_of_key(Messages(), key) is None


def test_client_tools_come_from_the_last_user_message() -> None:
    messages = Messages()
    assert client_tool_names(messages) == set()
    messages.user("hi", client_tools=[LOCATE])
    assert client_tool_names(messages) == {"locate"}
    messages.user("and now?")
    assert client_tool_names(messages) == set()
