"""Providers with faults that come from habits: the same code for most requests, or for most servers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from chat_core import (
    ChatError,
    ChatOptions,
    File,
    InvalidResponseError,
    Messages,
    OutputSchema,
    ProviderError,
    Reasoning,
    Tool,
    ToolCallDelta,
    ToolDeclarations,
    Turn,
)
from chat_core.provider import NO_TOOLS, Delta

from .toy import Decoder, Encoder, Toy, ToyStream
from .wrong_providers import fails_at

Items = list[dict[str, Any]]


class _Streams(Toy):
    """Streams whose arguments a subclass changes."""

    def changed(
        self, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> tuple[ToolDeclarations, ChatOptions, OutputSchema | None]:
        return tools, options, output

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ToyStream]:
        tools, options, structured_output = self.changed(tools, options, structured_output)
        async with super().stream(messages, tools, options, structured_output) as stream:
            yield stream


@fails_at("schema_sent")
class ForgetsTheSchemaOfStreams(_Streams):
    """The schema of a structured output is sent by `complete()` only."""

    def changed(
        self, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> tuple[ToolDeclarations, ChatOptions, OutputSchema | None]:
        return tools, options, None


@fails_at("declarations")
class ForgetsTheToolsOfStreams(_Streams):
    """Tools are declared by `complete()` only."""

    def changed(
        self, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> tuple[ToolDeclarations, ChatOptions, OutputSchema | None]:
        return NO_TOOLS, options, output


@fails_at("content_types")
class ComparesTheContentType(Toy):
    """A content type with parameters, such as a charset, is taken for another format."""

    class Streaming(ToyStream):
        def read(self, data: bytes) -> list[Delta]:
            if self.events.headers.get("content-type", "text/event-stream") != "text/event-stream":
                msg = "the response is no stream of events"
                raise InvalidResponseError(msg)
            return super().read(data)


@fails_at("options")
class SendsOneStopText(Toy):
    """Of several stop texts only the first one is sent."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        stop = options.stop
        fields = json.loads(super().body(messages, tools, replace(options, stop=None), output))
        return json.dumps(fields if stop is None else {**fields, "until": stop[0]}).encode()


@fails_at("files")
class CallsEveryPictureAJpeg(Toy):
    """Each image is sent with the same type."""

    class Encoding(Encoder):
        def file(self, file: File) -> Items:
            return [{**item, "type": "image/jpeg"} for item in super().file(file)]


@fails_at("call_deltas")
class DeliversAllArgumentsSoFar(Toy):
    """Each delta of a call has the arguments that have arrived so far."""

    class Decoding(Decoder):
        def on_input(self, event: Any) -> list[Delta]:
            super().on_input(event)
            piece = next(piece for piece in self.pieces if piece.get("n") == event["n"])
            return [ToolCallDelta(piece["input"], event["n"])]


@fails_at("partial")
class HasNoReasoningBeforeTheEnd(Toy):
    """`partial()` has the text that has arrived, but not the reasoning."""

    class Streaming(ToyStream):
        def partial(self) -> Turn:
            turn = super().partial()
            parts = [part for part in turn.parts if not isinstance(part, Reasoning)]
            return Turn(parts, finish_reason=turn.finish_reason, metadata=turn.metadata)


@fails_at("left_early")
class SwallowsErrorsOfTheBlock(Toy):
    """An error that is raised in the block of a stream ends the block, and is lost."""

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ToyStream]:
        async with super().stream(messages, tools, options, structured_output) as stream:
            try:
                yield stream
            except ChatError:
                raise
            except Exception as error:  # noqa: BLE001 - the fault of this provider
                self.lost = error


@fails_at("error_of_a_gateway")
class ReadsWaitsAsNumbers(Toy):
    """A wait time that is a date is no number, so that the error of the server is lost."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        float(headers.get("retry-after", "0"))
        return super().refusal(status, headers, body)


@fails_at("error_of_a_gateway")
class ReadsEachErrorAsAnObject(Toy):
    """The body of an error response is JSON, and an object."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        with suppress(ValueError):
            json.loads(body).get("why")
        return super().refusal(status, headers, body)


@fails_at("result_ids")
class SendsRepeatedIds(Toy):
    """Two calls of a turn are sent with one id if the server gave them one."""

    class Encoding(Encoder):
        def id_of(self, tool: Tool) -> str:
            return tool.call_id or tool.id


@fails_at("result_ids")
class SendsCallsWithoutIds(Toy):
    """A call to which another provider gave no id is sent without an id."""

    class Encoding(Encoder):
        def id_of(self, tool: Tool) -> str:
            return super().id_of(tool) if tool.call_id else ""
