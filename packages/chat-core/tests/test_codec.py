from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import cast

import pytest
from chat_core.errors import InvalidDocumentError, NewerVersionError, UsageError
from chat_core.messages import (
    NOBODY,
    Approved,
    Completed,
    Content,
    Data,
    Decision,
    Embedding,
    Failed,
    File,
    FunctionCall,
    Interrupted,
    Messages,
    Opaque,
    Part,
    Pending,
    ProviderPart,
    Reasoning,
    Rejected,
    Role,
    Running,
    Structured,
    Suspended,
    Text,
    Tool,
    ToolStatus,
    Turn,
    codec,
    schema,
    tool_from_dict,
    tool_to_dict,
    turn_from_dict,
    turn_to_dict,
)
from chat_core.usage import Metadata, Usage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_places import places
from jsonschema import Draft202012Validator

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CORPUS = Path(__file__).parent / "corpus"
VALIDATOR = Draft202012Validator(schema())
Document = dict[str, object]


def document(messages: Messages) -> Document:
    return cast("Document", json.loads(messages.to_json()))


def stored(name: str) -> Document:
    return cast("Document", json.loads((CORPUS / f"{name}.json").read_bytes()))


def complaints(value: object) -> list[str]:
    found = VALIDATOR.iter_errors(cast("str", value))  # pyright: ignore[reportUnknownMemberType] - half typed there
    return [f"{error.json_path}: {error.message}" for error in found]


# --- Conversations of every kind ---------------------------------------------------------------------------------

# Two surrogates that meet are one character to JSON, so only the first half of a pair is drawn.
texts = st.text(st.characters(exclude_characters=[chr(code) for code in range(0xDC00, 0xE000)]), max_size=12)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
extras = st.none() | st.dictionaries(texts.map(lambda text: f"x_{text}"), values, min_size=1, max_size=2)
times = st.datetimes(
    datetime(1990, 1, 1),  # noqa: DTZ001 - the zone is drawn apart
    datetime(2100, 1, 1),  # noqa: DTZ001 - the zone is drawn apart
    timezones=st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
maybe_text = st.none() | texts
maybe_time = st.none() | times
counts = st.integers(1, 9)
opaques = st.builds(Opaque, texts, objects, extras)
files = st.builds(File, texts, st.binary(max_size=9), st.none(), maybe_text, st.none() | opaques, extras) | st.builds(
    File, texts, url=texts, extra=extras
)
simple_parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts, st.none() | opaques, extras),
    st.builds(Reasoning, texts, maybe_text, st.none() | opaques, extras),
    st.builds(Structured, values, extras),
    files,
    st.builds(Embedding, st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3).map(tuple), extras),
    st.builds(ProviderPart, texts.filter(bool), texts, objects, extras),
)
calls = st.one_of(
    st.builds(FunctionCall, texts, objects, opaque=st.none() | opaques, extra=extras),
    st.builds(FunctionCall.parse, texts, objects.map(json.dumps) | texts, opaque=st.none() | opaques),
    st.builds(FunctionCall, texts, objects, texts, maybe_text, maybe_text),
)


states = st.none() | objects
kept = st.lists(st.builds(Data, texts.filter(bool), values | files, keep=st.just(True), extra=extras), max_size=2).map(
    tuple
)


def statuses(conversations: st.SearchStrategy[Messages]) -> st.SearchStrategy[ToolStatus]:
    inner = st.none() | conversations
    suspended = st.builds(Suspended, conversations, texts, counts, extras)
    interrupted = st.builds(Interrupted, texts, counts, texts, inner, extras, maybe_time, maybe_time)
    started = st.none() | suspended | interrupted
    return st.one_of(
        st.builds(Pending, st.sampled_from([None, "approval"]), maybe_time, maybe_time, maybe_text, extras, maybe_text),
        st.builds(Pending, st.just("schedule"), st.none(), times, maybe_text, extras),
        st.builds(Pending, st.just("result"), maybe_time, st.none(), maybe_text, extras, maybe_text),
        st.builds(Approved, maybe_time, extras, maybe_text),
        st.builds(Running, texts, counts, maybe_time, inner, extras, st.booleans()),
        suspended,
        interrupted,
        st.builds(Completed, values, st.lists(files, max_size=2).map(tuple), extras, kept, states),
        st.builds(Failed, texts, extras),
        st.builds(Rejected, maybe_text, st.sampled_from(["person", "policy", "expiry", "cancelled"]), extras, started),
    )


