"""Decisions about several calls at once."""

from __future__ import annotations

import pytest
from chat_core.approvals import MayDecide, Principal
from chat_core.clock import utc_now
from chat_core.errors import UsageError
from chat_core.messages import Pending, Rejected
from chat_inbox.approval_service import ApprovalService, Choice
from chat_inbox.bulk_decisions import (
    MAX_SELECTED,
    Outcome,
    Selection,
    decide_selected,
    find_outcomes,
    read_selections,
)
from chat_inbox.http_errors import HTTPError
from chat_inbox.inbox import allow_everyone
from chat_inbox.tool_calls import compute_version
from chat_store import MemoryStore
from inbox_helpers import CALL, OTHER, Bank, anyone, later, messages_of, only_ana

pytestmark = pytest.mark.anyio
ANA = Principal("ana@example.com")


def service(store: MemoryStore, may_decide: MayDecide = anyone) -> ApprovalService:
    return ApprovalService(store, lambda _conversation: None, allow_everyone, may_decide, utc_now)


async def select(store: MemoryStore, conversation: str = "chat-17", call: str = "call_1") -> Selection:
    tool = (await messages_of(store, conversation)).tool(call)
    return Selection(conversation, (call,), compute_version(tool))


async def decide(
    service: ApprovalService, person: Principal, selections: list[Selection], choice: Choice
) -> list[Outcome]:
    await decide_selected(service, person, selections, choice)
    return await find_outcomes(service, person, selections, choice.action)


def test_selected_calls_are_read_from_the_fields_of_a_form() -> None:
    posted = {"token": "t", "call:a%2Fb/outer,inner": "1-x", "call:chat-17/call_1": "2-y"}

    assert read_selections(posted) == [
        Selection("a/b", ("outer", "inner"), "1-x"),
        Selection("chat-17", ("call_1",), "2-y"),
    ]


@pytest.mark.parametrize(
    ("count", "message"),
    [
        pytest.param(0, "Select at least one call", id="none"),
        pytest.param(MAX_SELECTED + 1, f"Select {MAX_SELECTED} calls at most: {MAX_SELECTED + 1}", id="too-many"),
    ],
)
def test_selection_of_no_call_or_too_many_is_refused(count: int, message: str) -> None:
    with pytest.raises(HTTPError, match=message) as caught:
        read_selections({f"call:c/{number}": "v" for number in range(count)})
    assert caught.value.status == 422


async def test_several_calls_of_one_conversation_are_decided(store: MemoryStore) -> None:
    await Bank([CALL, OTHER], "Both.").ask(store, "chat-18")
    selections = [await select(store, "chat-18", call) for call in ("call_1", "call_2")]
    outcomes = await decide(service(store), ANA, selections, Choice("reject", text="not now"))

    assert outcomes == [Outcome(selection, "transfer", None) for selection in selections]
    messages = await messages_of(store, "chat-18")
    assert [messages.tool(call).status for call in ("call_1", "call_2")] == [Rejected("not now")] * 2
    assert messages.tool("call_1").decisions[0].by == "ana@example.com"


async def test_outdated_call_is_not_decided_and_does_not_stop_the_others(store: MemoryStore) -> None:
    await Bank([CALL, OTHER], "Both.").ask(store, "chat-18")
    stale = Selection("chat-18", ("call_1",), "0-0")
    current = await select(store, "chat-18", "call_2")
    outcomes = await decide(service(store), ANA, [stale, current], Choice("approve"))

    assert [outcome.problem is None for outcome in outcomes] == [False, True]
    assert "has changed since this page was made" in (outcomes[0].problem or "")
    assert isinstance((await messages_of(store, "chat-18")).tool("call_1").status, Pending)


async def test_outcomes_are_those_that_are_stored(store: MemoryStore) -> None:
    selection = await select(store)
    (undecided,) = await find_outcomes(service(store), ANA, [selection], "approve")
    (approved,) = await decide(service(store), ANA, [selection], Choice("approve"))
    (other,) = await find_outcomes(service(store), Principal("ben"), [selection], "approve")

    assert undecided.problem == "transfer was not decided: select it again."
    assert approved.problem is None
    assert "ana@example.com approved transfer" in (other.problem or "")
    (hidden,) = await find_outcomes(service(store), ANA, [Selection("none", ("call_1",), "")], "approve")
    assert (hidden.name, hidden.problem is None) == ("", False)


async def test_call_that_the_person_may_not_decide_is_not_decided(store: MemoryStore) -> None:
    selection = await select(store)
    (outcome,) = await decide(service(store, only_ana), Principal("ben"), [selection], Choice("approve"))

    assert "You are not allowed to decide" in (outcome.problem or "")
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_expired_call_is_not_approved(store: MemoryStore) -> None:
    async with store.open("chat-18") as conversation:
        conversation.messages.append("model", (await messages_of(store))[1].turns[0])
        tool = conversation.messages.tool("call_1")
        tool.adopt(tool.with_status(Pending("approval", expires_at=later(hours=-1))))
    (outcome,) = await decide(service(store), ANA, [await select(store, "chat-18")], Choice("approve"))

    assert outcome.problem == "transfer has expired: it can be rejected, but not approved."
    (outcome,) = await decide(service(store), ANA, [await select(store, "chat-18")], Choice("reject"))
    assert outcome.problem is None


async def test_interrupted_call_is_not_decided_together_with_others(store: MemoryStore) -> None:
    async with store.open("chat-17") as conversation:
        tool = conversation.messages.tool("call_1")
        tool.approve()
        tool.start()
        tool.lost("its process is gone")
    (outcome,) = await decide(service(store), ANA, [await select(store)], Choice("reject"))

    assert "can be decided only on the page of its conversation" in (outcome.problem or "")


async def test_nothing_is_stored_if_the_inbox_is_not_open(store: MemoryStore, bank: Bank) -> None:
    closed = ApprovalService(store, lambda _conversation: bank.chat, allow_everyone, anyone, utc_now)
    with pytest.raises(UsageError, match="the inbox is not open"):
        await decide_selected(closed, ANA, [await select(store)], Choice("approve"))
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
