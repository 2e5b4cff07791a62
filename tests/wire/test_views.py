"""Views of random histories and runs on every wire: calls with results, the question, seals, and the caches."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

import anyio
import pytest
from chat_claude.encode import encode as encode_claude
from chat_claude.options import Dialect as ClaudeDialect
from chat_completions.encode import encode as encode_completions
from chat_completions.options import Dialect as CompletionsDialect
from chat_core import (
    ChatBuilder,
    ChatResponse,
    ContextChoice,
    ContextPolicy,
    ContextSize,
    Execute,
    Middleware,
    Paused,
    ProviderRequest,
    RequireApproval,
    ScopedCollection,
    Send,
    StreamingChat,
    Summarize,
    ToolCollection,
    ToolOutput,
    Window,
)
from chat_core.messages import (
    Completed,
    File,
    FinishReason,
    FunctionCall,
    Messages,
    Opaque,
    Part,
    Pending,
    Reasoning,
    Recalled,
    RecalledNote,
    Text,
    Tool,
    Turn,
    View,
)
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import Answer, ScriptedProvider
from chat_core.usage import Metadata, Usage
from chat_gemini.encode import encode as encode_gemini
from chat_gemini.options import Dialect as GeminiDialect
from chat_responses.encode import encode as encode_responses
from chat_responses.options import ResponsesDialect
from hypothesis import given, settings
from hypothesis import strategies as st

OPTIONS = ChatOptions()
NOT_REPORTED = Usage()
"""Usage of a provider that reports none, so that policies estimate the size of a request."""
Encode = Callable[[Messages], bytes]
WIRES: dict[str, Encode] = {
    "claude": lambda messages: (
        encode_claude(messages, NO_TOOLS, OPTIONS, None, dialect=ClaudeDialect.of("m"), stream=False).body
    ),
    "completions": lambda messages: encode_completions(
        messages, NO_TOOLS, OPTIONS, None, dialect=CompletionsDialect(model="m"), stream=False
    ),
    "gemini": lambda messages: encode_gemini(messages, NO_TOOLS, OPTIONS, None, dialect=GeminiDialect(model="m")),
    "responses": lambda messages: encode_responses(
        messages, NO_TOOLS, OPTIONS, None, dialect=ResponsesDialect(model="m"), stream=False
    ),
}
STEPS = st.lists(
    st.sampled_from(["user", "user", "file", "answer", "calls", "pause", "system", "summary", "rewind", "recalled"]),
    max_size=24,
)


def image(number: int) -> File:
    return File("image/png", data=b"\x89PNG" + number.to_bytes(4) * 6)


def seals(number: int) -> list[Reasoning]:
    """Return reasoning with a seal of each provider. The seals contain `number`."""
    item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    details = [{"type": "reasoning.encrypted", "data": f"seal-{number}."}]
    data: dict[str, dict[str, Any]] = {
        "claude": {},
        "gemini": {},
        "responses": {"item": item},
        "chat-completions": {"field": "reasoning", "details": details},
    }
    return [Reasoning(f"thought {number}", f"seal-{number}.", Opaque(name, own)) for name, own in data.items()]


def add_step(messages: Messages, kind: str, number: int, pick: int) -> None:
    metadata = Metadata(provider="anthropic", model="m", id=f"r{number}")
    match kind:
        case "user":
            messages.user(f"question {number}", Text(f"second part {number}"))
        case "file":
            messages.user(f"question {number}", image(number))
        case "system":
            messages.system(f"rule {number}")
        case "summary":
            if offsets := messages.view().boundaries(summarized=True):
                messages.summarize(f"summary {number}", offsets[pick % len(offsets)])
        case "recalled":
            # A request before the notes are known fills the caches.
            assert messages.view().tokens
            WIRES["completions"](messages)
            messages.append("user", Turn([Recalled((RecalledNote(f"note {number}"),))], by="engine"))
        case "rewind":
            count = sum(len(content.turns) for content in messages)
            messages.rewind(max(count - 1 - pick % 3, min(1, count - 1)))
            if not messages.live_turns:
                messages.user(f"question {number}", Text(f"second part {number}"))
        case "calls":
            results = (Completed("x" * 3_000), Completed("x" * 3_000, (image(number),)))
            tools = [
                Tool(FunctionCall("look", {}), id=f"t{number}-{i}", status=result) for i, result in enumerate(results)
            ]
            messages.append("model", Turn([*seals(number), *tools], finish_reason="tool_calls", metadata=metadata))
        case _:
            reason: FinishReason = "pause" if kind == "pause" else "stop"
            messages.append(
                "model", Turn([*seals(number), Text(f"answer {number}")], finish_reason=reason, metadata=metadata)
            )


def history(kinds: list[str], pick: int) -> Messages:
    messages = Messages.from_user("question 0", Text("second part 0"))
    for number, kind in enumerate(kinds, 1):
        add_step(messages, kind, number, pick + number)
    return messages


def objects_in(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        yield found
        for item in found.values():
            yield from objects_in(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from objects_in(item)


def calls_and_results(body: object) -> tuple[list[str], list[str]]:
    """Return the ids, in Gemini's requests the names, of the calls and of the results of a request."""
    calls: list[str] = []
    results: list[str] = []
    for item in objects_in(body):
        match item:
            case {"type": "tool_use", "id": str(key)} | {"type": "function_call", "call_id": str(key)}:
                calls.append(key)
            case {"type": "function", "id": str(key)} | {"functionCall": {"name": str(key)}}:
                calls.append(key)
            case {"type": "tool_result", "tool_use_id": str(key)} | {"role": "tool", "tool_call_id": str(key)}:
                results.append(key)
            case {"type": "function_call_output", "call_id": str(key)} | {"functionResponse": {"name": str(key)}}:
                results.append(key)
            case _:
                pass
    return calls, results