decisions = st.builds(
    Decision,
    st.sampled_from(["approve", "reject", "cancel", "retry", "complete", "fail"]),
    maybe_text,
    maybe_time,
    maybe_text,
    st.none() | objects,
    extras,
)
metadata = st.builds(
    Metadata,
    maybe_text,
    maybe_text,
    maybe_text,
    maybe_text,
    st.builds(Usage, *[st.integers(0, 9)] * 5),
    objects,
    extras,
)


def conversations_of(inner: st.SearchStrategy[Messages]) -> st.SearchStrategy[Messages]:
    tools = st.builds(
        Tool,
        calls,
        id=texts,
        call_id=maybe_text,
        status=statuses(inner),
        edited=st.none() | objects,
        decisions=st.lists(decisions, max_size=2).map(tuple),
        idempotency_key=texts,
        attempts=counts,
        revision=counts,
        extra=extras,
    )
    turns = st.builds(
        Turn,
        st.lists(simple_parts | tools, max_size=3),
        finish_reason=st.sampled_from([None, "stop", "length", "tool_calls", "refusal", "other"]),
        metadata=st.none() | metadata,
        created_at=times,
        by=st.sampled_from([None, "engine"]),
        client_tools=st.lists(objects, max_size=2),
        state=states,
        extra=extras,
    )
    roles: st.SearchStrategy[Role] = st.sampled_from(["system", "user", "model"])
    contents = st.builds(Content, roles, st.lists(turns, max_size=2), extra=extras)
    return st.builds(Messages, st.lists(contents, max_size=3), state=states, extra=extras)


conversations = conversations_of(st.recursive(st.builds(Messages), conversations_of, max_leaves=2))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversations)
def test_any_conversation_survives_the_round_trip_and_satisfies_the_schema(messages: Messages) -> None:
    text = messages.to_json()
    text.encode()  # a database takes nothing but UTF-8
    again = Messages.from_json(text)
    assert again == messages
    assert again.to_json() == text
    assert Messages.from_json(text.encode()) == messages
    assert complaints(json.loads(text)) == []


# --- Golden conversations ----------------------------------------------------------------------------------------

GOLDEN = sorted(path.stem for path in CORPUS.glob("*.json"))


def test_the_corpus_has_at_least_24_documents() -> None:
    assert len(GOLDEN) >= 24


@pytest.mark.parametrize("name", GOLDEN)
def test_each_document_of_the_corpus_loads_and_is_written_unchanged(name: str) -> None:
    data = stored(name)
    messages = Messages.from_json((CORPUS / f"{name}.json").read_bytes())
    assert document(messages) == data
    assert complaints(data) == []


def test_a_stored_pause_loads_its_waiting_calls_with_deadline_and_arguments() -> None:
    messages = Messages.from_json((CORPUS / "paused-two-approvals.json").read_bytes())
    waiting = messages.pending()
    assert [tool.call_id for tool in waiting] == ["call_1", "call_2"]
    assert waiting[0].status == Pending("approval", NOON + timedelta(days=1))
    assert waiting[0].effective_arguments == {"to": "DE02120300000000202051", "cents": 50000}


# --- Malformed documents -----------------------------------------------------------------------------------------


def put(value: object, path: tuple[str | int, ...], item: object) -> object:
    if not path:
        return item
    *steps, last = path
    inner: dict[str | int, object] = cast("dict[str | int, object]", value)
    for step in steps:
        inner = cast("dict[str | int, object]", inner[step])
    if item is REMOVED:
        del inner[last]
    else:
        inner[last] = item
    return value


