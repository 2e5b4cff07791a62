"""Tapes: what a server answers, byte by byte, and what that says. They are all that the kit knows of a wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias, final

from chat_core.errors import ProviderError
from chat_core.json import dump_bytes, dumps
from chat_core.messages import File, FinishReason, FunctionCall, Part
from chat_core.usage import NO_USAGE, Usage

Data: TypeAlias = str | Mapping[str, object]
"""The data of an event: text, or a mapping to be written as JSON."""


def sse_event(data: Data, event: str = "") -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else dumps(dict(data))
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a server.

    Attributes:
        body: its bytes; of a stream, a chunk for each event, so that the kit can cut between them.
        status: its status.
        headers: its headers.
    """

    body: bytes | tuple[bytes, ...] = field(default=b"", repr=False)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def json(cls, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Self:
        """A whole answer, written as JSON."""
        fields = {"content-type": "application/json", **(headers or {})}
        return cls(body=dump_bytes(value), status=status, headers=fields)

    @classmethod
    def sse(cls, *events: Data, named: bool = False) -> Self:
        """A stream of server-sent events; `named` calls each by the `type` in its data."""
        chunks = [sse_event(data, _event_type(data) if named else "") for data in events]
        return cls(body=tuple(chunks), headers={"content-type": "text/event-stream"})

    @classmethod
    def json_lines(cls, *values: Mapping[str, object]) -> Self:
        """A stream of lines of JSON."""
        chunks = [dump_bytes(dict(value)) + b"\n" for value in values]
        return cls(body=tuple(chunks), headers={"content-type": "application/x-ndjson"})

    @classmethod
    def json_array(cls, *values: Mapping[str, object]) -> Self:
        """A stream of the items of a JSON array; its end is a chunk of its own."""
        pieces = [dump_bytes(dict(value)) for value in values]
        chunks = [(b"," if place else b"[") + piece for place, piece in enumerate(pieces)]
        return cls(body=(*chunks, b"]"), headers={"content-type": "application/json"})

    @property
    def chunks(self) -> tuple[bytes, ...]:
        """The body, chunk by chunk."""
        return (self.body,) if isinstance(self.body, bytes) else self.body

    @property
    def data(self) -> bytes:
        """The body, whole."""
        return b"".join(self.chunks)


def _event_type(data: Data) -> str:
    return str(data.get("type", "")) if isinstance(data, Mapping) else ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """One answer of a model in the words of its wire, and what it says.

    Attributes:
        whole: the reply to `complete()`.
        stream: the reply to `stream()`; it says the same.
        tail: how many chunks at the end of `stream` may be missing without the answer being cut.
        text: its words, in at least two events of the stream where it is the tape of a text.
        reasoning: what the model thought.
        calls: its calls, with the provider's id of each in `id`, where the wire has ids.
        finish_reason: why the model stopped.
        usage: what it cost, as the server counts.
        order: the kinds of its parts, in order: `(Text, Tool)`.
        echo: words that must come back in the next request of the same conversation: a signature, a thought.
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
    """A refusal of a server, and what it must become.

    Attributes:
        reply: the server's answer, not 2xx.
        error: its class.
        retryable: whether the same call may succeed later.
        wait: the seconds that the server asks to wait.
        request_id: the id by which the provider's support finds the request.
    """

    reply: Reply
    error: type[ProviderError]
    retryable: bool
    wait: float | None = None
    request_id: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFailure:
    """An event by which a server says in mid-stream that it failed, and the error that it must become."""

    frame: bytes
    error: type[ProviderError]
    retryable: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsTape:
    """Texts, and the reply that holds their vectors.

    Attributes:
        short: a reply that lacks one of the vectors.
    """

    texts: Sequence[str]
    reply: Reply
    vectors: tuple[tuple[float, ...], ...]
    short: Reply
    usage: Usage = NO_USAGE


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTapes:
    """The tapes of a provider: those of what it claims.

    Attributes:
        text: an answer of words alone, some of them not ASCII.
        finishes: answers that end for other reasons.
        refusals: refusals of the server; one that it asks to wait for, and one that waiting does not help, at least.
        noise: frames that stand for events and fields that nobody knows; the kit puts each between any two others.
        malformed: a frame that is not what the protocol promises.
        failure: how the server fails in mid-stream.
        call: one call with arguments.
        mixed: words, and a call behind them.
        parallel: two calls or more of one tool, with other arguments each.
        no_arguments: a call of a tool that takes none.
        broken_arguments: a call whose arguments are not JSON, in an answer that ends as it should.
        structured: an answer whose `text` is a JSON object, asked for by a schema.
        reasoning: thoughts, and an answer or a call; `echo` is what must go back.
        files: files that a user may send.
        embeddings: vectors.
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
    embeddings: EmbeddingsTape | None = None
