"""Recorded responses of the Chat Completions API, decoded by this library, compared with the result of the official
client.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from chat_completions.codec import StreamDecoder, decode, decode_embeddings
from chat_completions.errors import error_from_response
from chat_completions.options import EncodingFormat
from chat_core.errors import ChatError
from chat_core.events import ReasoningDelta, TextDelta
from chat_core.messages import ProviderPart, Reasoning, Turn
from chat_core.provider import Delta, EmbeddingsResponse
from chat_core.transport import Event, SseParser

from .exchanges import APIS, WIRE
from .normalise import Json, Object

PROVIDER: Final = "recorded"

ERROR_CLASSES: Final = {
    "AuthenticationError": {"AuthenticationError"},
    "PermissionDeniedError": {"PermissionDeniedError"},
    "NotFoundError": {"NotFoundError"},
    "BadRequestError": {"InvalidRequestError", "ContextLengthError", "ContentFilteredError"},
    "RateLimitError": {"RateLimitedError", "QuotaExceededError"},
    "InternalServerError": {"ServerError", "OverloadedError"},
    # The error that the official client raises in mid-stream does not contain the type of the error.
    "APIError": {"InvalidRequestError", "ContextLengthError", "ServerError", "OverloadedError", "RateLimitedError"},
}
"""Which of our errors tell what the official client's class tells, or more."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A recorded response and the result of the official client, or `None` if that is not known."""

    id: str
    api: str
    features: tuple[str, ...]
    stream: bool
    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    expected: Object | None = field(repr=False)
    encoding_format: EncodingFormat | None = None
    """The encoding of embeddings that the request asked for."""

    @property
    def streamed(self) -> bool:
        """Whether the response is a stream that began."""
        return self.stream and self.status == 200 and self.api == "chat-completions"

    @property
    def events(self) -> list[Event]:
        """Return the events of the stream."""
        return SseParser().feed(self.body)

    @property
    def vectors(self) -> int:
        """Return the number of embeddings in a response."""
        data = cast("Object", json.loads(self.body)).get("data")
        return len(data) if isinstance(data, list) else 0


@functools.cache
def answers() -> tuple[Answer, ...]:
    """Return every recorded response of this API, in the order of the index."""
    found = list[Answer]()
    for line in (WIRE / "index.jsonl").read_text().splitlines():
        row = cast("Object", json.loads(line))
        if row["api"] in APIS:
            found += _answers_of(row)
    return tuple(found)


def streams() -> tuple[Answer, ...]:
    """Return the responses that are streams."""
    return tuple([answer for answer in answers() if answer.streamed])


def _answers_of(row: Object) -> Iterator[Answer]:
    path = cast("str", row["path"])
    recording = cast("Object", json.loads((WIRE / path).read_text()))
    page = WIRE / path.replace("recordings/", "expected/", 1)
    told = cast("Object", json.loads(page.read_text()))["interactions"] if page.exists() else []
    for index, item in enumerate(cast("list[Object]", recording["interactions"])):
        response = cast("Object", item["response"])
        body = body_of(response)
        expected = cast("list[Object | None]", told)[index] if told else None
        if item["api"] in APIS and (item["api"] == "chat-completions" or _speaks(response, expected)):
            yield Answer(
                id=f"{path.removeprefix('recordings/').removesuffix('.json')}#{index}",
                api=str(item["api"]),
                features=tuple(cast("list[str]", row["features"])),
                stream=bool(item["stream"]),
                status=cast("int", response.get("status") or 200),
                headers=cast("dict[str, str]", response.get("headers") or {}),
                body=body,
                expected=expected,
                encoding_format=_requested_encoding(item),
            )


def _requested_encoding(item: Object) -> EncodingFormat | None:
    """Return the encoding that a recorded request for embeddings asked for."""
    value = _object(_object(item.get("request")).get("json_body")).get("encoding_format")
    return "base64" if value == "base64" else None


