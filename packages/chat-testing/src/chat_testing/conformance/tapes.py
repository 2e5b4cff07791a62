"""Recorded server responses (tapes) for the conformance suite, with the results that a provider must return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias, final

from chat_core.errors import ProviderError
from chat_core.json import dump_bytes, dumps
from chat_core.messages import File, FinishReason, FunctionCall, Part, ProviderPart
from chat_core.usage import NO_USAGE, Usage

from chat_testing.conformance.aws_frames import encode_message

Data: TypeAlias = str | Mapping[str, object]
"""Data of an event: text, or a mapping that is encoded as JSON."""


def sse_event(data: Data, event: str = "") -> bytes:
    """Return one encoded server-sent event.

    Args:
        data: the data of the event.
        event: the event type. Default: none is sent.
    """
    text = data if isinstance(data, str) else dumps(dict(data))
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Recorded HTTP response that the conformance suite sends to a provider.

    Attributes:
        body: the body. A stream has one chunk per event, so that the suite can truncate it between events.
        status: the status code.
        headers: the header fields, by name.
    """

    body: bytes | tuple[bytes, ...] = field(default=b"", repr=False)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def json(cls, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Self:
        """Return a response with a JSON body.

        Args:
            value: the content of the body, which is encoded as JSON.
            status: the status code.
            headers: additional headers.
        """
        fields = {"content-type": "application/json", **(headers or {})}
        return cls(body=dump_bytes(value), status=status, headers=fields)

    @classmethod
    def sse(cls, *events: Data, named: bool = False) -> Self:
        """Return a response that streams server-sent events, one chunk per event.

        Args:
            *events: data of the events.
            named: whether the `type` in the data is also sent as the event type.
        """
        chunks = [sse_event(data, _event_type(data) if named else "") for data in events]
        return cls(body=tuple(chunks), headers={"content-type": "text/event-stream"})

    @classmethod
    def json_lines(cls, *values: Mapping[str, object]) -> Self:
        """Return a response that streams JSON lines, one chunk per value."""
        chunks = [dump_bytes(dict(value)) + b"\n" for value in values]
        return cls(body=tuple(chunks), headers={"content-type": "application/x-ndjson"})

    @classmethod
    def json_array(cls, *values: Mapping[str, object]) -> Self:
        """Return a response that streams a JSON array, one chunk per item. The closing bracket is a separate chunk."""
        pieces = [dump_bytes(dict(value)) for value in values]
        chunks = [(b"," if index else b"[") + piece for index, piece in enumerate(pieces)]
        return cls(body=(*chunks, b"]"), headers={"content-type": "application/json"})

    @classmethod
    def aws_events(cls, *events: tuple[str, Mapping[str, object]]) -> Self:
        """Return a response that streams an AWS event stream, one chunk per message.

        Args:
            *events: the event type and the JSON payload of each message.
        """
        chunks = [encode_message(dump_bytes(dict(payload)), kind) for kind, payload in events]
        return cls(body=tuple(chunks), headers={"content-type": "application/vnd.amazon.eventstream"})

    @property
    def chunks(self) -> tuple[bytes, ...]:
        """The chunks of the body. A body that is not streamed is one chunk."""
        return (self.body,) if isinstance(self.body, bytes) else self.body

    @property
    def data(self) -> bytes:
        """The whole body, with all chunks joined."""
        return b"".join(self.chunks)


def _event_type(data: Data) -> str:
    return str(data.get("type", "")) if isinstance(data, Mapping) else ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """Recorded model response in the format of its API, with the content that a provider must read from it.

    Attributes:
        whole: the reply to `complete()`.
        stream: the reply to `stream()`, with the same content.
        tail: number of chunks at the end of `stream` that may be missing without truncating the response.
        text: the text. In the tape `text`, the stream sends it in at least two events.
        reasoning: the reasoning of the model.
        calls: the calls. `id` is the id in the API, if the API has call ids.
        finish_reason: the finish reason that the turn must have.
        usage: the usage that the server reports.
        order: the types of the parts in order, such as `(Text, Tool)`.
        echo: texts that the next request of the conversation must contain, such as a signature.
    """

    whole: Reply | None = None
    stream: Reply | None = None
    tail: int = 0
    text: str = ""
    reasoning: str = ""
    calls: tuple[FunctionCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = NO_USAGE
    order: tuple[type[Part], ...] = ()
    echo: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Recorded error response of a server, and the error that a provider must raise for it.

    Attributes:
        reply: the response, whose status is not 2xx.
        error: the expected class.
        retryable: the expected value of `retryable`.
        wait: seconds that the server asks the client to wait.
        request_id: the request id that the error must contain.
    """

    reply: Reply
    error: type[ProviderError]
    retryable: bool
    wait: float | None = None
    request_id: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFailure:
    """Recorded event that reports an error inside a stream, and the error that a provider must raise for it."""

    frame: bytes
    error: type[ProviderError]
    retryable: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsTape:
    """Texts to embed, the recorded response, and the vectors that a provider must return.

    Attributes:
        texts: the texts to embed.
        reply: the response.
        vectors: the expected vectors.
        short: a response in which one vector is missing.
        usage: the usage that the server reports.
    """

    texts: Sequence[str]
    reply: Reply
    vectors: tuple[tuple[float, ...], ...]
    short: Reply
    usage: Usage = NO_USAGE


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTapes:
    """Recorded responses for the capabilities that a provider claims.

    Attributes:
        text: a response of text only, with some non-ASCII characters.
        finishes: responses with other finish reasons.
        refusals: error responses, with at least one retryable and one non-retryable error.
        noise: encoded unknown events, or events with unknown fields. The suite inserts each between any two events.
        malformed: an encoded event that violates the protocol.
        failure: an error event inside a stream.
        call: one call with arguments.
        mixed: text followed by a call.
        parallel: at least two calls of one tool with different arguments.
        no_arguments: a call of a tool without parameters.
        broken_arguments: a call whose arguments are not JSON, in a response that is not truncated.
        structured: a response whose `text` is a JSON object, for structured output.
        reasoning: reasoning followed by text or a call. `echo` has the texts that are sent back.
        files: files that a user may send.
        own_parts: provider parts that the API takes back, if the turns of the other tapes have none. The name of the
            provider replaces their `provider`.
        embeddings: a response with embedding vectors.
    """

    text: Tape | None = None
    finishes: tuple[Tape, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    noise: tuple[bytes, ...] = ()
    malformed: bytes = b'data: {"cut":\n\n'
    failure: StreamFailure | None = None
    call: Tape | None = None
    mixed: Tape | None = None
    parallel: Tape | None = None
    no_arguments: Tape | None = None
    broken_arguments: Tape | None = None
    structured: Tape | None = None
    reasoning: Tape | None = None
    files: tuple[File, ...] = ()
    own_parts: tuple[ProviderPart, ...] = ()
    embeddings: EmbeddingsTape | None = None
