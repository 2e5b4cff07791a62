"""Arguments of wrong types, which callers without a type checker pass."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    ChatError,
    ChatOptions,
    ClientTools,
    Instructions,
    NamedTool,
    Reject,
    RequireApproval,
    Retry,
    ScopedCollection,
    StreamingChat,
    StructuredOutput,
    Summarize,
    ToolCollection,
    ToolOutput,
    UsageError,
    Window,
    embedder,
    model,
)
from chat_core.approvals import (
    ApprovalKeys,
    Principal,
    approve_with_grant,
    escape_invisible,
    expire,
    has_invisible,
    is_allowed,
    only_role,
    owner_may_decide,
)
from chat_core.blocking import call, enter
from chat_core.messages import (
    Content,
    File,
    FunctionCall,
    Grant,
    Grants,
    Interrupted,
    Messages,
    Recalled,
    RecalledNote,
    Running,
    Summary,
    Suspended,
    Text,
    Tool,
    Turn,
    View,
)
from chat_core.response import Wait
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider
from chat_core.usage import Metadata, Usage

WRONG: Any = 5
TEXT: Any = "x"
FLOAT: Any = 5.5
NONE: Any = None
BYTES: Any = b""
EMPTY: Any = []
HALF: Any = 5.5
SCHEMA: Any = {"type": "object"}
LEN: Any = len
LATER = datetime(9000, 1, 1, tzinfo=UTC)
UNHASHABLE: Any = [[]]
MODEL = ScriptedProvider(["a summary"])


def running() -> Tool:
    tool = Tool(FunctionCall("pay"))
    tool.start()
    return tool


KEYS = ApprovalKeys("a", {"a": b"k" * 32}, may_decide=None)
WAIT = Wait("approval", "call_1", ("call_1",), "pay", {})


def chat() -> StreamingChat:
    return ChatBuilder().with_model(MODEL).build()


def started_function() -> Any:
    return reject(FunctionCall("pay"), None)


async def reject(_call: FunctionCall, _meta: None) -> Reject:
    return Reject("no")


def new_call() -> Tool:
    return Tool(FunctionCall("pay"))


def approved() -> Tool:
    tool = new_call()
    tool.approve()
    return tool


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: dict[str, Callable[[], object]] = {
    "path must be a string or a Path, not 5": lambda: File.from_path(WRONG),
    "data must be bytes, such as text.encode() or path.read_bytes(), not 'x'": lambda: File.from_bytes(TEXT),
    "mime must be a string or None, not 5": lambda: File.from_bytes(b"x", WRONG),
    "name must be a string or None, not 5": lambda: File.from_bytes(b"x", "text/plain", name=WRONG),
    "url must be a string, not 5": lambda: File.from_url(WRONG),
    "digest must be a string, not 5": lambda: Summary("s", 0, WRONG),
    "text must be a string, not 5": lambda: RecalledNote(WRONG),
    "source must be a string or None, not 5": lambda: RecalledNote("n", WRONG),
    "said_at must be a datetime with a time zone": lambda: RecalledNote("n", said_at=WRONG),
    "confidence must be between 0 and 1, not 'x'": lambda: RecalledNote("n", confidence=TEXT),
    "notes must be a tuple of RecalledNote objects, not 'x'": lambda: Recalled(TEXT),
    "arguments must be a JSON object, such as {'city': 'Berlin'}, not 5": lambda: FunctionCall("f", WRONG),
    "raw must be the text of a JSON object, not 5": lambda: FunctionCall.parse("f", WRONG),
    "created_at must be a datetime with a time zone": lambda: Turn([], created_at=WRONG),
    "parts must be a list of parts, such as [Text('…')], not 5": lambda: Turn(WRONG),
    "client_tools must be a list of JSON objects, not 5": lambda: Turn([], client_tools=WRONG),
    "turns must be a list of turns, such as [Turn([Text('…')])], not 5": lambda: Content("user", WRONG),
    "files must be a tuple of File objects": lambda: running().complete(1, files=TEXT),
    "data must be a tuple of Data objects": lambda: running().complete(1, data=WRONG),
    "reason must be a string, not 5": lambda: running().lost(WRONG),
    "data must be a Data object or a list of them, not 5": lambda: ToolOutput(1, data=WRONG),
    "rewind('x') is outside of the history of 1 turns": lambda: conversation().rewind(TEXT),
    "fork(at='x') is outside of the history of 1 turns": lambda: conversation().fork(TEXT),
    "text must be a string": lambda: conversation().push(Content.of("model", "b")).user("c").summarize(WRONG, 2),
    "a view cannot begin at turn 'x'": lambda: conversation().summarize("a", TEXT),
    "chosen must be a View, such as View(offset), or None, not 5": lambda: conversation().view(WRONG),
    "offset must be a whole number": lambda: View(TEXT),
    "elided must be a collection of ids of tool calls, not 5": lambda: View(0, elided=WRONG),
    "elided must be a collection of ids of tool calls, not 'x'": lambda: View(0, elided=TEXT),
    "result_characters must be a whole number of at least 0, not 5.5": lambda: View(0, result_characters=HALF),
    "offset must be a whole number of at least 0, such as one of view.boundaries(), not -1": lambda: View(-1),
    "offset must be a whole number of at least 0, such as one of view.boundaries(), not 'x'": lambda: (
        conversation().view().tokens_from(TEXT)
    ),
    "offset must be a whole number of at least 0, such as one of view.boundaries(), not None": lambda: (
        conversation().view().count_before(NONE)
    ),
    "offset must be a whole number of at least 0, such as one of view.boundaries(), not 5.5": lambda: (
        conversation().view().turns_before(HALF)
    ),
    "offset must be a whole number of at least 0, such as one of view.boundaries(), not []": lambda: (
        conversation().view().tools_from(EMPTY)
    ),
    "chosen must be a View, such as View(offset), not 5": lambda: conversation().view().tokens_of(WRONG),
    "extras must be a tuple of provider options, such as (ClaudeOptions(),), not None": lambda: ChatOptions(
        extras=NONE
    ),
    "temperature must be a finite number, such as 0.7, not 1000": lambda: ChatOptions(temperature=10**400),
    "defaults must be ChatOptions, not None": lambda: ChatOptions().over(NONE),
    "name must be a string, not b''": lambda: NamedTool(BYTES),
    "fixed must be a string, not 5": lambda: Instructions(WRONG),
    "name must be a string, not []": lambda: ToolCollection().meta(EMPTY),
    "arguments_as() needs a type that pydantic can read, not {'type': 'object'}": lambda: FunctionCall(
        "f"
    ).arguments_as(SCHEMA),
    "arguments_as() needs a type that pydantic can read, not <built-in function len>": lambda: FunctionCall(
        "f"
    ).arguments_as(LEN),
    "live must be an object with take_turns() and delivered_text(), not 5": lambda: chat().stream(
        conversation(), live=WRONG
    ),
    "an answer must be a string, a FunctionCall, a ChatError, an Answer or a list of parts, not 5": lambda: (
        ScriptedProvider(WRONG)
    ),
    "a part of an answer must be a string, a call or a part, not 5": lambda: ScriptedProvider([WRONG]),
    "parts must be a list of strings, calls and parts, such as ['Hello.'], not 'x'": lambda: Answer(TEXT),
    "function must be an async function that is not called yet, such as store.due, not 5": lambda: call(WRONG),
    "function must be an async function that is not called yet, such as store.due, not <coroutine": lambda: call(
        started_function()
    ),
    "manager must be an async context manager, such as a store, not 5": lambda: enter(WRONG).__enter__(),
    "times must be a whole number, not 'x'": lambda: Retry(times=TEXT),
    "budget must be a number of seconds from 0, not 'x'": lambda: Retry(budget=TEXT),
    "strategy must be a function, not 5": lambda: Retry(strategy=WRONG),
    "jitter must be a function, not 5": lambda: Retry(jitter=WRONG),
    "messages of Window() must be a whole number of at least 1, not 'x'": lambda: Window(messages=TEXT),
    "result_characters must be a whole number of at least 0, not 'x'": lambda: Window(2, 1, result_characters=TEXT),
    "result_characters must be at least 0, not -1": lambda: Window(2, 1, result_characters=-1),
    "Window must be created with whole numbers of tokens as at and keep, not 'x'": lambda: Window(TEXT, 1),
    "Window must be created with whole numbers of tokens as at and keep, not 5.5": lambda: Window(9, FLOAT),
    "Summarize must be created with whole numbers of tokens as at and keep, not 5.5": lambda: Summarize(
        MODEL, FLOAT, 1
    ),
    "model must be a provider that can complete, not 5": lambda: Summarize(WRONG, 2, 1),
    "options must be ChatOptions, not 5": lambda: Summarize(MODEL, 2, 1, options=WRONG),
    "instructions must be a string, not 5": lambda: Summarize(MODEL, 2, 1, instructions=WRONG),
    "secrets must be a dict from key IDs to secrets in bytes": lambda: ApprovalKeys("a", WRONG, may_decide=None),
    "skew must be a timedelta, not 5": lambda: ApprovalKeys("a", {"a": b"k" * 32}, may_decide=None, skew=WRONG),
    "retired must be a collection of key IDs that are not in secrets, not 5": lambda: ApprovalKeys(
        "a", {"a": b"k" * 32}, may_decide=None, retired=WRONG
    ),
    "retired must be a collection of key IDs that are not in secrets, not [[]]": lambda: ApprovalKeys(
        "a", {"a": b"k" * 32}, may_decide=None, retired=UNHASHABLE
    ),
    "canonical must be a JSON object, such as {'city': 'Berlin'}, or None, not 5": lambda: Tool(
        FunctionCall("pay"), canonical=WRONG
    ),
    "edited must be a JSON object, such as {'city': 'Berlin'}, or None, not []": lambda: Tool(
        FunctionCall("pay"), edited=EMPTY
    ),
    "edited must be a JSON object that is not nested deeper than 1000 levels": lambda: Tool(
        FunctionCall("pay"), edited={"value": nested(1001)}
    ),
    "attempt must be the number of the attempt, such as 1, not 'x'": lambda: Running("id", attempt=TEXT),
    "attempt must be the number of the attempt, such as 1, not None": lambda: Suspended(Messages(), attempt=NONE),
    "attempt must be the number of the attempt, such as 1, not []": lambda: Interrupted(attempt=EMPTY),
    "of must be a string, not 5": lambda: new_call().await_approval(of=WRONG),
    "canonical must be a JSON object, not 5": lambda: new_call().await_approval(canonical=WRONG),
    "canonical must be JSON (str, finite numbers": lambda: new_call().await_result(canonical={"a": b""}),
    "at must be a datetime with a time zone, such as": lambda: new_call().schedule(NONE),
    "reason must be a string, not None": lambda: new_call().refuse(NONE),
    "source must be 'policy' or 'expiry', not 'x'": lambda: new_call().refuse("no", TEXT),
    "error must be a string or None, not 5": lambda: approved().reconsider(WRONG),
    "name must be a string such as 'claude:NAME', not None": lambda: model(NONE),
    "name must be a string such as 'claude:NAME', not 5": lambda: embedder(WRONG),
    "model must be a provider that can complete, not 'x'": lambda: chat().with_model(TEXT),
    "64 of the characters a-z, A-Z, 0-9, _ and -, not 'two words'": lambda: chat().as_tool(
        name="two words", description="d"
    ),
    "description must be a string, not 5": lambda: chat().as_tool(name="ask", description=WRONG),
    "description must be a string or None, not 5": lambda: ToolCollection().tool(description=WRONG),
    "declarations must be a list of JSON objects, not 5": lambda: ClientTools(WRONG),
    "max_tools must be a whole number, not 'x'": lambda: ClientTools(max_tools=TEXT),
    "roles must be a frozenset of strings, such as frozenset({'approver'}), not 'x'": lambda: Principal("a", TEXT),
    "roles must be a frozenset of strings, such as frozenset({'approver'}), not [[]]": lambda: Principal(
        "a", UNHASHABLE
    ),
    "role must be a string, not 5": lambda: only_role(WRONG),
    "may_decide must be a function of a principal and a wait": lambda: is_allowed(NONE, Principal("a"), WAIT),
    "text must be a string, not None": lambda: escape_invisible(NONE),
    "text must be a string, not b''": lambda: has_invisible(BYTES),
    "messages must be the Messages of a conversation, not 5": lambda: expire(WRONG),
    "now must be timezone-aware, not 5": lambda: expire(conversation(), now=WRONG),
    "messages must be the Messages of a conversation, not 'x'": lambda: KEYS.bind("c", TEXT, ("call_1",)),
    "path must be a tuple of IDs, such as wait.path, not 5": lambda: KEYS.bind("c", conversation(), WRONG),
    "path must be a tuple of IDs, such as wait.path, not 'x'": lambda: approve_with_grant(
        conversation(), TEXT, until=LATER, by="ana"
    ),
    "allow must contain 'approve' or 'reject', or both, not 5": lambda: KEYS.bind("c", WRONG, ("a",), allow=WRONG),
    "allow must contain 'approve' or 'reject', or both, not [[]]": lambda: KEYS.bind(
        "c", WRONG, ("a",), allow=UNHASHABLE
    ),
    "edits must be True or False, not 5": lambda: KEYS.bind("c", WRONG, ("a",), edits=WRONG),
    "expires_in must be a timedelta, such as timedelta(hours=1), not 5": lambda: KEYS.bind(
        "c", WRONG, ("a",), expires_in=WRONG
    ),
    "grants must be a list of Grant objects, not 5": lambda: Grants(WRONG),
    "grants must be a list of Grant objects, not [5]": lambda: Grants([WRONG]),
    "grants must be a list of Grant objects, not ['x']": lambda: Grants().merge(TEXT),
    "grants must be a list of Grant objects, not None": lambda: Grants().reset(NONE),
    "tools must be a tuple of names of tools, such as ('pay',), not 'x'": lambda: Grant("g", TEXT, LATER, "ana", LATER),
    "by must be a string, not None": lambda: Grant("g", ("pay",), LATER, NONE, LATER),
    "until must be a datetime with a time zone, such as": lambda: Grant("g", ("pay",), WRONG, "ana", LATER),
    "declarations must be a list of JSON objects, not [[]]": lambda: ClientTools([EMPTY]),
    "the reason of Reject() must be a string, not None": lambda: Reject(NONE),
    "of must be a string that is not empty, not ''": lambda: RequireApproval(of=""),
    "budget must be a number of seconds from 0, not nan": lambda: Retry(budget=math.nan),
    "base must be a number of seconds from 0, not -1": lambda: Retry(base=-1),
    "after_delivery must be True or False, not 'x'": lambda: Retry(after_delivery=TEXT),
    "document must be JSON as a string or bytes, as of to_json(), not None": lambda: Messages.from_json(NONE),
    "attempt must be a number from 1, not 'x'": lambda: Retry().delay(ChatError("e"), TEXT),
    "tool must be a Tool, such as messages.pending()[0], not 5": lambda: Wait.from_tool(
        WRONG, (), conversation=None, owner=None
    ),
    "wait must be a Wait, such as an item of paused.waiting, not 5": lambda: owner_may_decide(Principal("a"), WRONG),
    "principal must be a Principal, such as Principal('ana'), not 'x'": lambda: is_allowed(
        owner_may_decide, TEXT, WAIT
    ),
    "id must be a string, not []": lambda: Grants().revoke(EMPTY),
    "messages must be Messages or None, not 5": lambda: MemoryConversation(WRONG),
    "extra must be a JSON object or None, not 5": lambda: Messages(extra=WRONG),
    "id must be the id of a tool call, a string (unresolved tool calls: none), not []": lambda: Messages().tool(EMPTY),
}
"""Calls by the error message that they raise."""


def conversation() -> Messages:
    return Messages.from_user("Hi.")


@pytest.mark.parametrize("text", ["", "x y", "()"])
def test_a_string_that_is_no_type_is_refused(text: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f"needs a type that pydantic can read, not {text!r}")):
        FunctionCall("f").arguments_as(text)
    with pytest.raises(UsageError, match=re.escape(f"that pydantic can describe as JSON, not {text!r}")):
        StructuredOutput(text)


@pytest.mark.parametrize("message", REFUSED)
def test_an_argument_of_the_wrong_type_is_a_usage_error_that_names_the_expected_type(message: str) -> None:
    with pytest.raises(UsageError) as error:
        REFUSED[message]()
    assert message in str(error.value)


@pytest.mark.anyio
async def test_an_argument_of_the_wrong_type_is_refused_before_anything_is_awaited() -> None:
    tools = ToolCollection()

    @tools.tool
    def pay() -> str:
        """Pay."""
        return "paid"

    payer = ChatBuilder().with_model(MODEL).with_scoped_tools(ScopedCollection(tools, reject)).build()
    with pytest.raises(UsageError, match=r"this chat has no tool \[\]: its tools are pay"):
        await payer.call(EMPTY, {}, conversation())
    with pytest.raises(UsageError, match=r"call must be a FunctionCall, such as .*, not 5"):
        await payer.decide(WRONG)
    with pytest.raises(UsageError, match=r"conversation must be an open conversation, .*, not 'x'"):
        await KEYS.redeem("token", TEXT, "approve")


def test_values_that_can_be_read_differently_are_not_refused() -> None:
    roles: Any = ["approver"]
    ana = Principal("ana", roles)
    assert (ana.roles, hash(ana)) == (frozenset({"approver"}), hash(Principal("ana", frozenset({"approver"}))))
    assert only_role("approver")(ana, WAIT)
    assert not owner_may_decide(ana, WAIT)
    assert Usage(1, 1).cost(None) is None
    assert Usage(1, 1).cost(WRONG, provider=WRONG) is None
    durations: list[Any] = ["x", -1.0, float("nan"), float("inf"), True, None]
    assert [Metadata(duration=duration).duration for duration in durations] == [None] * 6
    assert Metadata(duration=0.5).duration == Metadata().with_duration(0.5).duration


def test_a_call_is_unchanged_if_an_argument_of_the_engine_is_refused() -> None:
    changes: list[Callable[[Tool], None]] = [
        lambda tool: tool.await_approval(of=WRONG),
        lambda tool: tool.await_approval(canonical=WRONG),
        lambda tool: tool.await_result(canonical={"a": object()}),
        lambda tool: tool.schedule(NONE),
        lambda tool: tool.refuse(WRONG),
    ]
    for change in changes:
        tool = new_call()
        before = Tool(tool.call, id=tool.id)
        with pytest.raises(UsageError):
            change(tool)
        assert tool == before


def test_arguments_of_the_documented_types_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    file = File.from_path(tmp_path / "a.txt")
    assert File.from_path(str(tmp_path / "a.txt")) == file
    for data in (bytearray(b"a"), memoryview(b"a")):
        copied = File.from_bytes(data, "text/plain", name="a.txt")
        assert copied == file
        assert type(copied.data) is bytes
    note = RecalledNote("n", "s", datetime(2026, 11, 23, tzinfo=UTC), 1, "id")
    assert Recalled((note,)).notes == (note,)
    tool = running()
    tool.complete(1, files=(file,))
    assert tool.result_files == (file,)
    assert Turn(iter([Text("a")])).parts == (Text("a"),)
    assert Content("user", iter([Turn([])])).turns
    assert (Window(2, 1).keep, Summarize(MODEL, 2, 1).keep) == (1, 1)
