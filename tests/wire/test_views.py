"""Views of random histories on every wire: calls with results, the first message, the question, and the caches."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from chat_claude.encode import encode as encode_claude
from chat_claude.options import Dialect as ClaudeDialect
from chat_completions.encode import encode as encode_completions
from chat_completions.options import Dialect as CompletionsDialect
from chat_core.messages import (
    Completed,
    FinishReason,
    FunctionCall,
    Messages,
    Opaque,
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
from chat_core.usage import Metadata
from chat_gemini.encode import encode as encode_gemini
from chat_gemini.options import Dialect as GeminiDialect
from chat_responses.encode import encode as encode_responses
from chat_responses.options import ResponsesDialect
from hypothesis import given, settings
from hypothesis import strategies as st

OPTIONS = ChatOptions()
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
    st.sampled_from(["user", "user", "answer", "calls", "pause", "system", "summary", "rewind", "recalled"]),
    max_size=24,
)


def add_step(messages: Messages, kind: str, number: int, pick: int) -> None:
    seal = Reasoning(f"thought {number}", "seal", Opaque("claude", {}))
    metadata = Metadata(provider="anthropic", model="m", id=f"r{number}")
    match kind:
        case "user":
            messages.user(f"question {number}", Text(f"second part {number}"))
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
            tools = [Tool(FunctionCall("look", {}), id=f"t{number}-{i}", status=Completed("x" * 3_000)) for i in (0, 1)]
            messages.append("model", Turn([seal, *tools], finish_reason="tool_calls", metadata=metadata))
        case _:
            reason: FinishReason = "pause" if kind == "pause" else "stop"
            messages.append("model", Turn([seal, Text(f"answer {number}")], finish_reason=reason, metadata=metadata))


def history(kinds: list[str], pick: int) -> Messages:
    messages = Messages.from_user("question 0", Text("second part 0"))
    for number, kind in enumerate(kinds, 1):
        add_step(messages, kind, number, pick + number)
    return messages


def calls_and_results(body: bytes) -> tuple[int, int]:
    """Return how many calls and how many results a request has."""
    calls = (b'"type":"tool_use"', b'"type":"function_call"', b'"type":"function"', b'"functionCall":')
    results = (b'"type":"tool_result"', b'"type":"function_call_output"', b'"role":"tool"', b'"functionResponse":')
    return sum(map(body.count, calls)), sum(map(body.count, results))


def first_role(body: dict[str, Any]) -> str | None:
    items: list[dict[str, str]] = body.get("messages") or body.get("contents") or body["input"]
    return next(item.get("role", item.get("type")) for item in items if item.get("role") != "system")


def choose(messages: Messages, pick: int, *, elide: bool) -> None:
    offsets = [0, *messages.view().boundaries()]
    offset = offsets[pick % len(offsets)]
    tools = [tool.id for _, turn in messages.live_turns for tool in turn.tools]
    messages.choose_view(View(offset, elided=tools[::2] if elide else ()))


@pytest.mark.parametrize("wire", WIRES)
@given(kinds=STEPS, pick=st.integers(0, 30), chosen=st.booleans(), elide=st.booleans())
@settings(max_examples=150, deadline=None)
def test_view_of_any_history_is_a_valid_request(
    wire: str, kinds: list[str], pick: int, chosen: bool, elide: bool
) -> None:
    messages = history(kinds, pick)
    before = messages.to_json()
    if chosen:
        choose(messages, pick, elide=elide)
    encode = WIRES[wire]
    body = encode(messages)
    fresh = Messages.from_json(before)
    if chosen:
        choose(fresh, pick, elide=elide)

    assert encode(messages) == body == encode(fresh), "caches change no byte"
    assert messages.to_json() == before, "nothing stored is changed"
    calls, results = calls_and_results(body)
    assert calls == results
    shown = sum(len(turn.tools) for _, turn in messages.view().turns)
    assert calls == shown
    assert first_role(json.loads(body)) == "user"
    questions = [turn for role, turn in messages.live_turns if role == "user" and turn.by != "engine"]
    if questions:
        assert all(json.dumps(part.text).encode() in body for part in questions[-1].parts if isinstance(part, Text))
