"""Providers that read answers, streams and refusals wrong, in one way each."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

from chat_core import (
    ChatError,
    ChatOptions,
    EmbeddingsResponse,
    FinishReason,
    InvalidResponseError,
    Messages,
    Metadata,
    NetworkError,
    OutputSchema,
    Part,
    ProviderError,
    ServerError,
    Structured,
    Text,
    TextDelta,
    Tool,
    ToolDeclarations,
    TransportError,
    Turn,
    Usage,
)
from chat_core.provider import Delta
from chat_core.transport import EventStream, Request
from chat_core.wire.shapes import is_object

from .toy import NAME, Decoder, Toy, ToyStream
from .wrong_providers import fails_at

EMPTY: dict[str, Any] = {"id": "", "items": [], "why": "done", "tokens": {}}

# --- Words ----------------------------------------------------------------------------------------------------------


@fails_at("text", "deltas")
class LosesTheLastWords(Toy):
    """The text of the event before the end is thought to be a part of that end, and lost."""

    class Decoding(Decoder):
        def on_say(self, event: Any) -> list[Delta]:
            return [] if event["text"].endswith("?") else super().on_say(event)


@fails_at("deltas")
class SaysTheLastDeltaTwice(Toy):
    """What stands in the last event is told again."""

    class Decoding(Decoder):
        def on_end(self, event: Any) -> list[Delta]:
            super().on_end(event)
            last = self.pieces[-1]
            return [TextDelta(last["text"])] if last["t"] == "say" else []


@fails_at("piece_by_piece", "partial")
class GathersTheStream(Toy):
    """Nothing is told before all of it has come."""

    class Streaming(ToyStream):
        async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
            batches = [batch async for batch in super().__aiter__()]
            for batch in batches:
                yield batch


@fails_at("order")
class PutsCallsFirst(Toy):
    """Calls are put before the words that came before them."""

    class Decoding(Decoder):
        def parts(self) -> list[Part]:
            return sorted(super().parts(), key=lambda part: not isinstance(part, Tool))


@fails_at("finish_reason")
class AlwaysStops(Toy):
    """An answer that was cut by its limit is told as one that is whole."""

    class Decoding(Decoder):
        def finish(self) -> FinishReason | None:
            return "stop" if self.why is not None else None


@fails_at("ownership")
class HidesItsName(Toy):
    """A turn does not say who made it."""

    class Decoding(Decoder):
        def turn(self) -> Turn:
            turn = super().turn()
            return Turn(turn.parts, finish_reason=turn.finish_reason, metadata=Metadata(usage=turn.usage))


@fails_at("unknown_fields")
class RefusesUnknownFields(Toy):
    """A new field of the server's breaks every answer."""

    class Decoding(Decoder):
        def whole(self, answer: Any) -> Turn:
            if answer.keys() != {"id", "items", "why", "tokens"}:
                raise InvalidResponseError("what is that?")
            return super().whole(answer)


@fails_at("unknown_events")
class RefusesUnknownEvents(Toy):
    """A new event of the server's breaks every stream."""

    class Decoding(Decoder):
        def unknown(self, event: Any) -> list[Delta]:
            msg = f"what is {event}?"
            raise InvalidResponseError(msg)


@fails_at("structured")
class WrapsStructuredAnswers(Toy):
    """A structured answer comes with something around it."""

    class Decoding(Decoder):
        def part(self, piece: dict[str, Any]) -> Part:
            part = super().part(piece)
            if isinstance(part, Text) and part.text.startswith('{"city"'):
                return Structured({"answer": json.loads(part.text)})
            return part


