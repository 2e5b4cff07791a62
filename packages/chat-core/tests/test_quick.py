"""The fast reader of turns compared with the full reader: which turns it reads, and which it rejects."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from chat_core.errors import InvalidDocumentError
from chat_core.messages import (
    Completed,
    Content,
    FunctionCall,
    Messages,
    Part,
    Role,
    Suspended,
    Text,
    Tool,
    Turn,
    codec,
    tool_from_dict,
    tool_to_dict,
    turn_from_dict,
    turn_to_dict,
)
from chat_core.messages._fields import format_time
from chat_core.messages._quick import read_turn_fast
from chat_core.messages._tool_codec import parse_plain_arguments
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_places import places

CORPUS = Path(__file__).parent / "corpus"
GOLDEN = sorted(CORPUS.glob("*.json"))
AT = "2026-03-01T12:00:00.000001+00:00"

# The shape that nearly every turn has, and one of every part.
TOOL: dict[str, Any] = {
    "type": "tool",
    "id": "a",
    "call_id": "b",
    "call": {"name": "f", "raw": '{"city": "Paris", "days": 2, "now": true, "then": null}'},
    "status": {"type": "completed", "result": {"a": [1]}},
    "idempotency_key": "k",
    "attempts": 1,
    "revision": 2,
}
USUAL: dict[str, Any] = {
    "version": 1,
    "contents": [
        {"role": "user", "turns": [{"parts": [{"type": "text", "text": "hello"}], "created_at": AT}]},
        {
            "role": "model",
            "turns": [
                {"parts": [TOOL], "created_at": AT, "finish_reason": "tool_calls", "metadata": {"provider": "p"}},
                {"parts": [{"type": "reasoning", "text": "hm"}], "created_at": AT, "finish_reason": "stop"},
            ],
        },
    ],
}
DOCUMENTS: list[Any] = [USUAL, *[json.loads(path.read_bytes()) for path in GOLDEN]]
REMOVED = object()
ODD: list[Any] = [
    *[REMOVED, None, True, 0, -1, 1.0, 1.5, 10**400, float("nan"), "", "x", "\ud83d", [], [[]], {}],
    *["text", "tool", "stop", "completed", "2026-03-01", "2026-03-01T12:00:00", "2026-03-01T12:00:00Z"],
    *['{"a": 1.5}', '{"a": NaN}', '{"a": 1e999}', '{"a": [1e999]}', "[1]", "null", " ", "{"],
    *[{"type": "text"}, {"type": "text", "text": "x"}, {"type": "completed", "result": 1}, {"type": "hologram"}, TOOL],
]


def spoilt(value: Any, path: tuple[Any, ...], item: Any) -> Any:
    """Return a copy of `value` with `item` at `path`, without the value at `path`, or with an additional field."""
    value = copy.deepcopy(value)
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    if item is REMOVED:
        del holder[path[-1]]
    elif isinstance(item, str) and item == "x" and isinstance(holder[path[-1]], dict):
        holder[path[-1]]["x_later"] = item
    else:
        holder[path[-1]] = copy.deepcopy(item)
    return value


def outcome(text: str) -> object:
    """Return everything observable of a parsed conversation, or the error."""
    try:
        messages = Messages.from_json(text)
    except InvalidDocumentError as error:
        return type(error), str(error), error.path
    waiting = [tool.id for tool in messages.pending()]
    parts = [(type(part), part.extra, vars_of(part)) for content in messages for part in content.parts]
    turns = [(turn, repr(turn.metadata), turn.extra) for content in messages for turn in content.turns]
    return repr(messages), messages.to_json(), waiting, messages.usage, repr(parts), repr(turns)


def vars_of(part: Part) -> list[object]:
    return [getattr(part, name) for name in type(part).__slots__]


def carefully(text: str) -> object:
    """Return the same outcome for the full reader alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "read_turn_fast", nothing)
        return outcome(text)


def nothing(_: object) -> None:
    """Replacement for the fast reader that reads no turn."""


# --- Comparison of both readers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", DOCUMENTS, ids=["usual", *[path.stem for path in GOLDEN]])
def test_quick_and_careful_reader_read_the_same_conversation(value: Any) -> None:
    text = json.dumps(value)
    assert outcome(text) == carefully(text)


def test_quick_and_careful_reader_agree_on_mutations_of_the_usual_document() -> None:
    for path in places(USUAL):
        for item in ODD if path else []:
            text = json.dumps(spoilt(USUAL, path, item))
            assert outcome(text) == carefully(text), text


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_quick_and_careful_reader_agree_on_mutations_of_any_document(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(DOCUMENTS))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(value))[1:]))
        value = spoilt(value, path, data.draw(st.sampled_from(ODD)))
    text = json.dumps(value)
    assert outcome(text) == carefully(text)


# --- The fast reader ---------------------------------------------------------------------------------------------


def turn(**fields: Any) -> dict[str, Any]:
    return {"parts": [{"type": "text", "text": "hello"}], "created_at": AT, **fields}


def test_quick_reader_reads_common_turns() -> None:
    for content in USUAL["contents"]:
        for item in content["turns"]:
            found = read_turn_fast(item)
            assert found is not None
            assert found == turn_from_dict(item, Messages)


