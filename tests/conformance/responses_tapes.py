"""Responses of the Responses API, in the format of its public documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chat_core import File, FinishReason, FunctionCall, Reasoning, ServerError, Text, Tool, Usage
from chat_core.json import dumps
from chat_testing import EmbeddingsTape, ProviderTapes, Reply, StreamFailure, Tape, sse_event

from .completions_tapes import EMBEDDINGS, PNG, REFUSALS

LYON = FunctionCall("get_weather", {"city": "Lyon"}, "call_lyon")
PARIS = FunctionCall("get_weather", {"city": "Paris"}, "call_paris")
CLOCK = FunctionCall("get_time", {}, "call_clock")
SEALED = "gAAAAABpSealedThoughts"
COUNTS = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 32,
}
USAGE = Usage(20, 12, cache_read_tokens=8, reasoning_tokens=3)


@dataclass(frozen=True)
class Item:
    """An output item: its complete form, its first form, and the events between them, without their indexes."""

    whole: dict[str, Any]
    start: dict[str, Any]
    events: list[dict[str, Any]]


def message(*pieces: str) -> Item:
    text = "".join(pieces)
    head = {"id": "msg_1", "type": "message", "role": "assistant"}
    part: dict[str, Any] = {"type": "output_text", "annotations": [], "logprobs": []}
    where = {"item_id": "msg_1", "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
        *[{"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []} for piece in pieces],
        {"type": "response.output_text.done", **where, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **where, "part": {**part, "text": text}},
    ]
    whole = {**head, "status": "completed", "content": [{**part, "text": text}]}
    return Item(whole, {**head, "status": "in_progress", "content": []}, events)


def call(item: FunctionCall, raw: str | None = None) -> Item:
    arguments = dumps(dict(item.arguments)) if raw is None else raw
    name = f"fc_{item.id}"
    head = {"id": name, "type": "function_call", "call_id": item.id, "name": item.name}
    delta, done = "response.function_call_arguments.delta", "response.function_call_arguments.done"
    events: list[dict[str, Any]] = [
        *[{"type": delta, "item_id": name, "delta": piece} for piece in (arguments[:6], arguments[6:]) if piece],
        {"type": done, "item_id": name, "arguments": arguments},
    ]
    whole = {**head, "status": "completed", "arguments": arguments}
    return Item(whole, {**head, "status": "in_progress", "arguments": ""}, events)


def thinking(*pieces: str) -> Item:
    head = {"id": "rs_1", "type": "reasoning"}
    text = "".join(pieces)
    where = {"item_id": "rs_1", "summary_index": 0}
    part = {"type": "summary_text", "text": text}
    events: list[dict[str, Any]] = [
        {"type": "response.reasoning_summary_part.added", **where, "part": {"type": "summary_text", "text": ""}},
        *[{"type": "response.reasoning_summary_text.delta", **where, "delta": piece} for piece in pieces],
        {"type": "response.reasoning_summary_text.done", **where, "text": text},
        {"type": "response.reasoning_summary_part.done", **where, "part": part},
    ]
    whole = {**head, "summary": [part], "encrypted_content": SEALED}
    return Item(whole, {**head, "summary": [], "encrypted_content": ""}, events)


def response(status: str, items: tuple[Item, ...], incomplete: str | None, usage: object) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1760000000,
        "status": status,
        "error": None,
        "incomplete_details": None if incomplete is None else {"reason": incomplete},
        "model": "a-model",
        "output": [item.whole for item in items],
        "parallel_tool_calls": True,
        "usage": usage,
    }


def stream(items: tuple[Item, ...], status: str, incomplete: str | None) -> Reply:
    begun = response("in_progress", (), None, None)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(items):
        place = {"output_index": index}
        events.append({"type": "response.output_item.added", **place, "item": item.start})
        events += [{**event, **place} for event in item.events]
        events.append({"type": "response.output_item.done", **place, "item": item.whole})
    events.append({"type": f"response.{status}", "response": response(status, items, incomplete, COUNTS)})
    return Reply.sse(*[{**event, "sequence_number": n} for n, event in enumerate(events)], named=True)


def tape(
    *items: Item,
    calls: tuple[FunctionCall, ...] = (),
    incomplete: str | None = None,
    reason: FinishReason | None = None,
    text: str = "",
    reasoning: str = "",
) -> Tape:
    status = "completed" if incomplete is None else "incomplete"
    return Tape(
        whole=Reply.json(response(status, items, incomplete, COUNTS)),
        stream=stream(items, status, incomplete),
        text=text,
        reasoning=reasoning,
        calls=calls,
        finish_reason=reason or ("tool_calls" if calls else "stop"),
        usage=USAGE,
        order=(Reasoning, Text, Tool),
        echo=(SEALED, reasoning) if reasoning else (),
    )


FAILED: dict[str, Any] = {
    **response("failed", (), None, None),
    "error": {"code": "server_error", "message": "The server had an error."},
}


def tapes(*, embeddings: EmbeddingsTape | None = None) -> ProviderTapes:
    """Return the tapes of a server of this API."""
    return ProviderTapes(
        text=tape(message("Où est", " la Sa", "ône", " 🏞?"), text="Où est la Saône 🏞?"),
        finishes=(
            tape(message("We", "ll"), incomplete="max_output_tokens", reason="length"),
            tape(message("We", "ll"), incomplete="content_filter", reason="content_filter"),
            tape(message("We", "ll"), incomplete="of_its_own", reason="other"),
        ),
        refusals=REFUSALS,
        noise=(
            sse_event({"type": "response.news_of_the_day", "output_index": 0, "delta": "none"}, "response.news"),
            b": a comment\n\n",
        ),
        failure=StreamFailure(
            frame=sse_event({"type": "response.failed", "response": FAILED}, "response.failed"),
            error=ServerError,
            retryable=True,
        ),
        call=tape(call(LYON), calls=(LYON,)),
        mixed=tape(message("I shall", " look."), call(LYON), calls=(LYON,), text="I shall look."),
        parallel=tape(call(LYON), call(PARIS), calls=(LYON, PARIS)),
        no_arguments=tape(call(CLOCK, "{}"), calls=(CLOCK,)),
        broken_arguments=tape(call(LYON, '{"city": "Ly'), calls=(FunctionCall(LYON.name, {}, LYON.id),)),
        structured=tape(message('{"city": "Lyon"', ', "rivers": 2}'), text='{"city": "Lyon", "rivers": 2}'),
        reasoning=tape(
            thinking("There are", " two rivers."),
            message("Let me see."),
            call(LYON),
            calls=(LYON,),
            text="Let me see.",
            reasoning="There are two rivers.",
        ),
        files=(File("image/png", data=PNG), File("image/png", url="https://pictures.example/a.png")),
        embeddings=embeddings,
    )


VECTORS = ProviderTapes(refusals=REFUSALS, embeddings=EMBEDDINGS)
