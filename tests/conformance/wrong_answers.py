"""Providers that decode responses, streams and error responses wrong, in one way each."""

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

# --- Texts ----------------------------------------------------------------------------------------------------------


@fails_at("text", "deltas")
class LosesTheLastWords(Toy):
    """The text of the last event before the end is dropped."""

    class Decoding(Decoder):
        def on_say(self, event: Any) -> list[Delta]:
            return [] if str(event["text"]).endswith("?") else super().on_say(event)


@fails_at("deltas")
class SaysTheLastDeltaTwice(Toy):
    """The delta of the last event is delivered twice."""

    class Decoding(Decoder):
        def on_end(self, event: Any) -> list[Delta]:
            super().on_end(event)
            last = self.pieces[-1]
            return [TextDelta(last["text"])] if last["t"] == "say" else []


@fails_at("piece_by_piece", "partial")
class GathersTheStream(Toy):
    """No delta is delivered before the whole response has arrived."""

    class Streaming(ToyStream):
        async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
            batches = [batch async for batch in super().__aiter__()]
            for batch in batches:
                yield batch


@fails_at("order")
class PutsCallsFirst(Toy):
    """Calls are placed before the text that precedes them."""

    class Decoding(Decoder):
        def parts(self) -> list[Part]:
            return sorted(super().parts(), key=lambda part: not isinstance(part, Tool))


@fails_at("finish_reason")
class AlwaysStops(Toy):
    """A response that was truncated by its token limit has the finish reason of a complete one."""

    class Decoding(Decoder):
        def finish(self) -> FinishReason | None:
            return "stop" if self.why is not None else None


@fails_at("ownership")
class HidesItsName(Toy):
    """The metadata of a turn does not name the provider."""

    class Decoding(Decoder):
        def turn(self) -> Turn:
            turn = super().turn()
            return Turn(turn.parts, finish_reason=turn.finish_reason, metadata=Metadata(usage=turn.usage))


@fails_at("unknown_fields")
class RefusesUnknownFields(Toy):
    """An unknown field in a response raises an error."""

    class Decoding(Decoder):
        def whole(self, answer: Any) -> Turn:
            if answer.keys() != {"id", "items", "why", "tokens"}:
                raise InvalidResponseError("what is that?")
            return super().whole(answer)


@fails_at("unknown_events")
class RefusesUnknownEvents(Toy):
    """An unknown event in a stream raises an error."""

    class Decoding(Decoder):
        def unknown(self, event: Any) -> list[Delta]:
            msg = f"what is {event}?"
            raise InvalidResponseError(msg)


@fails_at("structured")
class WrapsStructuredAnswers(Toy):
    """The text of a structured answer is surrounded by other text."""

    class Decoding(Decoder):
        def part(self, piece: dict[str, Any]) -> Part:
            part = super().part(piece)
            if isinstance(part, Text) and part.text.startswith('{"city"'):
                return Structured({"answer": json.loads(part.text)})
            return part