def body_of(response: Object) -> bytes:
    """Return the recorded body. If only its value was recorded, return this value as JSON."""
    if isinstance(text := response.get("text_body"), str):
        return text.encode("utf-8", "surrogatepass")
    return json.dumps(response.get("json_body")).encode()


def _speaks(response: Object, expected: Object | None) -> bool:
    """Return whether a response about embeddings has the format of this API. Several vendors have their own format."""
    if cast("int", response.get("status") or 200) >= 400:
        return expected is not None
    body = response.get("json_body")
    return isinstance(body, dict) and isinstance(body.get("data"), list)


# --- Reading ------------------------------------------------------------------------------------------------


def read(answer: Answer) -> Turn | EmbeddingsResponse | ChatError:
    """Return the turn that the library decodes from a complete response body."""
    try:
        if answer.status != 200:
            return error_from_response(answer.status, answer.headers, answer.body, PROVIDER)
        if answer.api == "embeddings":
            return decode_embeddings(answer.body, answer.vectors, PROVIDER, encoding_format=answer.encoding_format)
        return read_stream([answer.body]) if answer.stream else decode(answer.body, PROVIDER)
    except ChatError as error:
        return error


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
    turn = decoder.close()
    assert "".join([delta.text for delta in deltas if isinstance(delta, TextDelta)]) == turn.text
    assert "".join([delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]) == reasoning_of(turn)
    return turn


def reasoning_of(turn: Turn) -> str:
    """Return the reasoning of the model."""
    return "".join([part.text for part in turn.parts if isinstance(part, Reasoning)])


def refusal_words(turn: Turn) -> str:
    """Return the text of a refusal."""
    words = [part.data["refusal"] for part in turn.parts if isinstance(part, ProviderPart) and part.kind == "refusal"]
    return "".join([str(word) for word in words])


# --- Comparing ----------------------------------------------------------------------------------------------


def differences(answer: Answer, got: Turn | EmbeddingsResponse | ChatError) -> list[str]:
    """Return the differences between the library and the official client, as `field: ours | theirs`."""
    expected = answer.expected
    if expected is None:
        return []
    if isinstance(error := expected.get("error"), dict):
        wanted = ERROR_CLASSES[str(error["class"])]
        return [] if type(got).__name__ in wanted else [f"error: {type(got).__name__} | {error['class']}"]
    if isinstance(got, ChatError):
        return [f"failure: {got} | an answer"]
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
        "refusal": refusal_words(turn),
        "tool_calls": [(tool.call_id, tool.name, _arguments(tool.call.raw or "")) for tool in turn.tools],
        "finish_reason": metadata.finish_reason or "",
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
        "model": expected["model"] or "",
        "response_id": expected["response_id"] or "",
        "usage.input": usage.get("prompt_tokens", 0),
        "usage.output": usage.get("completion_tokens", 0),
        "usage.cache_read": _object(usage.get("prompt_tokens_details")).get("cached_tokens", 0),
        "usage.reasoning": _object(usage.get("completion_tokens_details")).get("reasoning_tokens", 0),
    }


def _of_vectors(response: EmbeddingsResponse) -> dict[str, object]:
    return {
        "count": len(response.vectors),
        "dims": sorted({len(vector) for vector in response.vectors}),
        "head": [[round(number, 6) for number in vector[:3]] for vector in response.vectors[:4]],
        "usage.input": response.usage.input_tokens,
    }


def _expected_vectors(expected: Object) -> dict[str, object]:
    return {
        "count": expected["count"],
        "dims": sorted(set(cast("list[int]", expected["dims"]))),
        "head": cast("list[Json]", expected["head"])[:4],
        "usage.input": expected["input_tokens"] or 0,
    }


def _arguments(text: str) -> object:
    """Return arguments in the form of the expectations: parsed if possible, otherwise as text."""
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


def _object(value: object) -> Object:
    return cast("Object", value) if isinstance(value, dict) else {}