REMOVED = object()
ODDS: list[object] = [0, -1, 1.5, 2.0, True, 10**400, {}, [], [{}], {"type": "tool"}, {"version": 7}]
SPOILS: st.SearchStrategy[object] = st.one_of(
    st.just(REMOVED),
    values,
    st.sampled_from(["", "text", "tool", "schedule", "2026-03-01", "2026-03-01T12:00:00", "2026-99-01T00Z", "ä"]),
    st.sampled_from(ODDS),
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_corrupted_document_loads_or_raises_invalid_document_error(data: st.DataObject) -> None:
    spoilt: object = stored(data.draw(st.sampled_from(GOLDEN)))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(spoilt))))
        item = data.draw(SPOILS)
        item = item if item is REMOVED else copy.deepcopy(item)
        if path or item is not REMOVED:
            spoilt = put(spoilt, path, item)
    try:
        messages = Messages.from_json(json.dumps(spoilt))
    except InvalidDocumentError as error:
        assert str(error).startswith(error.path)  # noqa: PT017 - either way is right
    else:
        again = Messages.from_json(messages.to_json())
        assert again.to_json() == messages.to_json()
        assert complaints(document(messages)) == []


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40) | st.text(max_size=40))
def test_text_that_is_not_json_raises_invalid_document_error(data: bytes | str) -> None:
    with pytest.raises(InvalidDocumentError):
        Messages.from_json(data)


TURN = ("contents", 1, "turns", 0)
TOOL = (*TURN, "parts", 1)
WRONG: list[tuple[tuple[str | int, ...], object, str]] = [
    ((), [], "expected an object, not an array"),
    (("version",), REMOVED, "version: expected a whole number of at least 1, not 0"),
    (("version",), "1", "version: expected a whole number of at least 1, not '1'"),
    (("contents",), {}, "contents: expected an array, not an object"),
    (("contents",), REMOVED, "contents: missing"),
    (("contents", 1), None, "contents[1]: expected an object, not null"),
    (("contents", 1, "role"), "assistant", "contents[1].role: expected one of system, user, model, not 'assistant'"),
    ((*TURN, "created_at"), REMOVED, "contents[1].turns[0].created_at: missing"),
    (
        (*TURN, "created_at"),
        "2026-03-01T12:00:00",
        "contents[1].turns[0].created_at: expected a time with a time zone, not '2026-03-01T12:00:00'",
    ),
    ((*TURN, "created_at"), "today", "contents[1].turns[0].created_at: expected a time in ISO 8601, not 'today'"),
    ((*TURN, "metadata", "duration"), -0.5, "contents[1].turns[0].metadata.duration: expected a number of at least 0"),
    ((*TURN, "metadata", "duration"), "1 s", "contents[1].turns[0].metadata.duration: expected a number of at least 0"),
    ((*TURN, "metadata", "usage", "input_tokens"), -1, "contents[1].turns[0].metadata.usage.input_tokens: expected a"),
    ((*TURN, "parts", 0, "text"), 1, "contents[1].turns[0].parts[0].text: expected a string, not 1"),
    ((*TURN, "parts", 0, "type"), None, "contents[1].turns[0].parts[0].type: expected a string, not null"),
    ((*TOOL, "id"), "", "contents[1].turns[0].parts[1].id: expected an id, not ''"),
    (
        (*TOOL, "id"),
        "call_2",
        "contents[1].turns[0].parts[2].id: two tool calls have the id 'call_2': give each call a different id",
    ),
    ((*TOOL, "status"), REMOVED, "contents[1].turns[0].parts[1].status: missing"),
    ((*TOOL, "status"), "pending", "contents[1].turns[0].parts[1].status: expected an object, not 'pending'"),
    ((*TOOL, "status", "type"), "lost", "contents[1].turns[0].parts[1].status.type: expected one of pending, approved"),
    ((*TOOL, "status", "kind"), "schedule", "contents[1].turns[0].parts[1].status.at: missing"),
    ((*TOOL, "call", "raw"), [], "contents[1].turns[0].parts[1].call.raw: expected a string, not an array"),
    ((*TOOL, "decisions"), [{}], "contents[1].turns[0].parts[1].decisions[0].action: missing"),
    ((*TOOL, "status"), {"type": "suspended", "inner": {"version": 1, "contents": [0]}}, ".status.inner.contents[0]: "),
    ((*TURN, "parts", 0), {"type": "file", "mime": "a/b", "data": "?"}, ".parts[0].data: expected base64, not '?'"),
    ((*TURN, "parts", 0), {"type": "file", "mime": "a/b"}, ".parts[0]: expected a file with data, a url, or opaque"),
    ((*TURN, "parts", 0), {"type": "file", "data": "", "url": ""}, ".parts[0].url: expected bytes or a URL, not both"),
    ((*TURN, "parts", 0), {"type": "embedding", "vector": [0, "1"]}, ".parts[0].vector[1]: expected a number, not '1'"),
]


