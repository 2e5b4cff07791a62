"""Recorded responses of the Gemini API, decoded by this library, compared with the result of the official client."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Final, TypeAlias, cast

from chat_core.errors import ChatError
from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import File, Reasoning, Turn
from chat_core.provider import Delta, EmbeddingsResponse
from chat_core.transport import Event, Framing
from chat_core.transport.framing import framer
from chat_gemini.codec import StreamDecoder, decode, decode_count, decode_embeddings
from chat_gemini.errors import error_from_response

from ..normalise import Json, Object
from ..recordings import Recorded, recorded

PROVIDER: Final = "recorded"
VENDORS: Final = frozenset({"gemini", "vertex"})

Answer: TypeAlias = Turn | EmbeddingsResponse | int | ChatError

ERROR_CLASSES: Final = {
    "ClientError": {
        "AuthenticationError", "ContentFilteredError", "ContextLengthError", "InvalidRequestError", "NotFoundError",
         "PermissionDeniedError",
        "QuotaExceededError", "RateLimitedError",
    },
    "ServerError": {"ServerError", "OverloadedError"},
}  # fmt: skip
"""Which of our errors tell what the official client's class tells, or more. It has one class for all 4xx."""


@functools.cache
def answers() -> tuple[Recorded, ...]:
    """Return every recorded response of this API, in the order of the index."""
    beside = [item for item in recorded("embeddings", "count-tokens") if item.provider in VENDORS]
    return (*recorded("generate-content"), *beside)


def streams() -> tuple[Recorded, ...]:
    """Return the responses that are streams."""
    return tuple([answer for answer in answers() if answer.streamed])


def framing_of(answer: Recorded) -> Framing:
    """Return the framing of a stream."""
    return "json-array" if answer.body.lstrip()[:1] == b"[" else "sse"


def events_of(answer: Recorded) -> list[Event]:
    """Return the events of a stream."""
    cutter = framer(framing_of(answer))
    return [*cutter.feed(answer.body), *cutter.end()]


def vectors_of(answer: Recorded) -> int:
    """Return the number of embeddings in a response."""
    body = cast("Object", json.loads(answer.body))
    if "embedding" in body:
        return 1
    return len(cast("list[Json]", body.get("embeddings", body.get("predictions"))))


# --- Reading ------------------------------------------------------------------------------------------------


def read(answer: Recorded) -> Answer:
    """Return the turn that the library decodes from a complete response body."""
    try:
        if not answer.accepted:
            return error_from_response(answer.status, answer.headers, answer.body, PROVIDER)
        if answer.api == "embeddings":
            return decode_embeddings(answer.body, vectors_of(answer), PROVIDER)
        if answer.api == "count-tokens":
            return decode_count(answer.body, PROVIDER)
        if answer.stream:
            return read_stream([answer.body], framing_of(answer))
        return decode(answer.body, PROVIDER)
    except ChatError as error:
        return error


def read_stream(chunks: Sequence[bytes], framing: Framing) -> Turn:
    """Return the turn that the library decodes from the chunks of a stream. The deltas must equal the turn.

    Raises:
        ChatError: the library cannot decode a turn.
    """
    cutter, decoder = framer(framing), StreamDecoder(PROVIDER)
    deltas = list[Delta]()
    for chunk in chunks:
        if events := cutter.feed(chunk):
            deltas += decoder.feed(events)
    deltas += decoder.feed(cutter.end())
    turn = decoder.close()
    assert "".join([delta.text for delta in deltas if isinstance(delta, TextDelta)]) == turn.text
    assert "".join([delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]) == reasoning_of(turn)
    assert b"".join([delta.file.data or b"" for delta in deltas if isinstance(delta, FilePart)]) == b"".join(
        [part.data or b"" for part in turn.parts if isinstance(part, File)]
    )
    for index, tool in enumerate(turn.tools):
        pieces = [delta for delta in deltas if isinstance(delta, ToolCallDelta) and delta.index == index]
        assert "".join([piece.arguments for piece in pieces]) == tool.call.text
        assert pieces[0].name == tool.name
    return turn