def first_role(body: dict[str, Any]) -> str | None:
    items: list[dict[str, str]] = body.get("messages") or body.get("contents") or body["input"]
    return next(item.get("role", item.get("type")) for item in items if item.get("role") != "system")


def choose(messages: Messages, pick: int, *, elide: bool) -> None:
    offsets = [0, *messages.view().boundaries()]
    offset = offsets[pick % len(offsets)]
    tools = [tool.id for _, turn in messages.live_turns for tool in turn.tools]
    messages.choose_view(View(offset, elided=tools[::2] if elide else ()))


def appears(part: Part, body: bytes) -> bool:
    match part:
        case Text(text):
            return json.dumps(text).encode() in body
        case File(data=bytes(data)):
            return base64.b64encode(data) in body
        case _:
            return False


def assert_valid_request(encode: Encode, messages: Messages) -> None:
    """Fail unless the view of the messages is a valid request, which has what it should and nothing else."""
    before = messages.to_json()
    view = messages.view()
    body = encode(messages)
    fresh = Messages.from_json(before)
    fresh.choose_view(View(view.offset, elided=view.elided, result_characters=view.result_characters))

    assert encode(messages) == body == encode(fresh), "caches change no byte"
    assert messages.to_json() == before, "nothing stored is changed"
    content = json.loads(body)
    calls, results = calls_and_results(content)
    assert calls == results, "each call has its result"
    assert len(calls) == sum(len(turn.tools) for _, turn in view.turns)
    assert first_role(content) == "user"
    question: list[Part] = []
    for role, turn in reversed(messages.live_turns):
        if role == "user" and turn.by != "engine":
            question += turn.parts
        elif question:
            break
    assert all(appears(part, body) for part in question)
    shown = {part.signature for _, turn in view.turns for part in turn.parts if isinstance(part, Reasoning)}
    assert {*re.findall(r"seal-\d+\.", body.decode())} == shown, "the seals are those of the turns that are sent"