@pytest.mark.parametrize(
    ("path", "item", "message"), WRONG, ids=lambda value: "removed" if value is REMOVED else str(value)
)
def test_invalid_document_error_names_the_path_and_the_expected_value(
    path: tuple[str | int, ...], item: object, message: str
) -> None:
    with pytest.raises(InvalidDocumentError) as caught:
        Messages.from_json(json.dumps(put(stored("paused-two-approvals"), path, item)))
    assert message in str(caught.value)
    assert not isinstance(caught.value, NewerVersionError)


def test_a_document_of_a_later_version_raises_newer_version_error() -> None:
    with pytest.raises(
        NewerVersionError, match="version: the document has version 2, but this library reads versions up to 1"
    ):
        Messages.from_json('{"version": 2, "contents": "in another shape"}')
    inner = {"type": "suspended", "inner": {"version": 2}}
    with pytest.raises(NewerVersionError) as caught:
        Messages.from_json(json.dumps(put(stored("paused-two-approvals"), (*TOOL, "status"), inner)))
    assert caught.value.path == "contents[1].turns[0].parts[1].status.inner.version"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version": 1, "contents": ' + "[" * 900 + "]" * 900 + "}"])
def test_a_document_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(InvalidDocumentError):
        Messages.from_json(text)


# --- Round trips -------------------------------------------------------------------------------------------------


def one_part(part: Part) -> Part:
    return Messages.from_json(Messages([Content("model", [Turn([part])])]).to_json())[0].parts[0]


def written(part: Part) -> Mapping[str, object]:
    parts = turn_to_dict(Turn([part]))["parts"]
    return cast("list[dict[str, object]]", parts)[0]


@pytest.mark.parametrize("call_id", [None, "", "toolu_01A09q90qw90", "вызов/😀\n", "\ud83d", "0", "x" * 5000])
def test_any_text_is_a_valid_call_id(call_id: str | None) -> None:
    tool = Tool(FunctionCall("f"), call_id=call_id)
    assert one_part(tool) == tool


def test_a_document_with_a_repeated_tool_id_is_refused() -> None:
    data = stored("paused-two-approvals")
    with pytest.raises(InvalidDocumentError, match="two tool calls have the id"):
        Messages.from_json(json.dumps(put(data, (*TOOL, "id"), "call_2")))


def test_the_bytes_of_a_file_are_stored_as_base64() -> None:
    data = bytes(range(256))
    assert written(File("a/b", data=b"\xff\x00"))["data"] == "/wA="
    assert one_part(File("a/b", data=data)) == File("a/b", data=data)


def test_a_lone_surrogate_survives_the_round_trip() -> None:
    assert one_part(Text("\ud83d half")) == Text("\ud83d half")


def test_the_time_of_a_turn_keeps_its_zone_in_a_document() -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    again = turn_from_dict(json.loads(json.dumps(turn_to_dict(Turn([], created_at=at)))), Messages)
    assert again.created_at.isoformat() == "2026-03-01T12:00:00.000001+05:45"


def test_a_turn_with_a_naive_time_is_refused() -> None:
    with pytest.raises(UsageError, match="has no time zone"):
        Turn([], created_at=datetime(2026, 3, 1))  # noqa: DTZ001 - that is the test


def test_arguments_are_stored_with_the_raw_text_only_if_they_differ() -> None:
    raw = '{"cents":  500}'
    assert written(Tool(FunctionCall.parse("f", raw)))["call"] == {"name": "f", "raw": raw}
    assert written(Tool(FunctionCall("f", {"a": 1})))["call"] == {"name": "f", "arguments": {"a": 1}}
    assert written(Tool(FunctionCall("f")))["call"] == {"name": "f"}
    both = FunctionCall("f", {"cents": 1}, raw=raw)
    assert written(Tool(both))["call"] == {"name": "f", "raw": raw, "arguments": {"cents": 1}}
    assert one_part(Tool(both, id="a")) == Tool(both, id="a")


