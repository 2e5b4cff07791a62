"""Recorded responses of the Responses API, decoded by this library, compared with the result of the official client."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from chat_core.errors import ChatError
from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import ProviderPart, Reasoning, Turn
from chat_core.provider import Delta
from chat_core.transport import Event, SseParser
from chat_core.wire.errors import error_from_response
from chat_responses.codec import StreamDecoder, decode

from ..normalise import Json, Object
from ..recordings import Recorded, recorded, sessions

PROVIDER: Final = "recorded"

TERMINAL: Final = {"response.completed", "response.incomplete", "response.failed", "error"}

ERROR_CLASSES: Final = {
    "AuthenticationError": {"AuthenticationError"},
    "PermissionDeniedError": {"PermissionDeniedError"},
    "NotFoundError": {"NotFoundError"},
    "BadRequestError": {
        "InvalidRequestError",
        "ContextLengthError",
        "ContentFilteredError",
        "NotFoundError",
        "AuthenticationError",
    },
    "ConflictError": {"ServerError"},
    "UnprocessableEntityError": {"InvalidRequestError", "ContextLengthError", "ContentFilteredError"},
    "RateLimitError": {"RateLimitedError", "QuotaExceededError"},
    "InternalServerError": {"ServerError", "OverloadedError"},
    # The error that the official client raises in mid-stream does not contain the type of the error.
    "APIError": {
        "InvalidRequestError",
        "ContextLengthError",
        "ContentFilteredError",
        "ServerError",
        "OverloadedError",
        "RateLimitedError",
    }
    | {"QuotaExceededError"},
}
"""Which of our errors tell what the official client's class tells, or more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """A recorded response and the result of the official client, or `None` if that is not known."""

    id: str
    api: str
    features: tuple[str, ...]
    stream: bool
    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    frames: tuple[Object, ...] = field(repr=False)
    expected: Object | None = field(repr=False)

    @property
    def streamed(self) -> bool:
        """Whether the response is a stream that began."""
        return self.stream and 200 <= self.status < 300

    @property
    def events(self) -> list[Event]:
        """Return the events of the stream, as a transport returns them."""
        if self.frames:
            return [Event("message", json.dumps(frame).encode()) for frame in self.frames]
        parser = SseParser()
        return [*parser.feed(self.body), *parser.end()]


@functools.cache
def answers() -> tuple[Answer, ...]:
    """Return every recorded response of this API, in the order of the index."""
    return (*map(_of_http, recorded("responses", "responses-ws")), *_of_sockets())


def streams() -> tuple[Answer, ...]:
    """Return the responses that are HTTP streams."""
    return tuple([answer for answer in answers() if answer.streamed and not answer.frames])


def _of_http(item: Recorded) -> Answer:
    return Answer(
        id=item.id,
        api=item.api,
        features=item.features,
        stream=item.stream,
        status=item.status,
        headers=item.headers,
        body=item.body,
        frames=(),
        expected=item.expected,
    )


def _of_sockets() -> Iterator[Answer]:
    """Yield each response of each WebSocket: the messages of the server between two requests."""
    for session in sessions("responses-ws"):
        told = cast("list[Object]", (session.expected or {}).get("responses") or [])
        for index, frames in enumerate(_responses(session.frames)):
            yield Answer(
                id=f"{session.id}.{index}",
                api="responses-ws",
                features=session.features,
                stream=True,
                status=200,
                headers={},
                body=b"",
                frames=tuple(frames),
                expected=told[index] if index < len(told) else None,
            )


def _responses(frames: Sequence[tuple[str, Object]]) -> Iterator[list[Object]]:
    current = list[Object]()
    for direction, frame in frames:
        if direction != "server":
            continue
        current.append(frame)
        if frame.get("type") in TERMINAL:
            yield current
            current = []


# --- Reading ------------------------------------------------------------------------------------------------


def read(answer: Answer) -> Turn | ChatError:
    """Return the turn that the library decodes from a complete response body."""
    try:
        if not 200 <= answer.status < 300:
            return error_from_response(answer.status, answer.headers, answer.body, PROVIDER)
        if answer.frames:
            return read_frames(answer.frames)
        return read_stream([answer.body]) if answer.stream else decode(answer.body, PROVIDER)
    except ChatError as error:
        return error


def read_frames(frames: Sequence[Object]) -> Turn:
    """Return the turn in events that arrived as separate frames.

    Raises:
        ChatError: the library cannot make a turn of it.
    """
    decoder = StreamDecoder(PROVIDER)
    deltas = list[Delta]()
    for frame in frames:
        deltas += decoder.feed_json([frame])
    return require_agreement(decoder.close(), deltas)