@pytest.mark.parametrize("wire", WIRES)
@given(kinds=STEPS, pick=st.integers(0, 30), chosen=st.booleans(), elide=st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_view_of_any_history_gives_a_valid_request(
    wire: str, kinds: list[str], pick: int, chosen: bool, elide: bool
) -> None:
    messages = history(kinds, pick)
    if chosen:
        choose(messages, pick, elide=elide)
    assert_valid_request(WIRES[wire], messages)


@pytest.mark.parametrize("wire", WIRES)
def test_seals_of_turns_before_a_summary_are_not_sent(wire: str) -> None:
    messages = history(["calls", "answer", "user", "calls", "answer", "user"], 0)
    assert {*re.findall(rb"seal-\d+", WIRES[wire](messages))} == {b"seal-1", b"seal-2", b"seal-4", b"seal-5"}
    messages.summarize("They looked twice.", 5)
    assert {*re.findall(rb"seal-\d+", WIRES[wire](messages))} == {b"seal-5"}


# --- Runs --------------------------------------------------------------------------------------------------------


class Checked(Middleware):
    """Middleware that checks every request of a run on every wire."""

    def __init__(self) -> None:
        self.views: list[View] = []

    async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
        """Check the request before it is sent."""
        for encode in WIRES.values():
            assert_valid_request(encode, request.messages)
        self.views.append(request.messages.view())
        return await send(request)


def elide_all(view: View, size: ContextSize) -> ContextChoice:
    """Shorten all results that are in a view."""
    del size
    return View(view.offset, elided=[tool.id for _, turn in view.turns for tool in turn.tools], result_characters=200)


def answers() -> Iterator[Answer]:
    """Return answers with seals: two calls of which one needs approval, one call, and a text."""
    number = 0
    while True:
        pay = FunctionCall("pay", {"number": number}, id=f"pay_{number}")
        looks = [FunctionCall("look", {"number": number + i}, id=f"look_{number + i}") for i in range(2)]
        yield Answer([*seals(number), looks[0], pay], usage=NOT_REPORTED)
        yield Answer([*seals(number + 1), looks[1]], usage=NOT_REPORTED)
        yield Answer([*seals(number + 2), f"answer {number}"], usage=NOT_REPORTED)
        number += 3


def run_chat(context: ContextPolicy | None, checked: Checked) -> StreamingChat[ChatResponse, Paused]:
    """Build a chat with a tool that needs approval, and a tool whose long results have files."""
    tools = ToolCollection(bool)

    @tools.tool(True)
    def pay(number: int) -> str:
        return f"paid {number} " * 40

    @tools.tool(False)
    def look(number: int) -> ToolOutput:
        return ToolOutput(["seen " * 200, image(number)])

    scope = ScopedCollection(tools, lambda _, asks: RequireApproval() if asks else Execute())
    model = ScriptedProvider(*islice(answers(), 60))
    builder = ChatBuilder().with_model(model).with_scoped_tools(scope).with_middleware(checked)
    return (builder if context is None else builder.with_context(context)).build()


RUNS: list[anyio.CancelScope] = []
"""The scope of the run that is active."""


async def hang() -> None:
    """Wait until the active run is cancelled, as if its user had left while a summary is written."""
    RUNS[0].cancel()
    await anyio.sleep_forever()


POLICIES: dict[str, Callable[[], ContextPolicy | None]] = {
    "none": lambda: None,
    "summaries": lambda: Summarize(ScriptedProvider(*["They spoke."] * 60), 8_000, 3_000),
    "failing summaries": lambda: Summarize(ScriptedProvider(*[Answer([" "])] * 60), 8_000, 3_000),
    "cancelled summaries": lambda: Summarize(
        ScriptedProvider(*[Answer(["never"], before=hang), Answer(["They spoke."])] * 60), 8_000, 3_000
    ),
    "window": lambda: Window(8_000, 3_000),
    "window of turns": lambda: Window(messages=4),
    "short results": lambda: elide_all,
}
ACTIONS = st.lists(st.sampled_from(["ask", "ask", "ask", "approve", "reject", "edit", "rewind", "load"]), max_size=14)


def decide(messages: Messages, action: str) -> None:
    for tool in messages.pending():
        assert isinstance(tool.status, Pending)
        match action:
            case "reject":
                tool.reject("no", by="ana")
            case "edit":
                tool.approve(by="ana", arguments={"number": 7})
            case _:
                tool.approve(by="ana")


def stored_turns(messages: Messages) -> list[tuple[str, str, list[str]]]:
    turns = [(content.role, turn) for content in messages for turn in content.turns]
    return [(role, turn.text, [tool.id for tool in turn.tools]) for role, turn in turns]


async def complete(chat: StreamingChat[ChatResponse, Paused], messages: Messages) -> None:
    """Complete a conversation. A run that is cancelled while a summary is written is repeated."""
    while True:
        before = stored_turns(messages)
        with anyio.CancelScope() as scope:
            RUNS[:] = [scope]
            await chat.complete(messages)
            return
        assert stored_turns(messages)[: len(before)] == before, "a cancelled run changes or removes no stored turn"
        assert "never" not in messages.to_json()


async def run_actions(chat: StreamingChat[ChatResponse, Paused], actions: list[str], pick: int) -> None:
    messages = Messages()
    for number, action in enumerate(["ask", *actions]):
        before = stored_turns(messages)
        match action:
            case "load":
                messages = Messages.from_json(messages.to_json())
            case "rewind":
                if not messages.pending():
                    messages.rewind(max(len(before) - 1 - pick % 4, 1))
            case "ask" if not messages.pending():
                messages.user(f"question {number}", image(1_000 + number), Text("words " * (1 + 100 * (pick % 3))))
            case _:
                decide(messages, action)
        role, turn = messages.live_turns[-1]
        if role != "model" or turn.finish_reason != "stop":
            await complete(chat, messages)
        assert stored_turns(messages)[: len(before)] == before, "no stored turn is changed or removed"


@given(actions=ACTIONS, pick=st.integers(0, 30), policy=st.sampled_from([*POLICIES]))
@settings(max_examples=60, deadline=None)
def test_every_request_of_any_run_is_valid(actions: list[str], pick: int, policy: str) -> None:
    checked = Checked()
    anyio.run(run_actions, run_chat(POLICIES[policy](), checked), actions, pick)
    assert checked.views


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "none"])
def test_every_policy_reduces_requests_around_approvals(policy: str) -> None:
    checked = Checked()
    actions = ["approve", "ask", "edit", "load", "ask", "reject", "rewind", "ask", "approve", "ask", "approve"]
    anyio.run(run_actions, run_chat(POLICIES[policy](), checked), actions, 1)
    assert any(view.offset or view.elided for view in checked.views)
