from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from chat_core.messages import (
    Completed,
    File,
    FunctionCall,
    Interrupted,
    Messages,
    Pending,
    ProviderPart,
    Reasoning,
    Suspended,
    Text,
    Tool,
    ToolStatus,
    Turn,
)
from chat_core.response import ChatResponse, Paused, StructuredResponse, Wait, WaitKind, iter_waits, refusal_of
from chat_core.usage import Metadata, Usage

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def wait(kind: WaitKind, tool_id: str = "a", at: datetime | None = None) -> Wait:
    return Wait(kind, tool_id, (tool_id,), "transfer", {"cents": 1}, at=at)


def test_chat_response_shows_the_text_files_and_metadata_of_its_turn() -> None:
    file = File("a/b", data=b"")
    turn = Turn([Reasoning("hm"), Text("a"), file, Text("b")], finish_reason="stop", metadata=Metadata(model="m"))
    response = ChatResponse(turn, Usage(1, 2))
    assert (response.text, response.reasoning, response.files) == ("ab", "hm", [file])
    assert response.parts == turn.parts
    assert response.finish_reason == "stop"
    assert response.metadata.model == "m"
    assert response.refusal is None
    assert response.usage == Usage(1, 2)


def test_response_without_metadata_has_empty_metadata() -> None:
    assert ChatResponse(Turn([])).metadata == Metadata()
    assert StructuredResponse(1, "1", Turn([])).metadata == Metadata()
    assert StructuredResponse(1, "1", Turn([], metadata=Metadata("p"))).metadata == Metadata("p")


def test_refusal_is_the_models_own_text() -> None:
    turn = Turn([ProviderPart("p", "other", {}), ProviderPart("openai", "refusal", {"refusal": "I cannot."})])
    assert ChatResponse(turn).refusal == "I cannot."
    assert refusal_of(Turn([Text("sure")])) is None


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (["approval"], "AwaitingApproval"),
        (["approval", "approval"], "AwaitingApproval"),
        (["schedule"], "Scheduled"),
        (["interrupted"], "Interrupted"),
        (["approval", "schedule"], "Mixed"),
        (["approval", "interrupted", "schedule"], "Mixed"),
    ],
)
def test_reason_of_a_pause_summarizes_its_waits(kinds: list[WaitKind], reason: str) -> None:
    assert Paused(tuple([wait(kind) for kind in kinds])).reason == reason


def test_joined_pause_keeps_the_time_of_every_wait() -> None:
    first, second = wait("schedule", "a", NOON), wait("schedule", "b", NOON.replace(hour=18))
    joined = Paused((first,), Usage(1, 1)).join(Paused((second, wait("approval", "c")), Usage(2, 2)))
    assert [item.at for item in joined.waiting] == [NOON, NOON.replace(hour=18), None]
    assert joined.reason == "Mixed"
    assert joined.usage == Usage(3, 3)


def test_prefixed_pause_has_the_path_through_its_outer_calls() -> None:
    inner = Paused((wait("approval", "x"), wait("approval", "y")))
    outer = inner.prefixed("middle").prefixed("outer")
    assert [item.path for item in outer.waiting] == [("outer", "middle", "x"), ("outer", "middle", "y")]
    assert [item.tool_id for item in outer.waiting] == ["x", "y"]
    assert inner.waiting[0].path == ("x",)


def test_with_usage_sets_the_usage_of_a_pause() -> None:
    assert Paused(()).with_usage(Usage(5, 6)).usage == Usage(5, 6)


def test_wait_is_hashable() -> None:
    assert len({wait("approval"), wait("approval"), wait("schedule")}) == 2


@pytest.mark.parametrize("waits", [True, False])
def test_wait_from_tool_describes_the_call_and_its_conversation(*, waits: bool) -> None:
    tool = Tool(FunctionCall("pay", {"cents": 1}), id="a")
    if waits:
        tool.await_approval(NOON, of="treasurer")
    wait = Wait.from_tool(tool, ("outer", "a"), conversation="c", owner="ana")
    expires_at, of = (NOON, "treasurer") if waits else (None, None)
    expected = Wait("approval", "a", ("outer", "a"), "pay", {"cents": 1}, expires_at, of=of)
    assert wait == replace(expected, conversation="c", owner="ana")
    assert wait.revision == tool.revision == int(waits)


def test_wait_for_an_outcome_contains_the_error_of_the_interruption() -> None:
    tool = Tool(FunctionCall("pay", {}), id="a")
    tool.await_approval(of="cfo")
    tool.approve(by="ana", at=NOON)
    tool.start(NOON)
    tool.lost("the process died")
    tool.await_outcome(at=NOON)
    wait = Wait.from_tool(tool, ("a",), conversation=None, owner=None)
    assert (wait.kind, wait.at, wait.error, wait.of) == ("interrupted", NOON, "the process died", "cfo")


def call(id: str, status: ToolStatus) -> Tool:
    return Tool(FunctionCall("transfer", {"cents": 1}), id=id, status=status)


def test_iter_waits_finds_waiting_calls_also_in_inner_chats() -> None:
    inner = Messages()
    inner.append("model", Turn([call("b", Pending("result", NOON, of="ana")), call("c", Completed("done"))]))
    waiting = [
        wait
        for tool in (call("a", Suspended(inner)), call("d", Interrupted(reason="lost")), call("e", Pending()))
        for wait in iter_waits(tool, conversation="c-1", owner="ana")
    ]
    first = Wait("result", "b", ("a", "b"), "transfer", {"cents": 1}, expires_at=NOON, of="ana")
    second = Wait("interrupted", "d", ("d",), "transfer", {"cents": 1}, error="lost")
    assert waiting == [replace(wait, conversation="c-1", owner="ana") for wait in (first, second)]


def test_of_conversation_adds_the_conversation_and_owner_to_each_wait() -> None:
    paused = Paused((Wait("approval", "c1", ("c1",), "pay", {}),), Usage(1, 2))

    named = paused.of_conversation("s-1", "ana")

    assert [(wait.conversation, wait.owner) for wait in named.waiting] == [("s-1", "ana")]
    assert named.usage == paused.usage
    assert paused.waiting[0].conversation is None
