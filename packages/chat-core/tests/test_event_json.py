from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from chat_core import (
    AttemptReset,
    ChatBuilder,
    Data,
    Done,
    File,
    FilePart,
    FunctionCall,
    Messages,
    NestedEvent,
    Paused,
    ProgressEvent,
    RequireApproval,
    ScopedCollection,
    StructuredDelta,
    StructuredPart,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolCollection,
    ToolContext,
    ToolData,
    ToolProgress,
    UsageError,
    Wait,
    WaitKind,
    event_schema,
)
from chat_core.event_json import JsonEvent, event_type
from chat_core.testing import ScriptedProvider
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

pytestmark = pytest.mark.anyio
SCHEMA = Draft202012Validator(event_schema())
KINDS: Sequence[type] = [*get_args(ProgressEvent), Paused, Done]
tools = ToolCollection()
TOOL = Tool(FunctionCall("pay", {"amount": 5}))


@tools.tool
async def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    context.progress({"paid": amount})
    return "paid"


@dataclass
class City:
    name: str


def checked(event: JsonEvent) -> dict[str, object]:
    """Return the JSON of an event after a round trip, checked against the schema."""
    data = event.to_dict()
    SCHEMA.validate(data)  # pyright: ignore[reportUnknownMemberType] - half typed there
    assert json.loads(json.dumps(data)) == data
    return data


def test_every_event_has_a_unique_type_in_the_schema() -> None:
    names = [event_type(kind) for kind in KINDS]

    assert all(issubclass(kind, JsonEvent) for kind in KINDS)
    assert len(names) == len(set(names))
    definitions: Any = event_schema()["$defs"]
    for kind, name in zip(KINDS, names, strict=True):
        properties = definitions[name]["properties"]
        assert properties["type"] == {"const": name}
        assert {item.name for item in fields(kind)} - {"text_so_far"} <= {*properties}
    Draft202012Validator.check_schema(event_schema())


async def test_the_events_of_a_run_satisfy_the_schema() -> None:
    model = ScriptedProvider(FunctionCall("pay", {"amount": 5}), "done")
    outer = ChatBuilder().with_model(ScriptedProvider(FunctionCall("bank", {"request": "pay"}), "all done"))
    inner = ChatBuilder().with_model(model).with_tools(tools).build()
    chat = outer.with_scoped_tools(inner.as_tool(name="bank", description="Ask the bank.")).build()

    async with chat.stream(Messages.from_user("pay 5")) as stream:
        seen = [checked(event) async for event in stream]

    types = {event["type"] for event in seen}
    assert {"text_delta", "tool_call", "tool_started", "tool_result", "nested_event", "step_finished"} <= types
    nested = [event["event"] for event in seen if event["type"] == "nested_event"]
    assert [event["value"] for event in nested if event["type"] == "tool_progress"] == [{"paid": 5}]  # type: ignore[index]  # JSON
    assert seen[-1]["type"] == "done"
    assert seen[-1]["response"]["turn"]["parts"] == [{"type": "text", "text": "all done"}]  # type: ignore[index]  # JSON


async def test_paused_event_lists_the_calls_that_wait() -> None:
    model = ScriptedProvider(FunctionCall("pay", {"amount": 5}, id="c1"))
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval(expires_in=timedelta(hours=1)))
    messages = Messages.from_user("pay 5")

    outcome = await ChatBuilder().with_model(model).with_scoped_tools(scope).build().complete(messages)

    assert isinstance(outcome, Paused)
    (wait,) = outcome.waiting
    assert wait.expires_at is not None
    assert checked(outcome)["waiting"] == [
        {
            "kind": "approval",
            "tool_id": wait.tool_id,
            "path": [wait.tool_id],
            "name": "pay",
            "arguments": {"amount": 5},
            "expires_at": wait.expires_at.isoformat(),
            "revision": messages.tool(wait.tool_id).revision,
        }
    ]