def test_the_problem_of_a_malformed_call_is_not_stored_but_found_again() -> None:
    cut = Tool(FunctionCall.parse("f", '{"cents": 5'), id="a")
    assert written(cut)["call"] == {"name": "f", "raw": '{"cents": 5'}
    again = one_part(cut)
    assert again == cut
    assert cut.call.problem


def test_unknown_fields_survive_the_round_trip_at_every_level() -> None:
    data = stored("unknown-fields")
    messages = Messages.from_json(json.dumps(data))
    assert document(messages) == data
    marked = [path for path in places(data) if path and path[-1] == "x_later"]
    assert len(marked) > 40


def test_unknown_fields_survive_a_status_change_except_those_of_the_old_status() -> None:
    messages = Messages.from_json(json.dumps(stored("unknown-fields")))
    messages.tool("call_1").approve(at=NOON)
    tool = tool_to_dict(messages.tool("call_1"))
    assert "x_later" in tool
    assert "x_later" in cast("dict[str, object]", tool["call"])
    assert "x_later" not in cast("dict[str, object]", tool["status"])


def test_an_extra_field_does_not_override_a_field_of_the_part() -> None:
    assert written(Text("mine", extra={"text": "theirs", "more": 1})) == {"type": "text", "text": "mine", "more": 1}


def test_a_part_of_an_unknown_type_is_kept_as_a_part_of_no_provider() -> None:
    messages = Messages.from_json(json.dumps(stored("unknown-part")))
    part = messages[1].parts[1]
    assert isinstance(part, ProviderPart)
    assert (part.provider, part.kind) == (NOBODY, "hologram")
    assert document(messages) == stored("unknown-part")


def test_conversations_of_suspended_calls_survive_the_round_trip_at_any_depth() -> None:
    messages = Messages.from_user("deepest")
    for _ in range(40):
        tool = Tool(FunctionCall("delegate"), id="a", status=Suspended(messages, "b"))
        messages = Messages([Content("model", [Turn([tool])])])
    again = Messages.from_json(messages.to_json())
    assert again == messages
    while again.pending():
        inner = again.pending()[0].inner
        assert inner is not None
        again = inner
    assert again[0].text == "deepest"


def test_an_approval_by_path_is_stored_in_the_outer_document() -> None:
    messages = Messages.from_json(json.dumps(stored("suspended-nested")))
    messages.tool("call_1", "call_1", "call_1", "call_1").approve(by="ana", at=NOON)
    again = Messages.from_json(messages.to_json())
    assert isinstance(again.tool("call_1", "call_1", "call_1", "call_1").status, Approved)
    assert isinstance(again.tool("call_1", "call_1", "call_1").status, Suspended)


def test_nan_and_infinity_are_stored_as_null() -> None:
    turn = Turn([Embedding((math.nan, 1.0))], metadata=Metadata(extra={"logprob": -math.inf}))
    data = document(Messages([Content("model", [turn])]))
    assert complaints(data) == []
    again = Messages.from_json(json.dumps(data))[0].turns[0]
    assert again.metadata is not None
    assert again.metadata.extra == {"logprob": None}
    vector = cast("Embedding", again.parts[0]).vector
    assert math.isnan(vector[0])


def test_to_json_refuses_metadata_that_is_not_json() -> None:
    messages = Messages([Content("model", [Turn([], metadata=Metadata(extra={"a": object()}))])])
    with pytest.raises(UsageError, match="a value that is not JSON"):
        messages.to_json()


