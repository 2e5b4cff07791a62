"""State of a conversation: the changes that apply, their order, and the state after a crash or a reload."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core import (
    Chat,
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Pending,
    RequireApproval,
    ScopedCollection,
    Tool,
    ToolCollection,
    ToolContext,
    ToolOutput,
    Turn,
    UsageError,
)
from chat_core.errors import InvalidDocumentError
from chat_core.messages import Content, codec
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call
from hypothesis import given, settings
from hypothesis import strategies as st


def conversation(*tools: Tool) -> Messages:
    messages = Messages(state={"n": 0, "kept": [1]})
    messages.user("go", state={"user": "ana", "n": 1})
    messages.append("model", Turn(tools, finish_reason="tool_calls"))
    return messages


def call(id: str) -> Tool:
    return Tool(FunctionCall("f", {}), id=id)


def test_a_conversation_has_no_state_by_default() -> None:
    assert Messages.from_user("hello").state == {}
    assert "state" not in Messages.from_user("hello").to_json()


def test_state_changes_are_merged_in_the_order_of_turns_and_calls() -> None:
    first, second = call("a"), call("b")
    messages = conversation(first, second)
    assert messages.state == {"n": 1, "kept": [1], "user": "ana"}
    for tool, state in ((second, {"n": 3}), (first, {"n": 2, "first": None})):
        tool.start()
        tool.complete("ok", state=state)
    assert messages.state == {"n": 3, "kept": [1], "user": "ana", "first": None}


def test_state_change_replaces_the_whole_value_of_a_key() -> None:
    messages = Messages(state={"filter": {"year": 2020, "city": "Rome"}})
    messages.user("go", state={"filter": {"year": 2021}})
    assert messages.state == {"filter": {"year": 2021}}


def test_state_is_read_only() -> None:
    messages = conversation()
    with pytest.raises(TypeError, match="read-only"):
        messages.state["n"] = 5  # type: ignore[index] # pyright: ignore[reportIndexIssue] - wrong on purpose
    with pytest.raises(TypeError, match="read-only"):
        messages.state["kept"].append(2)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - wrong on purpose
    assert messages.initial_state == {"n": 0, "kept": [1]}


@pytest.mark.parametrize("state", [[], "x", {"a": float("nan")}, {"a": object()}])
def test_state_that_is_not_a_json_object_raises(state: object) -> None:
    with pytest.raises(UsageError, match="state must be"):
        Messages.from_user("hello").push(Content("user", [Turn((), state=state)]))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
    tool = call("a")
    tool.start()
    with pytest.raises(UsageError, match="state must be"):
        tool.complete(None, state=state)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
    with pytest.raises(UsageError, match="state must be"):
        Messages(state=state)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose


def test_failed_call_does_not_change_the_state() -> None:
    tool = call("a")
    messages = conversation(tool)
    tool.start()
    tool.fail("no")
    assert messages.state == {"n": 1, "kept": [1], "user": "ana"}


def test_document_keeps_the_initial_state_and_each_change() -> None:
    tool = call("a")
    messages = conversation(tool)
    tool.start()
    tool.complete("ok", state={"n": 2})
    read = Messages.from_json(messages.to_json())
    assert read == messages
    assert read.initial_state == {"n": 0, "kept": [1]}
    assert read.state == {"n": 2, "kept": [1], "user": "ana"}
    assert read.to_json() == messages.to_json()


def test_conversations_that_differ_in_their_initial_state_are_not_equal() -> None:
    assert Messages(state={"a": 1}) != Messages()


@pytest.mark.parametrize("state", ["[]", '"x"', '{"a": NaN}'])
def test_malformed_state_in_a_document_raises_with_its_path(state: str) -> None:
    with pytest.raises(InvalidDocumentError, match=r"^state"):
        Messages.from_json(f'{{"version": 1, "contents": [], "state": {state}}}')


def test_calls_of_one_turn_start_with_the_same_state() -> None:
    first, second = call("a"), call("b")
    messages = conversation(first, second)
    first.start()
    first.complete("ok", state={"n": 9})
    assert messages.state_before_calls([first, second]) == {
        "a": {"n": 1, "kept": [1], "user": "ana"},
        "b": {"n": 1, "kept": [1], "user": "ana"},
    }


def test_state_before_an_earlier_turn_can_be_read_after_later_turns() -> None:
    first, second = call("a"), call("b")
    messages = conversation(first)
    first.start()
    first.complete("ok", state={"n": 2})
    messages.append("model", Turn((second,)))
    assert messages.state["n"] == 2
    assert messages.state_before_calls([first])["a"]["n"] == 1
    assert messages.state_before_calls([second])["b"]["n"] == 2


def test_adopting_an_earlier_status_removes_its_state_change() -> None:
    tool = call("a")
    messages = conversation(tool)
    before = codec.copy_tool(tool, Messages)
    tool.start()
    tool.complete("ok", state={"n": 2})
    assert dict(messages.state)["n"] == 2
    messages.adopt(("a",), before)
    assert dict(messages.state)["n"] == 1


def test_state_is_computed_once_for_each_settled_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = Messages()
    for number in range(50):
        messages.append("user", Turn((), state={str(number): number}))
    read = 0

    def counted(turn: Turn) -> object:
        nonlocal read
        read += 1
        return ({"x": 1},) if turn.state is not None else ()

    monkeypatch.setattr("chat_core.messages.state.state_changes", counted)
    for _ in range(10):
        assert messages.state == {"x": 1}
    assert read == 50


KEYS = st.sampled_from("abc")


@dataclass
class PlannedCall:
    """A call of the scripted model: whether it waits for an approver, how long it runs and how it ends."""

    waits: bool
    steps: int
    change: dict[str, object] | None
    fails: bool


@dataclass
class World:
    """A chat whose model makes planned calls, and what its tools have seen."""

    turns: list[list[PlannedCall]]
    expected: dict[str, object] = field(default_factory=dict[str, object])
    expected_before: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    seen: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def __post_init__(self) -> None:
        self.expected |= {"from user": 1}
        for calls in self.turns:
            self.expected_before.append(dict(self.expected))
            for planned in calls:
                self.expected |= {} if planned.fails else (planned.change or {})

    def planned(self, tool_id: str) -> PlannedCall:
        turn, call = tool_id.split("-")
        return self.turns[int(turn)][int(call)]

    async def run(self, context: ToolContext) -> object:
        planned = self.planned(context.tool_id)
        self.seen.setdefault(context.tool_id, set()).add(json.dumps(dict(context.state), sort_keys=True))
        for _ in range(planned.steps):
            await checkpoint()
        if planned.fails:
            raise ValueError
        return "plain" if planned.change is None else ToolOutput("ok", state=planned.change)

    def chat(self, messages: Messages) -> Chat[ChatResponse, Paused]:
        tools = ToolCollection()
        tools.tool(idempotent=True, name="change")(self.run)

        def policy(call: FunctionCall, _: None) -> Execute | RequireApproval:
            return RequireApproval() if self.planned(call.id).waits else Execute()

        answered = sum(len(content.turns) for content in messages if content.role == "model")
        script: list[list[FunctionCall] | str] = [
            [FunctionCall("change", {}, id=f"{turn}-{index}") for index in range(len(calls))]
            for turn, calls in enumerate(self.turns)
        ]
        model = ScriptedProvider(*[*script, "done"][answered:])
        return ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()


PLANS = st.lists(
    st.lists(
        st.builds(
            PlannedCall,
            waits=st.booleans(),
            steps=st.integers(0, 3),
            change=st.none() | st.dictionaries(KEYS, st.integers(0, 9), max_size=3),
            fails=st.sampled_from([False, False, True]),
        ),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=3,
)


async def run_to_end(world: World, messages: Messages, data: st.DataObject, kills: int) -> Messages:
    """Run until the answer, with approvals in any order, and continue `kills` times from what was stored before."""
    while True:
        stored: list[Messages] = []
        conversation = MemoryConversation(messages)

        def keep(_: Call, stored: list[Messages] = stored, conversation: MemoryConversation = conversation) -> None:
            stored.append(conversation.resting())

        conversation.on_call = keep
        outcome = await world.chat(messages).complete(conversation)
        if kills and data.draw(st.booleans()):
            kills -= 1
            messages = stored[data.draw(st.integers(1, len(stored) - 1))]
        elif isinstance(outcome, ChatResponse):
            return messages
        else:
            messages = Messages.from_json(messages.to_json())
        waiting = [tool for tool in messages.pending() if isinstance(tool.status, Pending) and tool.status.kind]
        for tool in data.draw(st.permutations(waiting))[: data.draw(st.integers(1, 3))]:
            tool.approve()


@settings(max_examples=100, deadline=None)
@given(PLANS, st.data())
def test_state_does_not_depend_on_completion_order_approvals_or_kills(
    turns: list[list[PlannedCall]], data: st.DataObject
) -> None:
    world = World(turns)
    messages = Messages()
    messages.user("go", state={"from user": 1})
    messages = anyio.run(run_to_end, world, messages, data, 2)
    assert messages.state == world.expected
    for tool_id, states in world.seen.items():
        before = world.expected_before[int(tool_id.split("-")[0])]
        assert states == {json.dumps(before, sort_keys=True)}