@pytest.mark.parametrize(
    "item",
    [
        turn(by="engine"),
        turn(x_later=1),
        turn(finish_reason="tired"),
        turn(created_at="2026-03-01T12:00:00"),
        turn(parts=[{"type": "hologram"}]),
        turn(parts=["text"]),
        turn(parts={}),
        turn(metadata=[]),
        {},
    ],
)
def test_quick_reader_returns_none_for_unusual_turns(item: dict[str, Any]) -> None:
    assert read_turn_fast(item) is None


def test_inner_conversations_are_read_once_at_any_depth() -> None:
    read: list[object] = []

    def counted(data: dict[str, Any]) -> Turn | None:
        read.append(data)
        return read_turn_fast(data)

    messages = Messages.from_user("deepest")
    for _ in range(20):
        tool = Tool(FunctionCall("delegate"), id="a", status=Suspended(messages, "b"))
        messages = Messages([Content("model", [Turn([tool])])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "read_turn_fast", counted)
        assert Messages.from_json(messages.to_json()) == messages
    assert len(read) == 21


def test_reading_a_turn_does_not_change_the_parsed_data() -> None:
    inner = {"version": 1, "contents": [{"role": "user", "turns": [turn()]}]}
    tool = {"type": "tool", "id": "a", "call": {"name": "f"}, "status": {"type": "suspended", "inner": inner}}
    data = turn(parts=[tool, TOOL], metadata={"extra": {"a": [1]}})
    before = copy.deepcopy(data)
    assert turn_from_dict(data, Messages).tools[0] == tool_from_dict(tool, Messages)
    assert data == before


def test_inner_conversations_nested_too_deeply_raise() -> None:
    value: dict[str, Any] = {"version": 1, "contents": []}
    for _ in range(110):
        tool = {"type": "tool", "id": "a", "call": {"name": "f"}, "status": {"type": "suspended", "inner": value}}
        value = {"version": 1, "contents": [{"role": "model", "turns": [turn(parts=[tool])]}]}
    with pytest.raises(InvalidDocumentError, match="nested too deeply"):
        Messages.from_json(json.dumps(value))


# --- Created objects ---------------------------------------------------------------------------------------------


def test_quick_reader_creates_the_same_objects_as_the_constructors() -> None:
    found = Messages.from_json(json.dumps(USUAL))
    text, tool = found[0].parts[0], found.tool("a")
    assert (type(text), text, hash(text)) == (Text, Text("hello"), hash(Text("hello")))
    assert tool.call == FunctionCall.parse("f", tool.call.text)
    assert tool == Tool(
        tool.call,
        id="a",
        call_id="b",
        status=Completed({"a": [1]}),
        idempotency_key="k",
        attempts=1,
        revision=2,
    )
    with pytest.raises(FrozenInstanceError):
        text.text = "other"  # type: ignore[misc, union-attr]  # pyright: ignore[reportAttributeAccessIssue] - that is the test
    assert copy.deepcopy(text) == text
    assert pickle.loads(pickle.dumps(tool.call)) == tool.call  # noqa: S301 - our own


# --- Fast encoding -----------------------------------------------------------------------------------------------


@given(st.datetimes(timezones=st.sampled_from([UTC, UTC, timezone(timedelta(0)), timezone(timedelta(hours=-3))])))
@example(datetime(2026, 3, 1, 12, tzinfo=UTC))
@example(datetime(999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
def test_format_time_equals_isoformat(at: datetime) -> None:
    assert format_time(at) == at.isoformat()


@given(
    st.sampled_from([*ODD, '{"a": "b"}']).filter(lambda item: isinstance(item, str)) | st.text(max_size=9), st.data()
)
def test_call_is_stored_as_text_only_if_its_arguments_can_be_parsed_from_it(raw: str, data: st.DataObject) -> None:
    parsed = FunctionCall.parse("f", raw)
    assert parse_plain_arguments(raw) in (None, parsed.arguments)
    arguments = data.draw(st.sampled_from([parsed.arguments, {}, {"a": 1}]))
    problem = data.draw(st.sampled_from([parsed.problem, None, "bad"]))
    call = FunctionCall("f", arguments, raw=raw, problem=problem)
    said = cast("dict[str, Any]", tool_to_dict(Tool(call))["call"])
    follows = (parsed.arguments, parsed.problem) == (arguments, problem)
    assert ("arguments" in said or "problem" in said) is not follows


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 40])
@pytest.mark.parametrize("extra", [None, {}, {"version": 7}, {"x_later": "später", "contents": 1, "y_later": [None]}])
def test_document_of_any_length_equals_the_json_of_its_contents(count: int, extra: dict[str, object] | None) -> None:
    roles: list[Role] = ["user", "model"]
    messages = Messages([Content(roles[n % 2], [Turn([Text(f"ä {n}")])]) for n in range(count)], extra=extra)
    text = messages.to_json()
    unread = {key: value for key, value in (extra or {}).items() if key.endswith("_later")}
    contents = [{"role": content.role, "turns": [turn_to_dict(content.turns[0])]} for content in messages]
    assert text == json.dumps({"version": 1, "contents": contents, **unread}, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("extra", [None, {"x_later": "\ud83d"}])
def test_document_with_a_lone_surrogate_is_written_in_ascii_escapes(
    extra: dict[str, object] | None,
) -> None:
    contents = [Content("user" if n % 2 else "model", [Turn([Text("ä")])]) for n in range(40)]
    if extra is None:
        contents[-1] = Content("user", [Turn([Text("\ud83d")])])
    messages = Messages(contents, extra=extra)
    text = messages.to_json()
    assert text.isascii()
    assert Messages.from_json(text) == messages