async def test_done_event_of_a_structured_answer_contains_its_value() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider('{"name": "Utrecht"}')).with_structured_output(City).build()

    async with chat.stream(Messages.from_user("where?")) as stream:
        seen = [checked(event) async for event in stream]

    assert {key: value for key, value in seen[0].items() if key != "count"} == {
        "type": "structured_delta",
        "text": seen[0]["text"],
    }
    assert seen[-1]["response"]["value"] == {"name": "Utrecht"}  # type: ignore[index]  # JSON


def test_file_in_an_event_is_encoded_as_base64() -> None:
    data = checked(FilePart(File.from_bytes(b"\x89PNG\r\n\x1a\n", mime="image/png")))

    assert data["file"] == {"type": "file", "mime": "image/png", "data": "iVBORw0KGgo="}


def test_tool_data_has_the_same_json_in_an_event_as_in_a_stored_conversation() -> None:
    assert checked(ToolData(TOOL, Data("chart", [1])))["data"] == {"type": "chart", "payload": [1]}
    page = File("text/html", url="https://example.org")
    assert checked(ToolData(TOOL, Data("page", page)))["data"] == {
        "type": "page",
        "file": {"type": "file", "mime": "text/html", "url": "https://example.org"},
    }


def test_event_json_omits_optional_fields_that_are_none_and_keeps_required_fields() -> None:
    assert checked(ToolCallDelta("{")) == {"type": "tool_call_delta", "arguments": "{", "index": 0}
    assert checked(ToolProgress(TOOL, None))["value"] is None


def test_tool_progress_is_converted_to_json_or_raises_usage_error() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)

    assert checked(ToolProgress(TOOL, City("Utrecht")))["value"] == {"name": "Utrecht"}
    assert checked(ToolProgress(TOOL, {"at": at, "share": float("inf")}))["value"] == {
        "at": at.isoformat(),
        "share": None,
    }
    with pytest.raises(UsageError, match=r"ToolProgress\.value has a object, which cannot be written as JSON"):
        ToolProgress(TOOL, object()).to_dict()


def test_done_event_writes_an_output_of_another_class_unchanged() -> None:
    assert checked(Done(7)) == {"type": "done", "response": 7}


def structured(piece: str) -> StructuredDelta:
    return StructuredDelta(piece, [piece], 1)


def progress(name: str, value: object) -> ToolProgress:
    return ToolProgress(TOOL, {name: value})


def pause(kind: WaitKind, name: str) -> Paused:
    return Paused((Wait(kind, name, (name,), name, {name: 1}),))


def nest(inner: st.SearchStrategy[JsonEvent]) -> st.SearchStrategy[JsonEvent]:
    return st.builds(NestedEvent, st.lists(text).map(tuple), inner)


text = st.text(st.characters(exclude_categories=["Cs"]))
kinds: st.SearchStrategy[WaitKind] = st.sampled_from(get_args(WaitKind))
leaves: st.SearchStrategy[JsonEvent] = st.one_of(
    st.builds(TextDelta, text),
    st.builds(AttemptReset, st.integers(1), text),
    st.builds(structured, text),
    st.builds(StructuredPart, st.none() | text | st.dictionaries(text, st.integers(), max_size=2)),
    st.builds(ToolCallDelta, text, st.integers(0), st.none() | text, st.none() | text),
    st.builds(progress, text, st.none() | text | st.floats()),
    st.builds(pause, kinds, text),
)


@given(st.recursive(leaves, nest, max_leaves=3))
def test_any_event_satisfies_the_schema(event: JsonEvent) -> None:
    checked(event)


@pytest.mark.parametrize("kind", KINDS)
def test_event_without_required_fields_does_not_satisfy_the_schema(kind: type) -> None:
    event: Any = {"type": event_type(kind)}

    assert not SCHEMA.is_valid(event)  # pyright: ignore[reportUnknownMemberType] - half typed there
