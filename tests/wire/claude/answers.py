"""Recorded responses of the Messages API, decoded by this library, compared with the result of the official client."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Final, cast

from chat_claude.codec import StreamDecoder, decode, decode_count
from chat_claude.errors import error_from_response
from chat_core.errors import ChatError
from chat_core.events import ReasoningDelta, TextDelta
from chat_core.messages import ProviderPart, Reasoning, Text, Tool, Turn
from chat_core.provider import Delta
from chat_core.transport import AwsEvents, Event, SseParser

from ..normalise import Object
from ..recordings import Recorded, recorded

PROVIDER: Final = "claude"
BINARY: Final = b"\x00"

ERROR_CLASSES: Final = {
    "AuthenticationError": {"AuthenticationError"},
    "PermissionDeniedError": {"PermissionDeniedError"},
    "NotFoundError": {"NotFoundError"},
    "BadRequestError": {"InvalidRequestError", "ContextLengthError", "ContentFilteredError", "QuotaExceededError"},
    "RequestTooLargeError": {"InvalidRequestError"},
    "UnprocessableEntityError": {"InvalidRequestError"},
    "RateLimitError": {"RateLimitedError", "QuotaExceededError"},
    "ConflictError": {"ServerError"},
    "InternalServerError": {"ServerError", "OverloadedError"},
    "ServiceUnavailableError": {"OverloadedError", "ServerError"},
    "OverloadedError": {"OverloadedError"},
    "DeadlineExceededError": {"ServerError"},
    # The error that the official client raises in mid-stream does not contain the type of the error.
    "APIStatusError": {
        "InvalidRequestError",
        "ServerError",
        "OverloadedError",
        "RateLimitedError",
        "QuotaExceededError",
    },
    "APIError": {"InvalidRequestError", "ServerError", "OverloadedError", "RateLimitedError", "QuotaExceededError"},
}
"""Which of our errors tell what the official client's class tells, or more."""


@functools.cache
def answers() -> tuple[Recorded, ...]:
    """Return every recorded response of this API, in the order of the index."""
    return recorded("messages")


@functools.cache
def counts() -> tuple[Recorded, ...]:
    """Return every recorded token count of this API. Other vendors have APIs of their own for counts."""
    return tuple([item for item in recorded("count-tokens") if item.path.endswith("/messages/count_tokens")])


@functools.cache
def streams() -> tuple[Recorded, ...]:
    """Return the responses that are streams of text."""
    return tuple([item for item in answers() if item.streamed and not item.body.startswith(BINARY)])


def events_of(item: Recorded) -> list[Event]:
    """Return the events of a stream, which is framed as server-sent events or as an AWS event stream."""
    return (AwsEvents() if item.body.startswith(BINARY) else SseParser()).feed(item.body)


# --- Reading ------------------------------------------------------------------------------------------------


def read(item: Recorded) -> Turn | int | ChatError:
    """Return the turn that the library decodes from a complete response body."""
    try:
        if not item.accepted:
            return error_from_response(item.status, item.headers, item.body, PROVIDER)
        if item.api == "count-tokens":
            return decode_count(item.body, PROVIDER)
        if not item.stream:
            return decode(item.body, PROVIDER)
        return read_events([events_of(item)])
    except ChatError as error:
        return error


def read_stream(chunks: Sequence[bytes]) -> Turn:
    """Return the turn that the library decodes from the chunks of a stream of text."""
    parser = SseParser()
    return read_events([parser.feed(chunk) for chunk in chunks])


def read_events(batches: Sequence[Sequence[Event]]) -> Turn:
    """Return the turn that the library decodes from events. The deltas must equal the turn.

    Raises:
        ChatError: the library cannot decode a turn.
    """
    decoder = StreamDecoder(PROVIDER)
    deltas = list[Delta]()
    for events in batches:
        if events:
            deltas += decoder.feed(events)
    turn = decoder.close()
    assert "".join([delta.text for delta in deltas if isinstance(delta, TextDelta)]) == turn.text
    assert "".join([delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]) == reasoning_of(turn)
    return turn


def reasoning_of(turn: Turn) -> str:
    """Return the reasoning of the model."""
    return "".join([part.text for part in turn.parts if isinstance(part, Reasoning)])


# --- Comparing ----------------------------------------------------------------------------------------------


def differences(item: Recorded, got: Turn | int | ChatError) -> list[str]:
    """Return the differences between the library and the official client, as `field: ours | theirs`."""
    expected = item.expected
    if expected is None or "oracle_failed" in expected:
        return []
    if isinstance(error := expected.get("error"), dict):
        wanted = ERROR_CLASSES[str(error["class"])]
        return [] if type(got).__name__ in wanted else [f"error: {type(got).__name__} | {error['class']}"]
    if isinstance(got, ChatError):
        return [f"failure: {got} | an answer"]
    assert isinstance(got, Turn)
    ours, theirs = summary(got), _expected(expected)
    return [f"{name}: {ours[name]!r} | {theirs[name]!r}" for name in theirs if ours[name] != theirs[name]]


def _kind(part: object) -> str:
    match part:
        case Text():
            return "text"
        case Reasoning():
            return "thinking"
        case Tool():
            return "tool_use"
        case ProviderPart():
            return part.kind
        case _:
            return type(part).__name__


def summary(turn: Turn) -> dict[str, object]:
    """Return the fields of a turn in the form that the official client reports."""
    metadata, usage = turn.metadata, turn.usage
    assert metadata is not None
    signatures = [part.signature or "" for part in turn.parts if isinstance(part, Reasoning)]
    return {
        "text": turn.text,
        "reasoning": reasoning_of(turn),
        "tool_calls": [(tool.call_id, tool.name, dict(tool.call.arguments)) for tool in turn.tools],
        "finish_reason": metadata.finish_reason or "",
        "model": metadata.model or "",
        "response_id": metadata.id or "",
        "blocks": [kind for part in turn.parts if (kind := _kind(part)) != "refusal"],
        "signatures": [hashlib.sha1(text.encode()).hexdigest()[:12] for text in signatures if text],  # noqa: S324 - a name
        "usage.input": usage.input_tokens,
        "usage.output": usage.output_tokens,
        "usage.cache_read": usage.cache_read_tokens,
        "usage.cache_write": usage.cache_write_tokens,
        "usage.reasoning": usage.reasoning_tokens,
    }


def _expected(expected: Object) -> dict[str, object]:
    usage = object_of(expected.get("usage"))
    read = _number(usage.get("cache_read_input_tokens"))
    written = _number(usage.get("cache_creation_input_tokens"))
    calls = cast("list[Object]", expected.get("tool_calls") or [])
    told: dict[str, object] = {
        "text": expected["text"] or "",
        "reasoning": expected.get("reasoning") or "",
        "tool_calls": [(call["id"], call["name"], call["arguments"]) for call in calls],
        "finish_reason": expected["finish_reason"] or "",
        "model": expected["model"] or "",
        "response_id": expected["response_id"] or "",
        "usage.input": _number(usage.get("input_tokens")) + read + written,
        "usage.output": _number(usage.get("output_tokens")),
        "usage.cache_read": read,
        "usage.cache_write": written,
        "usage.reasoning": _number(object_of(usage.get("output_tokens_details")).get("thinking_tokens")),
    }
    if "block_types" in expected:
        told["blocks"] = expected["block_types"]
        told["signatures"] = expected["signature_sha1"]
    return told


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def object_of(value: object) -> Object:
    """Return the value if it is an object, or an empty object."""
    return cast("Object", value) if isinstance(value, dict) else {}
