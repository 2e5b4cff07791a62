"""The list of pending approvals: search, filters, order, paging and rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chat_core import FunctionCall, Wait
from chat_core.messages import Content, Messages, Suspended, Text, Tool, Turn
from chat_inbox.http_errors import HTTPError
from chat_inbox.pending_list import PendingQuery, asked_at, build_row, field_name, order_calls
from chat_store import MemoryStore, Snapshot, Waiting
from inbox_helpers import Bank

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def waiting(
    name: str = "transfer", conversation: str = "c", person: str | None = "ana", **arguments: object
) -> Waiting:
    return Waiting(conversation, person, Wait("approval", "call_1", ("call_1",), name, arguments))


async def stored(store: MemoryStore, name: str, age: timedelta) -> Snapshot:
    tool = Tool(FunctionCall("transfer", {}, id="call_1"), call_id="call_1")
    tool.await_approval()
    messages = Messages.from_user(f"Please, {name}.")
    messages.push(Content("model", [Turn([tool], created_at=NOW - age)]))
    await store.create(messages, id=name)
    return await store.load(name)


@pytest.mark.parametrize(
    ("params", "matches"),
    [
        pytest.param({}, True, id="no-filter"),
        pytest.param({"q": "mARIA"}, True, id="search-in-arguments"),
        pytest.param({"q": "TRANS"}, True, id="search-in-tool"),
        pytest.param({"q": "ben"}, False, id="search-without-match"),
        pytest.param({"tool": "transfer"}, True, id="tool"),
        pytest.param({"tool": "trans"}, False, id="part-of-a-tool"),
        pytest.param({"person": "ana", "conversation": "c"}, True, id="person-and-conversation"),
        pytest.param({"person": "ana", "conversation": "d"}, False, id="other-conversation"),
        pytest.param({"person": "ben"}, False, id="other-person"),
    ],
)
def test_query_matches_calls(params: dict[str, str], matches: bool) -> None:
    assert PendingQuery.parse(params).matches(waiting(to="Maria")) is matches


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ('C:\\temp "old"', True),
        ("first second", True),
        ('["a", {"b": 1}]', True),
        ("note", True),
        ('{"note"', False),
        ("[[", False),
        ('"123"', True),
        ("n 123", False),
        ("123", True),
        ('say "hi"', True),
    ],
)
def test_arguments_are_searched_as_the_page_shows_them(text: str, matches: bool) -> None:
    item = waiting(path='C:\\temp "old"', note="first\nsecond", more=["a", {"b": 1}], number="123", end='say "hi"\n')

    assert PendingQuery.parse({"q": text}).matches(item) is matches


def test_names_in_filters_keep_their_white_space() -> None:
    query = PendingQuery.parse({"person": " ana ", "tool": " t ", "q": " x ", "conversation": " c "})

    assert (query.person, query.tool, query.text, query.conversation) == (" ana ", " t ", "x", "c")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        pytest.param({"age": "year"}, "age must be one of hour, day, week, or be left out, not 'year'", id="age"),
        pytest.param({"sort": "x"}, "sort must be one of oldest, newest, tool", id="sort"),
        pytest.param({"page": "0"}, "page must be a whole number of at least 1, not '0'", id="page-zero"),
        pytest.param({"page": "²"}, "page must be a whole number of at least 1", id="page-not-ascii"),
        pytest.param({"page": "1234567"}, "page must be a whole number of at least 1", id="page-too-long"),
    ],
)
def test_unknown_values_of_a_query_are_refused(params: dict[str, str], message: str) -> None:
    with pytest.raises(HTTPError, match=message) as caught:
        PendingQuery.parse(params)
    assert caught.value.status == 400


def test_query_string_keeps_the_filters() -> None:
    query = PendingQuery.parse({"q": "a&b", "tool": "pay", "sort": "oldest", "page": "3", "unknown": "x"})

    assert query.encode(2) == "?q=a%26b&tool=pay&sort=oldest&page=2"
    assert PendingQuery().encode() == ""
    assert PendingQuery(text="\ud800").encode() == "?q=%3F"
    assert (query.is_filtered, PendingQuery(sort="tool", page=2).is_filtered) == (True, False)


@pytest.mark.anyio
async def test_calls_are_filtered_and_ordered_by_age() -> None:
    store = MemoryStore()
    ages = {"new": timedelta(minutes=1), "old": timedelta(days=2), "older": timedelta(days=8)}
    snapshots: dict[str, Snapshot | None] = {name: await stored(store, name, age) for name, age in ages.items()}
    snapshots["hidden"] = None
    items = [waiting(conversation=name) for name in ("old", "hidden", "older", "new")]

    def found(**values: str) -> list[str]:
        return [item.conversation for item in order_calls(items, PendingQuery.parse(values), snapshots, NOW)]

    assert found() == ["old", "hidden", "older", "new"]
    assert found(age="day") == ["old", "older"]
    assert found(age="week") == ["older"]
    assert found(sort="oldest") == ["older", "old", "new", "hidden"]
    assert found(sort="newest", age="day") == ["old", "older"]
    named = [waiting("b"), waiting("A")]
    assert [item.wait.name for item in order_calls(named, PendingQuery(sort="tool"), {}, NOW)] == ["A", "b"]


def test_asked_at_finds_calls_of_inner_conversations() -> None:
    inner = Tool(FunctionCall("pay", {}), id="inner", call_id="inner")
    inner.await_approval()
    moment = NOW - timedelta(hours=1)
    messages = Messages([Content("model", [Turn([Text("I will."), inner], created_at=moment)])])
    outer = Tool(FunctionCall("ask", {}), id="outer", status=Suspended(messages))
    history = Messages([Content("model", [Turn([outer], created_at=NOW)])])

    assert asked_at(history, ("outer", "inner")) == moment
    assert asked_at(history, ("outer",)) == NOW
    assert asked_at(history, ("inner",)) is None


@pytest.mark.anyio
async def test_row_has_the_request_and_the_description(store: MemoryStore, bank: Bank) -> None:
    (item,) = await store.waiting()
    snapshot = await store.load("chat-17")
    definition = bank.chat.tools.definition("transfer")
    row = build_row(item, snapshot, definition, datetime.now(UTC), "Payments")

    assert row.title == "Payments"
    assert row.description == "Send money to somebody."
    assert row.request is not None
    assert row.request.preview == "Please pay Maria."
    assert [(view.name, view.preview) for view in row.values] == [
        ("to", "Maria"), ("cents", "4000"), ("purpose", "null"), ("speed", "slow"), ("items", "null"),
    ]  # fmt: skip
    assert row.field == field_name("chat-17", ("call_1",)) == "call:chat-17/call_1"
    assert row.asked_text == "asked less than a minute ago"
    assert (row.moment, row.terms) == ("", "")


@pytest.mark.anyio
async def test_row_of_a_conversation_that_the_person_may_not_see_cannot_be_selected(store: MemoryStore) -> None:
    (item,) = await store.waiting()
    row = build_row(item, None, None, NOW, "chat-17")

    assert (row.field, row.request, row.description, row.asked) == (None, None, "", "")