def reasoning_of(turn: Turn) -> str:
    """Return the reasoning of the model."""
    return "".join([part.text for part in turn.parts if isinstance(part, Reasoning)])


# --- Comparing ----------------------------------------------------------------------------------------------


def differences(answer: Recorded, got: Answer) -> list[str]:
    """Return the differences between the library and the official client, as `field: ours | theirs`."""
    expected = answer.expected
    if expected is None:
        return []
    if isinstance(error := expected.get("error"), dict):
        wanted = ERROR_CLASSES[str(error["class"])]
        same = type(got).__name__ in wanted and getattr(got, "status", error["status"]) == error["status"]
        return [] if same else [f"error: {type(got).__name__} | {error['class']}"]
    if reason := expected.get("block_reason"):
        # The official client leaves it to the caller to find out that the prompt was blocked.
        same = type(got).__name__ == "ContentFilteredError" and getattr(got, "code", None) == reason
        return [] if same else [f"blocked: {type(got).__name__} | {reason}"]
    if isinstance(got, ChatError):
        return [f"failure: {type(got).__name__} | an answer"]
    if isinstance(got, int):
        return []
    ours = _of_vectors(got) if isinstance(got, EmbeddingsResponse) else summary(got)
    theirs = _expected_vectors(expected) if isinstance(got, EmbeddingsResponse) else _expected_turn(expected)
    return [f"{name}: {ours[name]!r} | {theirs[name]!r}" for name in theirs if ours[name] != theirs[name]]


def summary(turn: Turn) -> dict[str, object]:
    """Return the fields of a turn in the form that the official client reports."""
    metadata, usage = turn.metadata, turn.usage
    assert metadata is not None
    return {
        "text": turn.text,
        "reasoning": reasoning_of(turn),
        "tool_calls": [(tool.call_id, tool.name, dict(tool.call.arguments)) for tool in turn.tools],
        "finish_reason": metadata.finish_reason or "",
        "model": metadata.model or "",
        "response_id": metadata.id or "",
        "thought_signatures": _signatures(turn),
        "usage.input": usage.input_tokens,
        "usage.output": usage.output_tokens,
        "usage.cache_read": usage.cache_read_tokens,
        "usage.reasoning": usage.reasoning_tokens,
    }


def _signatures(turn: Turn) -> int:
    """Return the number of parts with a signature."""
    found = 0
    for part in turn.parts:
        data = getattr(part, "data", None)
        opaque = getattr(getattr(part, "call", part), "opaque", None)
        places = (getattr(opaque, "data", None), data)
        signed = any("thoughtSignature" in place for place in places if isinstance(place, dict))
        found += signed or bool(getattr(part, "signature", None))
    return found


def _expected_turn(expected: Object) -> dict[str, object]:
    usage = _object(expected.get("usage"))

    def count(*names: str) -> int:
        return sum([cast("int", usage.get(name) or 0) for name in names])

    calls = cast("list[Object]", expected["tool_calls"])
    return {
        "text": expected["text"],
        "reasoning": expected.get("reasoning") or "",
        "tool_calls": [(call["id"], call["name"], call["arguments"]) for call in calls],
        "finish_reason": expected["finish_reason"] or "",
        "model": expected["model"] or "",
        "response_id": expected["response_id"] or "",
        "thought_signatures": expected["thought_signatures"],
        # What the server's tools read is input, and thoughts are output: so counts the total.
        "usage.input": count("prompt_token_count", "tool_use_prompt_token_count"),
        "usage.output": count("candidates_token_count", "thoughts_token_count"),
        "usage.cache_read": count("cached_content_token_count"),
        "usage.reasoning": count("thoughts_token_count"),
    }


def _of_vectors(response: EmbeddingsResponse) -> dict[str, object]:
    return {
        "count": len(response.vectors),
        "dims": [len(vector) for vector in response.vectors],
        "head": [[round(number, 6) for number in vector[:3]] for vector in response.vectors[:4]],
    }


def _expected_vectors(expected: Object) -> dict[str, object]:
    return {"count": expected["count"], "dims": expected["dims"], "head": cast("list[Json]", expected["head"])[:4]}


def _object(value: object) -> Object:
    return cast("Object", value) if isinstance(value, dict) else {}
