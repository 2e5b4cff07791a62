"""A model behind the Chat Completions wire, over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Self, final

from chat_core.errors import TransportError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsResponse, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint

from chat_completions.codec import StreamDecoder, decode, decode_embeddings, encode, encode_embeddings, is_last
from chat_completions.errors import Meanings, refusal, translate, unmet
from chat_completions.options import Dialect


class _Provider:
    """What every server of this wire does: it completes and streams."""

    __slots__ = ("_dialect", "_endpoint", "_hint", "_meanings", "_metadata", "_owns", "_transport")

    def __init__(
        self,
        dialect: Dialect,
        endpoint: Endpoint,
        transport: Transport,
        *,
        owns_transport: bool = False,
        description: str = "",
        max_embedding_batch: int = 2048,
        hint: str = "",
        meanings: Meanings = (),
    ) -> None:
        self._dialect = dialect
        self._endpoint = endpoint
        self._transport = transport
        self._owns = owns_transport
        self._hint = hint
        self._meanings = meanings
        self._metadata = ProviderMeta(dialect.provider, dialect.model, description, max_embedding_batch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._dialect.model!r}, at {self._endpoint!r})"

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
        body = encode(messages, tools, options, structured_output, dialect=self._dialect, stream=False)
        return decode(await self._send("/chat/completions", body, options), self._dialect.provider)

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
        body = encode(messages, tools, options, structured_output, dialect=self._dialect, stream=True)
        request = self._endpoint.request("/chat/completions", body, options.timeout, stream=True, is_last=is_last)
        try:
            async with self._transport.stream(request) as events:
                provider = self._dialect.provider
                yield DecodedStream(events, StreamDecoder(provider), partial(translate, provider=provider))
        except TransportError as error:
            raise unmet(error, self._dialect.provider, self._hint, self._meanings) from error

    async def _send(self, path: str, body: bytes, options: ChatOptions) -> bytes:
        request = self._endpoint.request(path, body, options.timeout, stream=False)
        try:
            response = await self._transport.send(request)
        except TransportError as error:
            raise unmet(error, self._dialect.provider, self._hint, self._meanings) from error
        if not 200 <= response.status < 300:  # noqa: PLR2004 - RFC 9110, section 15.3
            raise refusal(response.status, response.headers, response.body, self._dialect.provider, self._meanings)
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


@final
class CompletionsProvider(_Provider):
    """A model behind the Chat Completions wire: it completes, streams and embeds.

    Immutable and safe to share between tasks. As an async context manager it closes its transport on leaving, if it
    made it; one that was passed in stays open. Made by `CompletionsBuilder`, and by the builders of vendors that embed.
    """

    __slots__ = ()

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """One request: n texts in, n vectors out, in order.

        Raises:
            ChatError: with whatever usage was reported.
        """
        body = encode_embeddings(texts, options, dialect=self._dialect)
        return decode_embeddings(await self._send("/embeddings", body, options), len(texts), self._dialect.provider)


@final
class CompletionsChatProvider(_Provider):
    """A `CompletionsProvider` of a vendor that has no embeddings: it completes and streams."""

    __slots__ = ()
