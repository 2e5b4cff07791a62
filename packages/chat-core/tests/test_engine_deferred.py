"""Deferred calls: they wait for an external result, which is accepted once and continues the run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Defer,
    Execute,
    FunctionCall,
    IllegalTransitionError,
    Messages,
    Paused,
    Pending,
    PendingToolsError,
    Reject,
    StreamingChat,
    ToolCollection,
    ToolResult,
    UsageError,
)
from chat_core.messages import Completed, Failed
from chat_core.testing import ScriptedProvider
from chat_core.tools import Action, ScopedCollection

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ran: list[str] = []
tools = ToolCollection()


@tools.tool
async def locate(place: str = "here") -> str:
    ran.append(place)
    return "nobody sees this"


def chat_with(
    action: Action[Paused] | Execute, *answers: FunctionCall | str, now: datetime = NOON
) -> StreamingChat[ChatResponse, Paused]:
    scope: ScopedCollection[None, Paused] = ScopedCollection(tools, lambda _call, _meta: action)
    return ChatBuilder().with_model(ScriptedProvider(*answers)).with_clock(lambda: now).with_scoped_tools(scope).build()


async def deferred(expires_in: timedelta | None = None) -> Messages:
    messages = Messages.from_user("Where am I?")
    outcome = await chat_with(Defer(expires_in), FunctionCall("locate", {}, id="a")).complete(messages)
    assert isinstance(outcome, Paused)
    assert outcome.reason == "AwaitingResult"
    (wait,) = outcome.waiting
    assert (wait.kind, wait.tool_id, wait.arguments) == ("result", "a", {"place": "here"})
    assert wait.expires_at == (None if expires_in is None else NOON + expires_in)
    return Messages.from_json(messages.to_json())


async def test_a_deferred_call_waits_and_its_body_does_not_run() -> None:
    ran.clear()
    messages = await deferred()
    assert messages.tool("a").status == Pending("result")
    assert isinstance(await chat_with(Defer()).complete(messages), Paused)
    assert ran == []


async def test_the_run_continues_with_the_result_delivered_for_a_deferred_call() -> None:
    ran.clear()
    messages = await deferred()
    messages.tool("a").complete("Nantes", state={"place": "Nantes"}, by="browser", at=NOON)
    async with chat_with(Defer(), "In Nantes.").stream(messages) as stream:
        events = [event async for event in stream]
    assert ToolResult(messages.tool("a")) in events
    assert messages.tool("a").status == Completed("Nantes", state={"place": "Nantes"})
    assert messages.tool("a").decisions[-1].by == "browser"
    assert messages.state == {"place": "Nantes"}
    assert ran == []


async def test_the_result_of_a_deferred_call_is_accepted_only_once() -> None:
    messages = await deferred()
    messages.tool("a").complete("Nantes")
    with pytest.raises(IllegalTransitionError, match="is Completed"):
        messages.tool("a").complete("Paris")
    assert messages.tool("a").result_text() == "Nantes"


async def test_a_call_that_waits_for_a_result_cannot_be_approved() -> None:
    messages = await deferred()
    with pytest.raises(
        IllegalTransitionError, match=r"is Pending, which does not allow 'approve'; it allows .*complete"
    ):
        messages.tool("a").approve()


async def test_a_call_that_waits_for_an_approver_cannot_be_completed() -> None:
    tool = Messages.from_json((await deferred()).to_json()).tool("a")
    waiting = tool.with_status(Pending("approval"))
    with pytest.raises(IllegalTransitionError, match="does not allow 'complete'"):
        waiting.complete("Nantes")


async def test_the_failure_of_a_deferred_call_is_reported_to_the_model() -> None:
    messages = await deferred()
    messages.tool("a").fail("the user refused", by="browser")
    assert isinstance(await chat_with(Defer(), "Then not.").complete(messages), ChatResponse)
    assert messages.tool("a").result_text() == "the user refused"


async def test_a_result_after_the_deadline_is_refused_and_the_call_fails() -> None:
    messages = await deferred(timedelta(hours=1))
    late = NOON + timedelta(hours=1)
    with pytest.raises(IllegalTransitionError, match="wait for its result expired at 2026-03-01T13:00"):
        messages.tool("a").complete("Nantes", at=late)
    messages.tool("a").with_status(messages.tool("a").status).complete("Nantes", at=late - timedelta(seconds=1))
    await chat_with(Defer(timedelta(hours=1)), "No answer.", now=late).complete(messages)
    assert messages.tool("a").status == Failed("no result was delivered before 2026-03-01T13:00:00+00:00")


async def test_resuming_a_run_does_not_extend_the_wait_of_a_deferred_call() -> None:
    messages = await deferred(timedelta(hours=1))
    chat = chat_with(Defer(timedelta(hours=1)), now=NOON + timedelta(minutes=30))
    outcome = await chat.complete(messages)
    assert isinstance(outcome, Paused)
    assert outcome.waiting[0].expires_at == NOON + timedelta(hours=1)


async def test_a_deferred_call_can_be_cancelled() -> None:
    messages = await deferred()
    messages.cancel_pending("never mind")
    assert messages.tool("a").result_text() == "The call was cancelled: never mind"


async def test_a_deferred_call_does_not_run_if_the_policy_changes() -> None:
    messages = await deferred()
    with pytest.raises(PendingToolsError):
        await chat_with(Execute()).complete(messages)
    await chat_with(Reject("no"), "Then not.").complete(messages)
    assert messages.tool("a").result_text() == "The call was rejected by policy: no"


async def test_an_approved_call_with_edited_arguments_can_be_deferred() -> None:
    messages = await deferred()
    tool = messages.tool("a").with_status(Pending("approval"))
    messages.adopt(("a",), tool)
    messages.tool("a").approve(arguments={"place": "there"})
    outcome = await chat_with(Defer()).complete(messages)
    assert isinstance(outcome, Paused)
    assert outcome.waiting[0].arguments == {"place": "there"}
    assert messages.tool("a").status == Pending("result")


@pytest.mark.parametrize("expires_in", [timedelta(0), timedelta(seconds=-1)])
def test_defer_refuses_a_duration_that_is_not_positive(expires_in: timedelta) -> None:
    with pytest.raises(UsageError, match="positive duration"):
        Defer(expires_in)