@fails_at("schema_sent")
class ForgetsTheSchema(Toy):
    """A structured answer is expected, but its schema is not sent."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        del output
        return super().body(messages, tools, options, None)


@fails_at("reasoning")
class ThinksAloud(Toy):
    """Reasoning is returned as text."""

    class Decoding(Decoder):
        def on_think(self, event: Any) -> list[Delta]:
            super().on_think(event)
            return [TextDelta(event["text"])]


# --- Usage ----------------------------------------------------------------------------------------------------------


@fails_at("usage")
class DropsUsage(Toy):
    """A turn has no usage."""

    class Decoding(Decoder):
        def usage(self) -> Usage:
            return Usage()


@fails_at("usage")
class CountsTwice(Toy):
    """Cumulative token counts are added up."""

    class Decoding(Decoder):
        def count(self, tokens: dict[str, int]) -> None:
            self.tokens = {name: self.tokens.get(name, 0) + count for name, count in tokens.items()}


@fails_at("embeddings_usage")
class GivesVectorsAway(Toy):
    """Embeddings have no usage."""

    def vectors(self, answer: Any, count: int) -> EmbeddingsResponse:
        return replace(super().vectors(answer, count), usage=Usage())


# --- Streams --------------------------------------------------------------------------------------------------------


@fails_at("truncation", "truncated_call")
class TakesACutForAnEnd(Toy):
    """A truncated stream is accepted as a response, and its calls run."""

    class Streaming(ToyStream):
        def close(self) -> Turn:
            self.decoder.why = self.decoder.why or "done"
            return super().close()


@fails_at("truncation")
class CallsACutAnotherThing(Toy):
    """A truncated stream raises the error for an invalid response."""

    class Streaming(ToyStream):
        def close(self) -> Turn:
            if self.decoder.why is None:
                raise InvalidResponseError("the stream has no end")
            return super().close()


@fails_at("truncated_body")
class MendsCutBodies(Toy):
    """The text of a truncated body is accepted as a response."""

    async def send(self, request: Request) -> Any:
        try:
            return await super().send(request)
        except InvalidResponseError as error:
            if error.raw[:1] == b"{":
                return {"id": None, "items": [], "why": "done", "tokens": {}}
            raise


@fails_at("nonsense_body")
class ReadsAnythingAsAnAnswer(Toy):
    """A body that is not a response is decoded as an empty response."""

    async def send(self, request: Request) -> Any:
        answer = await super().send(request)
        readable = is_object(answer) and "items" in answer
        return answer if readable or "vectors" in request.path else EMPTY


@fails_at("nonsense_events", "field_paths")
class BlamesTheServer(Toy):
    """An event that is not JSON raises a server error."""

    class Streaming(ToyStream):
        def read(self, data: bytes) -> list[Delta]:
            try:
                return super().read(data)
            except InvalidResponseError as error:
                if isinstance(error.__cause__, ValueError):
                    raise
                raise ServerError(str(error)) from error


@fails_at("cut_anywhere", "partial")
class ReadsOneEventOfEachRead(Toy):
    """Of several events that arrive together, only the first is decoded."""

    class Streaming(ToyStream):
        async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
            async for batch in self.events.batches():
                yield self.read(batch[0].data)


@fails_at("partial")
class ForgetsWhatCame(Toy):
    """The error of a failed stream does not contain the partial turn."""

    class Streaming(ToyStream):
        def partial(self) -> Turn:
            return Turn([], metadata=Metadata(NAME))


@fails_at("malformed_frame", "field_paths")
class PassesOverNonsense(Toy):
    """A frame that cannot be decoded is ignored."""

    class Streaming(ToyStream):
        def read(self, data: bytes) -> list[Delta]:
            try:
                return super().read(data)
            except InvalidResponseError:
                return []


@fails_at("failure_in_stream")
class SwallowsFailures(Toy):
    """An error event in the middle of a stream ends the response without an error."""

    class Decoding(Decoder):
        def on_fault(self, event: Any) -> list[Delta]:
            del event
            self.why = "done"
            return []


@fails_at("failure_in_stream")
class MistakesFailures(Toy):
    """An error event in the middle of a stream raises an error of the wrong class."""

    class Decoding(Decoder):
        def on_fault(self, event: Any) -> list[Delta]:
            msg = f"failed: {event}"
            raise ServerError(msg)


@fails_at("broken_connection")
class TakesABreakForNonsense(Toy):
    """A broken connection raises the error for an invalid response."""

    class Streaming(ToyStream):
        async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
            try:
                async for batch in super().__aiter__():
                    yield batch
            except NetworkError as error:
                raise InvalidResponseError("the answer is broken") from error


@fails_at("connection")
class LetsTransportErrorsThrough(Toy):
    """A timeout raises the error for any connection failure."""

    async def send(self, request: Request) -> Any:
        try:
            return await super().send(request)
        except NetworkError as error:
            raise NetworkError(str(error)) from error


@fails_at("left_early", "cancelled")
class LeavesTheConnectionOpen(Toy):
    """The connection of a stream is closed only if the stream is read to its end."""

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
            stream = ToyStream(await connection.__aenter__(), self.decoder())
        except TransportError as error:
            raise self.failed(error) from error
        yield stream
        if stream.decoder.why is not None:
            await connection.__aexit__(None, None, None)


@fails_at("cancelled")
class HidesCancellation(Toy):
    """A cancelled stream raises a retryable error."""

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
    """Every error response raises a server error."""

    def kind(self, status: int) -> type[ProviderError]:
        del status
        return ServerError


@fails_at("error_retryable")
class GivesUpOnRateLimits(Toy):
    """Errors that a later attempt could resolve are not retryable."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        error = super().refusal(status, headers, body)
        if status == 429:
            error.retryable = False
        return error


@fails_at("error_wait")
class IgnoresRetryAfter(Toy):
    """The retry delay that the server requests is ignored."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return super().refusal(status, {name: headers[name] for name in headers if name != "retry-after"}, body)


@fails_at("error_request_id")
class LosesRequestIds(Toy):
    """Errors do not contain the request id."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return super().refusal(status, {name: headers[name] for name in headers if name != "x-request-id"}, body)


@fails_at("error_of_a_gateway")
class ReadsEveryRefusalAsJson(Toy):
    """An error response that is not JSON raises a decoding error."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return super().refusal(status, headers, json.dumps(json.loads(body)).encode())


@fails_at("mutated_responses")
class AssertsThatAnIdIsAText(Toy):
    """An id of a wrong type fails an assertion, which is not a `ChatError`."""

    class Decoding(Decoder):
        def call(self, piece: dict[str, Any]) -> Tool:
            assert isinstance(piece["id"], str)
            return super().call(piece)


@fails_at("secrets")
class TellsItsKey(Toy):
    """The repr contains the API key."""

    def __repr__(self) -> str:
        return f"TellsItsKey({self.request('/', b'').headers!r})"