def test_a_document_with_two_waiting_calls_adds_at_most_1000_bytes_to_its_text() -> None:
    messages = Messages.from_user("Pay both invoices, please.")
    raw = '{"to":"DE02120300000000202051","cents":500}'
    calls = [Tool(FunctionCall.parse("transfer", raw), call_id=f"call_HbnqQ9yTjW0fF0vLwCQ4Nn{n}") for n in (1, 2)]
    usage = Usage(1200, 350, 640, 0, 100)
    metadata = Metadata("openai", "gpt-5-mini-2025-08-07", "chatcmpl-CQ4Nn6HAbnqQ9yTjW0fF0vLw", "tool_calls", usage)
    said = Text("Both need your approval.")
    messages.append("model", Turn([said, *calls], finish_reason="tool_calls", metadata=metadata))
    for tool in calls:
        tool.await_approval(NOON)
    text = messages[0].text + messages[1].text + "".join([tool.name + tool.call.text for tool in calls])
    assert len(messages.to_json().encode()) - len(text) <= 1000


# --- For a journal -----------------------------------------------------------------------------------------------


def test_a_tool_and_a_turn_can_be_stored_separately() -> None:
    tool = Tool(FunctionCall.parse("f", "{}"), call_id="a", status=Suspended(Messages.from_user("x"), "b"))
    assert tool_from_dict(json.loads(json.dumps(tool_to_dict(tool))), Messages) == tool
    turn = Turn([Text("x"), tool], finish_reason="stop", created_at=NOON, by="engine")
    assert turn_from_dict(json.loads(json.dumps(turn_to_dict(turn))), Messages) == turn


@pytest.mark.parametrize("status", [Completed("x"), Suspended(Messages.from_user("x"), "b")])
def test_copy_tool_returns_an_equal_tool_without_shared_mutable_state(status: ToolStatus) -> None:
    tool = Tool(FunctionCall.parse("f", "{}"), call_id="a", status=status)

    twin = codec.copy_tool(tool, Messages)

    assert twin == tool
    assert twin is not tool
    assert twin.inner is None or twin.inner is not tool.inner


@pytest.mark.parametrize("data", [None, [], {}, {"parts": 1}, {"id": "a", "call": {}, "status": {}}])
def test_a_tool_or_a_turn_that_is_malformed_is_refused(data: object) -> None:
    with pytest.raises(InvalidDocumentError):
        tool_from_dict(data, Messages)
    with pytest.raises(InvalidDocumentError):
        turn_from_dict(data, Messages)


def test_the_schema_refuses_documents_that_the_reader_refuses() -> None:
    Draft202012Validator.check_schema(schema())
    for path, item, _ in WRONG:
        spoilt = put(stored("paused-two-approvals"), path, item)
        # Only code can see that an id is repeated, that base64 does not decode, and that a text is no time.
        if item != "call_2" and "?" not in str(item):
            assert complaints(spoilt) != [], path


@pytest.mark.parametrize("levels", [200, 400, 800, 900, 950, 970, 980, 985, 990, 5000])
def test_every_document_that_to_json_writes_can_be_read_back(levels: int) -> None:
    value: object = 1
    for _ in range(levels):
        value = [value]
    messages = Messages.from_user("hi")
    messages.append("model", Turn([ProviderPart("p", "kind", {"value": value})]))
    try:
        text = messages.to_json()
    except UsageError:
        assert levels > 800
        return
    assert read_deeper_in_the_stack(text, 80) == messages


def read_deeper_in_the_stack(text: str, frames: int) -> Messages:
    return read_deeper_in_the_stack(text, frames - 1) if frames else Messages.from_json(text)


@pytest.mark.parametrize("value", ["NaN", "1e400", '{"a": [-Infinity]}'])
def test_a_structured_value_that_is_not_finite_is_an_invalid_document(value: str) -> None:
    parts = f'[{{"type": "structured", "value": {value}}}]'
    document = f'{{"version": 1, "contents": [{{"role": "model", "turns": [{{"parts": {parts}}}]}}]}}'

    with pytest.raises(InvalidDocumentError) as error:
        Messages.from_json(document)

    assert error.value.path == "contents[0].turns[0].parts[0].value"


def test_a_stored_user_turn_keeps_its_client_id() -> None:
    messages = Messages([Content("user", [Turn([Text("hi")], client_id="m-1"), Turn([Text("there")])])])
    document = messages.to_json()
    assert document.count("client_id") == 1
    assert [turn.client_id for turn in Messages.from_json(document)[0].turns] == ["m-1", None]