def read_stream(chunks: Sequence[bytes]) -> Turn:
    """Return the turn that the library decodes from the chunks of a stream. The deltas must equal the turn.

    Raises:
        ChatError: the library cannot decode a turn.
    """
    parser, decoder = SseParser(), StreamDecoder(PROVIDER)
    deltas = list[Delta]()
    for chunk in chunks:
        if events := parser.feed(chunk):
            deltas += decoder.feed(events)
    return require_agreement(decoder.close(), deltas)


def require_agreement(turn: Turn, deltas: Sequence[Delta]) -> Turn:
    """Return the turn of a stream whose deltas equal the turn.

    Raises:
        AssertionError: the deltas and the turn differ, or the same text was delivered twice.
    """
    said = "".join([delta.text for delta in deltas if isinstance(delta, TextDelta)])
    assert said == turn.text
    assert "".join([delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]) == reasoning_of(turn)
    for index, tool in enumerate(turn.tools):
        pieces = [delta for delta in deltas if isinstance(delta, ToolCallDelta) and delta.index == index]
        assert "".join([piece.arguments for piece in pieces]) == tool.call.text
        assert pieces[0].name == tool.name
    return turn


def reasoning_of(turn: Turn) -> str:
    """Return the reasoning of the model."""
    return "".join([part.text for part in turn.parts if isinstance(part, Reasoning)])


def refusal_words(turn: Turn) -> str:
    """Return the text of a refusal."""
    words = [part.data["refusal"] for part in turn.parts if isinstance(part, ProviderPart) and part.kind == "refusal"]
    return "".join([str(word) for word in words])


# --- Comparing ----------------------------------------------------------------------------------------------


def differences(answer: Answer, got: Turn | ChatError) -> list[str]:
    """Return the differences between the library and the official client, as `field: ours | theirs`."""
    expected = answer.expected
    if expected is None:
        return []
    if isinstance(error := expected.get("error"), dict):
        wanted = ERROR_CLASSES[str(error["class"])]
        return [] if type(got).__name__ in wanted else [f"error: {type(got).__name__} | {error['class']}"]
    if isinstance(got, ChatError):
        return [f"failure: {got} | an answer"]
    ours, theirs = summary(got), _expected_turn(expected)
    return [f"{name}: {ours[name]!r} | {theirs[name]!r}" for name in theirs if ours[name] != theirs[name]]


def summary(turn: Turn) -> dict[str, object]:
    """Return the fields of a turn in the form that the official client reports."""
    metadata, usage = turn.metadata, turn.usage
    assert metadata is not None
    return {
        "text": turn.text,
        "reasoning": reasoning_of(turn),
        "refusal": refusal_words(turn),
        "tool_calls": [(tool.call_id, tool.name, _arguments(tool.call.raw or "")) for tool in turn.tools],
        "finish_reason": metadata.finish_reason or "",
        "incomplete_reason": _object(metadata.extra.get("incomplete_details")).get("reason"),
        "model": metadata.model or "",
        "response_id": metadata.id or "",
        "usage.input": usage.input_tokens,
        "usage.output": usage.output_tokens,
        "usage.cache_read": usage.cache_read_tokens,
        "usage.reasoning": usage.reasoning_tokens,
    }


def _expected_turn(expected: Object) -> dict[str, object]:
    usage = _object(expected.get("usage"))
    calls = cast("list[Object]", expected["tool_calls"])
    return {
        "text": expected["text"],
        "reasoning": expected.get("reasoning") or "",
        "refusal": expected.get("refusal") or "",
        "tool_calls": [(call["id"], call["name"], call["arguments"]) for call in calls],
        "finish_reason": expected["finish_reason"] or "",
        "incomplete_reason": expected.get("incomplete_reason"),
        "model": expected["model"] or "",
        "response_id": expected["response_id"] or "",
        "usage.input": usage.get("input_tokens", 0),
        "usage.output": usage.get("output_tokens", 0),
        "usage.cache_read": _object(usage.get("input_tokens_details")).get("cached_tokens", 0),
        "usage.reasoning": _object(usage.get("output_tokens_details")).get("reasoning_tokens", 0),
    }


def _arguments(text: str) -> object:
    """Return arguments in the form of the expectations: parsed if possible, otherwise as text."""
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


def _object(value: object) -> dict[str, Json]:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}
