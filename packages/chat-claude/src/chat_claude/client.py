"""Chat provider that sends requests to the Messages API over a `Transport`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self, final
from urllib.parse import quote

from chat_core.errors import ProviderError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, Abilities, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Request
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

from chat_claude.codec import Encoded, StreamDecoder, decode, decode_count, encode, encode_count, is_last
from chat_claude.errors import error_from_response
from chat_claude.options import Dialect

NO_OPTIONS: Final = ChatOptions()


@final
@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of a platform's methods, relative to the base URL.

    Attributes:
        complete: path of a complete response.
        stream: path of a stream.
        count: path of the token count.
    """

    complete: str = "/v1/messages"
    stream: str = "/v1/messages"
    count: str = "/v1/messages/count_tokens"

    @classmethod
    def on_vertex(cls, model: str) -> Self:
        """Return the paths for a model on Vertex AI, below `publishers/anthropic`."""
        path = f"/models/{quote(model, safe='@')}"
        return cls(f"{path}:rawPredict", f"{path}:streamRawPredict", "/models/count-tokens:rawPredict")


ANTHROPIC_PATHS: Final = Paths()
"""The paths of the Anthropic API and of gateways with the same API."""


@final
class ClaudeProvider(TransportProvider):
    """Chat provider for Claude with `complete()`, `stream()` and `count_tokens()`. Created by `ClaudeBuilder`.

    Instances are immutable and safe to share between tasks. Leaving `async with` closes the default transport. A
    transport that the caller passed to the builder stays open.
    """

    __slots__ = ("_dialect", "_paths")

    def __init__(
        self,
        dialect: Dialect,
        endpoint: Endpoint,
        transport: Transport,
        *,
        owns_transport: bool = False,
        description: str = "",
        paths: Paths = ANTHROPIC_PATHS,
    ) -> None:
        abilities = Abilities(
            tools=True, images=True, audio=False, documents=True, structured=dialect.schemas, streaming=True
        )
        metadata = ProviderMeta(dialect.provider, dialect.model, description, abilities=abilities)
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect
        self._paths = paths

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: send one request and return the model's turn with pending tools.

        Raises:
            ChatError: the request failed. The error contains the usage that the API reported, if any.
        """
        encoded = encode(messages, tools, options, structured_output, dialect=self._dialect, stream=False)
        dialect = self._dialect
        read = partial(
            decode,
            provider=dialect.provider,
            output_tool=encoded.output_tool,
            finish_reasons=dialect.finish_reasons,
        )
        return await self.fetch_decoded(self._create_request(self._paths.complete, encoded, options), read)

    @asynccontextmanager
    async def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AsyncGenerator[DecodedStream, None]:
        """Implement `StreamProvider.stream`: send one request and yield its stream.

        Leaving the `async with` block early or canceling the task closes the connection at once.

        Raises:
            ChatError: the request failed; raised on entering the block.
        """
        encoded = encode(messages, tools, options, structured_output, dialect=self._dialect, stream=True)
        request = self._create_request(self._paths.stream, encoded, options, stream=True)
        dialect = self._dialect
        decoder = StreamDecoder(
            dialect.provider, output_tool=encoded.output_tool, finish_reasons=dialect.finish_reasons
        )
        async with self.open_stream(request, decoder) as stream:
            yield stream

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = NO_TOOLS,
        options: ChatOptions = NO_OPTIONS,
        structured_output: OutputSchema | None = None,
    ) -> int:
        """Return the number of input tokens that `complete()` would use with the same arguments.

        Args:
            messages: the conversation.
            tools: declared tools.
            options: options of the request.
            structured_output: schema of the requested output.

        Raises:
            ChatError: the request failed.
        """
        dialect = replace(self._dialect, model_in_body=True)  # no platform has the model in the path of the count
        encoded = encode_count(messages, tools, options, structured_output, dialect=dialect)
        read = partial(decode_count, provider=self._dialect.provider)
        return await self.fetch_decoded(self._create_request(self._paths.count, encoded, options), read)

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Implement `TransportProvider.response_error`: return the error for a response whose status is not 2xx."""
        return error_from_response(status, headers, body, self._dialect.provider)

    def _create_request(self, path: str, encoded: Encoded, options: ChatOptions, *, stream: bool = False) -> Request:
        headers = (("anthropic-beta", ",".join(encoded.betas)),) if encoded.betas else ()
        return self.endpoint.request(
            path, encoded.body, options.timeout, stream=stream, is_last=is_last, headers=headers
        )