@fails_at("schema_sent")
class ForgetsTheSchema(Toy):
    """A structured answer is hoped for, and not asked for."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        del output
        return super().body(messages, tools, options, None)


@fails_at("reasoning")
class ThinksAloud(Toy):
    """What the model thought is told as its words."""

    class Decoding(Decoder):
        def on_think(self, event: Any) -> list[Delta]:
            super().on_think(event)
            return [TextDelta(event["text"])]


# --- Usage ----------------------------------------------------------------------------------------------------------


@fails_at("usage")
class DropsUsage(Toy):
    """A turn costs nothing."""

    class Decoding(Decoder):
        def usage(self) -> Usage:
            return Usage()


@fails_at("usage")
class CountsTwice(Toy):
    """Counts of the whole answer so far are added up."""

    class Decoding(Decoder):
        def count(self, tokens: dict[str, int]) -> None:
            self.tokens = {name: self.tokens.get(name, 0) + count for name, count in tokens.items()}


@fails_at("embeddings_usage")
class GivesVectorsAway(Toy):
    """Vectors cost nothing."""

    def vectors(self, answer: Any, count: int) -> EmbeddingsResponse:
        return replace(super().vectors(answer, count), usage=Usage())


# --- Streams --------------------------------------------------------------------------------------------------------


@fails_at("truncation", "truncated_call")
class TakesACutForAnEnd(Toy):
    """A stream that is cut is an answer, and its calls run."""

    class Streaming(ToyStream):
        def close(self) -> Turn:
            self.decoder.why = self.decoder.why or "done"
            return super().close()


@fails_at("truncation")
class CallsACutAnotherThing(Toy):
    """A stream that is cut is told as a server that speaks nonsense."""

    class Streaming(ToyStream):
        def close(self) -> Turn:
            if self.decoder.why is None:
                raise InvalidResponseError("the stream has no end")
            return super().close()


@fails_at("truncated_body")
class MendsCutBodies(Toy):
    """Half an answer is read as far as it goes."""

    async def send(self, request: Request) -> Any:
        try:
            return await super().send(request)
        except InvalidResponseError as error:
            if error.raw[:1] == b"{":
                return {"id": None, "items": [], "why": "done", "tokens": {}}
            raise


@fails_at("nonsense_body")
class ReadsAnythingAsAnAnswer(Toy):
    """What is no answer is an empty one."""

    async def send(self, request: Request) -> Any:
        answer = await super().send(request)
        readable = is_object(answer) and "items" in answer
        return answer if readable or "vectors" in request.path else EMPTY


@fails_at("nonsense_events")
class BlamesTheServer(Toy):
    """What is no event is told as a server that failed."""

    class Streaming(ToyStream):
        def read(self, data: bytes) -> list[Delta]:
            try:
                return super().read(data)
            except InvalidResponseError as error:
                if isinstance(error.__cause__, ValueError):
                    raise
                raise ServerError(str(error)) from error


@fails_at("cut_anywhere")
class ReadsOneEventOfEachRead(Toy):
    """Of the events that came together only the first one is read."""

    class Streaming(ToyStream):
        async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
            async for batch in self.events.batches():
                yield self.read(batch[0].data)


@fails_at("partial")
class ForgetsWhatCame(Toy):
    """A failure carries nothing of what had come."""

    class Streaming(ToyStream):
        def partial(self) -> Turn:
            return Turn([], metadata=Metadata(NAME))


@fails_at("malformed_frame")
class PassesOverNonsense(Toy):
    """A frame that cannot be read is passed over."""

    class Streaming(ToyStream):
        def read(self, data: bytes) -> list[Delta]:
            try:
                return super().read(data)
            except InvalidResponseError:
                return []


@fails_at("failure_in_stream")
class SwallowsFailures(Toy):
    """An error in mid-stream ends the answer, and no more."""

    class Decoding(Decoder):
        def on_fault(self, event: Any) -> list[Delta]:
            del event
            self.why = "done"
            return []


@fails_at("failure_in_stream")
class MistakesFailures(Toy):
    """An error in mid-stream is told as another one."""

    class Decoding(Decoder):
        def on_fault(self, event: Any) -> list[Delta]:
            msg = f"failed: {event}"
            raise ServerError(msg)


@fails_at("broken_connection")
class TakesABreakForNonsense(Toy):
    """A connection that breaks is told as an answer that makes no sense."""

    class Streaming(ToyStream):
        async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
            try:
                async for batch in super().__aiter__():
                    yield batch
            except NetworkError as error:
                raise InvalidResponseError("the answer is broken") from error


@fails_at("connection")
class LetsTransportErrorsThrough(Toy):
    """A timeout is told as any failure of the connection."""

    async def send(self, request: Request) -> Any:
        try:
            return await super().send(request)
        except NetworkError as error:
            raise NetworkError(str(error)) from error


@fails_at("left_early", "cancelled")
class LeavesTheConnectionOpen(Toy):
    """A stream is closed when it has been read to its end, and never else."""

    kept: ClassVar[list[AbstractAsyncContextManager[EventStream]]] = []

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ToyStream]:
        body = self.body(messages, tools, options, structured_output)
        request = self.patient(self.request("/ask/slowly", body), options)
        connection = self.transport.stream(request)
        self.kept.append(connection)
        try:
            stream = ToyStream(await connection.__aenter__(), Decoder())
        except TransportError as error:
            raise self.failed(error) from error
        yield stream
        if stream.decoder.why is not None:
            await connection.__aexit__(None, None, None)


@fails_at("cancelled")
class HidesCancellation(Toy):
    """A cancelled stream goes on as a failure that may be tried again."""

    class Streaming(ToyStream):
        async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
            try:
                async for batch in super().__aiter__():
                    yield batch
            except GeneratorExit:
                raise
            except ChatError:
                raise
            except BaseException as error:  # noqa: BLE001 - that is what is wrong
                raise NetworkError(repr(error)) from None


# --- Refusals -------------------------------------------------------------------------------------------------------


@fails_at("error_class", "error_of_a_gateway", "error_retryable")
class CallsEveryRefusalAFault(Toy):
    """Every refusal is the server's fault."""

    def kind(self, status: int) -> type[ProviderError]:
        del status
        return ServerError


@fails_at("error_retryable")
class GivesUpOnRateLimits(Toy):
    """What waiting would help is not tried again."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        error = super().refusal(status, headers, body)
        if status == 429:
            error.retryable = False
        return error


@fails_at("error_wait")
class IgnoresRetryAfter(Toy):
    """How long the server asks to wait is not heard."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return super().refusal(status, {name: headers[name] for name in headers if name != "retry-after"}, body)


@fails_at("error_request_id")
class LosesRequestIds(Toy):
    """Nobody's support will find the request."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return super().refusal(status, {name: headers[name] for name in headers if name != "x-request-id"}, body)


@fails_at("error_of_a_gateway")
class ReadsEveryRefusalAsJson(Toy):
    """A gateway's page breaks the reading of refusals."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return super().refusal(status, headers, json.dumps(json.loads(body)).encode())


@fails_at("mutated_responses")
class AssertsThatATextIsAText(Toy):
    """A text of another type fails an assertion, which is no `ChatError`."""

    class Decoding(Decoder):
        def part(self, piece: dict[str, Any]) -> Part:
            part = super().part(piece)
            assert not isinstance(part, Text) or type(part.text) is str
            return part


@fails_at("secrets")
class TellsItsKey(Toy):
    """The key stands in the repr."""

    def __repr__(self) -> str:
        return f"TellsItsKey({self.request('/', b'').headers!r})"
