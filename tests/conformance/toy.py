"""A correct provider for an invented API, the base class of the faulty providers."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

from chat_core import (
    ChatError,
    ChatOptions,
    EmbeddingsResponse,
    File,
    FinishReason,
    FunctionCall,
    InvalidResponseError,
    Messages,
    Metadata,
    NamedTool,
    Opaque,
    OutputSchema,
    Part,
    PendingToolsError,
    ProviderError,
    ProviderMeta,
    ProviderPart,
    Reasoning,
    ReasoningDelta,
    StreamTruncatedError,
    Structured,
    Text,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolDeclarations,
    TransportError,
    Turn,
    UnsupportedPartError,
    Usage,
)
from chat_core.json import dumps, loads_limited
from chat_core.provider import Delta
from chat_core.transport import Event, EventStream, Request, Timeouts, Transport
from chat_core.transport.provider_errors import error_class_for_status, provider_error, translate_transport_error
from chat_core.wire.instructions import instruction_turns
from chat_core.wire.shapes import WrongShapeError, require_text
from chat_core.wire.surrogates import SurrogateBuffer

NAME = "toy"
KEY = "toy-key-5f0c"
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, WrongShapeError)
FINISH: Mapping[str, FinishReason] = {"done": "stop", "full": "length", "calls": "tool_calls"}
IMAGES = ("image/png", "image/jpeg")


def path_of(error: Exception) -> str:
    """Return the path of a field with a wrong type, or an empty string."""
    return error.path if isinstance(error, WrongShapeError) else ""


class Encoder:
    """Encoder of a conversation as the items of a request."""

    name: str = NAME
    repeated: Sequence[str] = ()

    def items(self, messages: Messages) -> list[dict[str, Any]]:
        return [item for role, turn in messages.view().turns for item in self.turn(role, turn)]

    def turn(self, role: str, turn: Turn) -> list[dict[str, Any]]:
        ids = [tool.call_id for tool in turn.tools if tool.call_id is not None]
        self.repeated = [id_ for id_ in ids if ids.count(id_) > 1]
        found = [item for part in turn.parts for item in self.part(role, part)]
        return [*found, *[item for tool in turn.tools for item in (*self.result(tool), *self.beside(tool))]]

    def part(self, role: str, part: Part) -> list[dict[str, Any]]:
        match part:
            case Text(text):
                return [{"who": role, "say": text}]
            case Reasoning():
                return self.thought(part)
            case Tool():
                return self.call(part)
            case ProviderPart():
                return [dict(part.data)] if part.provider == self.name else []
            case Structured(value):
                return [{"who": role, "say": dumps(value)}]
            case File():
                return self.file(part)
            case _:
                msg = f"{NAME} has no place for {type(part).__name__}"
                raise UnsupportedPartError(msg)

    def thought(self, part: Reasoning) -> list[dict[str, Any]]:
        if part.opaque is None or part.opaque.provider != self.name:
            return []
        return [{"think": part.text, "proof": part.opaque.data["proof"]}]

    def call(self, tool: Tool) -> list[dict[str, Any]]:
        if not tool.resolved:
            msg = f"{tool.id} waits"
            raise PendingToolsError(msg, [tool.id])
        return [{"call": tool.name, "input": tool.call.text, "id": self.id_of(tool)}]

    def result(self, tool: Tool) -> list[dict[str, Any]]:
        return [{"result": tool.result_text(), "of": self.id_of(tool), "ok": not tool.failed}]

    def id_of(self, tool: Tool) -> str:
        """Return the id of a call, which no other call of its turn has."""
        return tool.id if tool.call_id is None or tool.call_id in self.repeated else tool.call_id

    def beside(self, tool: Tool) -> list[dict[str, Any]]:
        return [item for file in tool.result_files for item in self.file(file)]

    def file(self, file: File) -> list[dict[str, Any]]:
        if file.mime not in IMAGES or (file.data is None and file.url is None):
            msg = f"{NAME} can only see images, not {file!r}"
            raise UnsupportedPartError(msg)
        return [{"look": file.url or base64.b64encode(file.data or b"").decode()}]


class Decoder:
    """Decoder of events, or of the items of a complete response, into a turn."""

    name: str = NAME

    def __init__(self) -> None:
        self.surrogates: Any = SurrogateBuffer()
        self.pieces: list[dict[str, Any]] = []
        self.tokens: dict[str, int] = {}
        self.why: str | None = None
        self.id: str | None = None

    def read(self, event: Any) -> list[Delta]:
        """Decode an event."""
        handler = getattr(self, f"on_{event['t']}", None)
        return self.unknown(event) if handler is None else handler(event)

    def unknown(self, _event: Any) -> list[Delta]:
        return []

    def on_begin(self, event: Any) -> list[Delta]:
        self.id = event["id"]
        self.count(event["tokens"])
        return []

    def count(self, tokens: dict[str, int]) -> None:
        """Read the usage. Each count includes the earlier counts of the response."""
        self.tokens |= tokens

    def on_think(self, event: Any) -> list[Delta]:
        self.grow("think", event["text"])
        return [ReasoningDelta(event["text"])]

    def on_proof(self, event: Any) -> list[Delta]:
        self.pieces[-1]["proof"] = event["proof"]
        return []

    def on_say(self, event: Any) -> list[Delta]:
        self.grow("say", require_text(event["text"], "text"))
        return [TextDelta(event["text"])]

    def grow(self, kind: str, text: str) -> None:
        if not self.pieces or self.pieces[-1]["t"] != kind:
            self.pieces.append({"t": kind, "text": ""})
        self.pieces[-1]["text"] += text

    def on_call(self, event: Any) -> list[Delta]:
        name = require_text(event["name"], "name")
        self.pieces.append({"t": "call", "n": event["n"], "id": event["id"], "name": name, "input": ""})
        return [ToolCallDelta("", event["n"], event["name"], event["id"])]

    def on_input(self, event: Any) -> list[Delta]:
        [piece for piece in self.pieces if piece.get("n") == event["n"]][0]["input"] += event["text"]  # noqa: RUF015 - shorter
        return [ToolCallDelta(event["text"], event["n"])]

    def on_fault(self, event: Any) -> list[Delta]:
        msg = f"{NAME} failed: {event['status']}"
        raise error_class_for_status(event["status"])(msg, status=event["status"])

    def on_end(self, event: Any) -> list[Delta]:
        self.count(event["tokens"])
        self.why = event["why"]
        return []

    def whole(self, answer: Any) -> Turn:
        self.id, self.why, self.pieces = answer["id"], answer["why"], answer["items"]
        self.count(answer["tokens"])
        return self.turn()

    def turn(self) -> Turn:
        metadata = Metadata(self.name, "toy-1", self.id, self.why, self.usage())
        return Turn(self.parts(), finish_reason=self.finish(), metadata=metadata)

    def usage(self) -> Usage:
        return Usage(self.tokens.get("in", 0), self.tokens.get("out", 0))

    def finish(self) -> FinishReason | None:
        return None if self.why is None else FINISH.get(self.why, "other")

    def parts(self) -> list[Part]:
        return [self.part(piece) for piece in self.pieces]

    def field(self, piece: dict[str, Any], key: str) -> str:
        return require_text(piece[key], f"items[{self.pieces.index(piece)}].{key}")

    def part(self, piece: dict[str, Any]) -> Part:
        match piece["t"]:
            case "think":
                return Reasoning(piece["text"], opaque=Opaque(self.name, {"proof": piece.get("proof", "")}))
            case "call":
                return self.call(piece)
            case "value":
                return Structured(piece["value"])
            case _:
                return Text(self.field(piece, "text"))

    def call(self, piece: dict[str, Any]) -> Tool:
        return Tool(FunctionCall.parse(self.field(piece, "name"), piece["input"]), call_id=piece["id"])


class ToyStream:
    """A streamed response."""

    def __init__(self, events: EventStream, decoder: Decoder) -> None:
        self.events = events
        self.decoder = decoder

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        try:
            async for batch in self.events.batches():
                deltas, failure = self.read_batch(batch)
                yield deltas
                if failure is not None:
                    raise failure
        except TransportError as error:
            raise translate_transport_error(error, NAME) from error

    def read_batch(self, batch: Sequence[Event]) -> tuple[list[Delta], ChatError | None]:
        """Return the deltas before the first invalid event, and the error of that event."""
        deltas: list[Delta] = []
        for event in batch:
            try:
                deltas += self.read(event.data)
            except ChatError as error:
                return deltas, error
        return deltas, None

    def read(self, data: bytes) -> list[Delta]:
        try:
            return self.decoder.read(self.decoder.surrogates.feed(loads_limited(data)))
        except MALFORMED as error:
            msg = f"{NAME}: {data!r} is no event"
            raise InvalidResponseError(msg, path=path_of(error), raw=data) from error

    def partial(self) -> Turn:
        return self.decoder.turn()

    def close(self) -> Turn:
        if self.decoder.why is None:
            msg = f"{NAME}: the stream has no end"
            raise StreamTruncatedError(msg, partial=self.partial())
        try:
            return self.decoder.turn()
        except MALFORMED as error:
            msg = f"{NAME}: the events are no answer"
            raise InvalidResponseError(msg, path=path_of(error)) from error


class Toy:
    """The provider."""

    Encoding: ClassVar[type[Encoder]] = Encoder
    Decoding: ClassVar[type[Decoder]] = Decoder
    Streaming: ClassVar[type[ToyStream]] = ToyStream

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.name = NAME

    @property
    def metadata(self) -> ProviderMeta:
        return ProviderMeta(self.name, "toy-1")

    def with_provider_name(self, name: str) -> Self:
        clone = copy(self)
        clone.name = name
        return clone

    def decoder(self) -> Decoder:
        decoder = self.Decoding()
        decoder.name = self.name
        return decoder

    def encoder(self) -> Encoder:
        encoder = self.Encoding()
        encoder.name = self.name
        return encoder

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        body = self.body(messages, tools, options, structured_output)
        answer = await self.send(self.patient(self.request("/ask", body), options))
        try:
            return self.decoder().whole(answer)
        except MALFORMED as error:
            msg = f"{NAME}: {answer!r} is no answer"
            raise InvalidResponseError(msg, path=path_of(error)) from error

    async def send(self, request: Request) -> Any:
        try:
            response = await self.transport.send(request)
        except TransportError as error:
            raise translate_transport_error(error, NAME) from error
        if response.status != 200:
            raise self.refusal(response.status, response.headers, response.body)
        try:
            return loads_limited(response.body)
        except ValueError as error:
            msg = f"{NAME}: the answer is no JSON"
            raise InvalidResponseError(msg, raw=response.body) from error

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ToyStream]:
        body = self.body(messages, tools, options, structured_output)
        request = self.patient(self.request("/ask/slowly", body), options)
        try:
            async with self.transport.stream(request) as events:
                yield self.Streaming(events, self.decoder())
        except TransportError as error:
            raise self.failed(error) from error

    def failed(self, error: TransportError) -> ChatError:
        if error.kind == "status" and error.status is not None:
            return self.refusal(error.status, error.headers, error.body)
        return translate_transport_error(error, NAME)

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        request = self.request("/vectors", json.dumps({"texts": list(texts)}).encode())
        answer = await self.send(self.patient(request, options))
        return self.vectors(answer, len(texts))

    def vectors(self, answer: Any, count: int) -> EmbeddingsResponse:
        rows = sorted(answer["rows"], key=lambda row: row["n"])
        if len(rows) != count:
            msg = f"{NAME}: {len(rows)} vectors for {count} texts"
            raise InvalidResponseError(msg)
        return EmbeddingsResponse(tuple([tuple(row["vector"]) for row in rows]), Usage(answer["tokens"]))

    def _items(self, messages: Messages, options: ChatOptions) -> list[dict[str, Any]]:
        encoder = self.encoder()
        items = encoder.items(messages)
        first = next((place for place, item in enumerate(items) if item.get("who") != "system"), len(items))
        before, after = [
            [item for turn in turns for item in encoder.turn("system", turn)] for turns in instruction_turns(options)
        ]
        return [*before, *items[:first], *after, *items[first:]]

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        options.extra(type(None), NAME)
        options.refuse(NAME, "top_p", "top_k", "seed", "stop", "parallel_tool_calls", "reasoning")
        declared = [
            {"name": tool.name, "about": tool.description, "takes": dict(tool.parameters)} for tool in tools.declared
        ]
        fields: dict[str, Any] = {
            "model": "toy-1",
            "items": self._items(messages, options),
            "tools": declared,
        }
        choice = options.tool_choice
        chosen: dict[str, Any] = {"heat": options.temperature, "most": options.max_tokens}
        chosen["must"] = choice.name if isinstance(choice, NamedTool) else choice
        fields |= {name: value for name, value in chosen.items() if value is not None}
        if output is not None:
            fields["schema"] = dict(output.schema)
        return json.dumps(fields).encode()

    def request(self, path: str, body: bytes) -> Request:
        headers = (("content-type", "application/json"), ("authorization", f"Bearer {KEY}"))
        return Request("POST", "https", "toy.example", path, headers, body)

    def patient(self, request: Request, options: ChatOptions) -> Request:
        return request if options.timeout is None else replace(request, timeouts=Timeouts(idle=options.timeout))

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return provider_error(
            self.kind(status), f"{NAME} refused with {status}", status=status, headers=headers, body=body
        )

    def kind(self, status: int) -> type[ProviderError]:
        return error_class_for_status(status)
