"""Claude behind the Messages wire, over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Final, Self, final

from chat_core.errors import TransportError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Request
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint

from chat_claude.codec import Encoded, StreamDecoder, decode, decode_count, encode, encode_count, is_last
from chat_claude.errors import refusal, translate
from chat_claude.options import Dialect

MESSAGES: Final = "/v1/messages"
COUNT: Final = "/v1/messages/count_tokens"
NO_OPTIONS: Final = ChatOptions()


@final
class ClaudeProvider:
    """Claude: it completes, streams and counts tokens. Made by `ClaudeBuilder`.

    Immutable and safe to share between tasks. As an async context manager it closes its transport on leaving, if it
    made it; one that was passed in stays open.
    """

    __slots__ = ("_dialect", "_endpoint", "_metadata", "_owns", "_transport")

    def __init__(
        self,
        dialect: Dialect,
        endpoint: Endpoint,
        transport: Transport,
        *,
        owns_transport: bool = False,
        description: str = "",
    ) -> None:
        self._dialect = dialect
        self._endpoint = endpoint
        self._transport = transport
        self._owns = owns_transport
        self._metadata = ProviderMeta(dialect.provider, dialect.model, description)

    def __repr__(self) -> str:
        return f"ClaudeProvider(model={self._dialect.model!r}, at {self._endpoint!r})"

    @property
    def metadata(self) -> ProviderMeta:
        """What this provider is."""
        return self._metadata

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Ask once. The turn's tools are `Pending`.

        Raises:
            ChatError: with whatever usage was reported.
        """
        encoded = encode(messages, tools, options, structured_output, dialect=self._dialect, stream=False)
        body = await self._send(MESSAGES, encoded, options)
        return decode(body, self._dialect.provider, output_tool=encoded.output_tool)

    @asynccontextmanager
    async def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AsyncGenerator[DecodedStream, None]:
        """Ask once, and listen. Leaving the block closes the connection at once.

        Raises:
            ChatError: on entering, when the request is refused.
        """
        encoded = encode(messages, tools, options, structured_output, dialect=self._dialect, stream=True)
        request = self._request(MESSAGES, encoded, options, stream=True)
        try:
            async with self._transport.stream(request) as events:
                provider = self._dialect.provider
                decoder = StreamDecoder(provider, output_tool=encoded.output_tool)
                yield DecodedStream(events, decoder, partial(translate, provider=provider))
        except TransportError as error:
            raise translate(error, self._dialect.provider) from error

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = NO_TOOLS,
        options: ChatOptions = NO_OPTIONS,
        structured_output: OutputSchema | None = None,
    ) -> int:
        """How many tokens of input the same call of `complete()` would cost. Nothing is answered.

        Raises:
            ChatError: the request is refused.
        """
        encoded = encode_count(messages, tools, options, structured_output, dialect=self._dialect)
        return decode_count(await self._send(COUNT, encoded, options), self._dialect.provider)

    def _request(self, path: str, encoded: Encoded, options: ChatOptions, *, stream: bool) -> Request:
        headers = (("anthropic-beta", ",".join(encoded.betas)),) if encoded.betas else ()
        return self._endpoint.request(
            path, encoded.body, options.timeout, stream=stream, is_last=is_last, headers=headers
        )

    async def _send(self, path: str, encoded: Encoded, options: ChatOptions) -> bytes:
        request = self._request(path, encoded, options, stream=False)
        try:
            response = await self._transport.send(request)
        except TransportError as error:
            raise translate(error, self._dialect.provider) from error
        if not 200 <= response.status < 300:  # noqa: PLR2004 - RFC 9110, section 15.3
            raise refusal(response.status, response.headers, response.body, self._dialect.provider)
        return response.body

    async def aclose(self) -> None:
        """Close the transport, if this provider made it. Closing twice is allowed."""
        if self._owns:
            await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
