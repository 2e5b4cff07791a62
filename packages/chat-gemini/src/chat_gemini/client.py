"""Gemini's models, over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Literal, Self, final

from chat_core.errors import TransportError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, EmbeddingsResponse, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Request
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint

from chat_gemini.codec import (
    StreamDecoder,
    decode,
    decode_count,
    decode_embeddings,
    encode,
    encode_count,
    encode_embeddings,
)
from chat_gemini.errors import refusal, translate
from chat_gemini.options import Dialect, EmbeddingDialect

MAX_BATCH = {"batchEmbedContents": 100, "predict": 250, "embedContent": 1}
"""How many texts one request for embeddings may hold, by method."""


class _Client:
    """One model of a server, and the way to it."""

    __slots__ = ("_endpoint", "_metadata", "_owns", "_path", "_transport")

    def __init__(
        self, metadata: ProviderMeta, endpoint: Endpoint, transport: Transport, *, owns_transport: bool
    ) -> None:
        self._metadata = metadata
        self._endpoint = endpoint
        self._transport = transport
        self._owns = owns_transport
        self._path = f"/{model_path(metadata.model)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._metadata.model!r}, at {self._endpoint!r})"

    @property
    def metadata(self) -> ProviderMeta:
        """What this provider is."""
        return self._metadata

    def _request(self, method: str, body: bytes, options: ChatOptions) -> Request:
        return self._endpoint.request(f"{self._path}:{method}", body, options.timeout, stream=False)

    async def _send(self, request: Request) -> bytes:
        provider = self._metadata.name
        try:
            response = await self._transport.send(request)
        except TransportError as error:
            raise translate(error, provider) from error
        if not 200 <= response.status < 300:  # noqa: PLR2004 - RFC 9110, section 15.3
            raise refusal(response.status, response.headers, response.body, provider)
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


def model_path(model: str) -> str:
    """Where a model is below the base URL: a name that says where (`tunedModels/…`) is taken at its word."""
    return model if "/" in model else f"models/{model}"


@final
class GeminiProvider(_Client):
    """A model of Gemini's: it completes, streams and counts. Made by `GeminiBuilder`.

    Immutable and safe to share between tasks. As an async context manager it closes its transport on leaving, if it
    made it; one that was passed in stays open.
    """

    __slots__ = ("_dialect", "_flat_counts", "_framing")

    def __init__(
        self,
        dialect: Dialect,
        endpoint: Endpoint,
        transport: Transport,
        *,
        owns_transport: bool = False,
        description: str = "",
        framing: Literal["sse", "json-array"] = "sse",
        flat_counts: bool = False,
    ) -> None:
        metadata = ProviderMeta(dialect.provider, dialect.model, description)
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect
        self._framing: Literal["sse", "json-array"] = framing
        self._flat_counts = flat_counts

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
        body = encode(messages, tools, options, structured_output, dialect=self._dialect)
        answer = await self._send(self._request("generateContent", body, options))
        return decode(answer, self._dialect.provider)

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
        body = encode(messages, tools, options, structured_output, dialect=self._dialect)
        method = "streamGenerateContent?alt=sse" if self._framing == "sse" else "streamGenerateContent"
        path = f"{self._path}:{method}"
        # No event is the last one: the answer is over when its body is.
        request = self._endpoint.request(path, body, options.timeout, stream=True, framing=self._framing)
        try:
            async with self._transport.stream(request) as events:
                provider = self._dialect.provider
                yield DecodedStream(events, StreamDecoder(provider), partial(translate, provider=provider))
        except TransportError as error:
            raise translate(error, self._dialect.provider) from error

    async def count_tokens(
        self, messages: Messages, tools: ToolDeclarations = NO_TOOLS, options: ChatOptions | None = None
    ) -> int:
        """How many tokens a conversation is, with the tools that go with it.

        Raises:
            ChatError: the request is refused.
        """
        body = encode_count(messages, tools, dialect=self._dialect, flat=self._flat_counts)
        answer = await self._send(self._request("countTokens", body, options or ChatOptions()))
        return decode_count(answer, self._dialect.provider)


@final
class GeminiEmbeddings(_Client):
    """A model of embeddings. Made by `GeminiBuilder`; closed as a `GeminiProvider` is."""

    __slots__ = ("_dialect",)

    def __init__(
        self,
        dialect: EmbeddingDialect,
        endpoint: Endpoint,
        transport: Transport,
        *,
        owns_transport: bool = False,
        description: str = "",
        max_batch: int | None = None,
    ) -> None:
        most = max_batch or MAX_BATCH[dialect.method]
        metadata = ProviderMeta(dialect.provider, dialect.model, description, most)
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """One request: n texts in, n vectors out, in order.

        Raises:
            ChatError: with whatever usage was reported.
        """
        body = encode_embeddings(texts, options, dialect=self._dialect)
        answer = await self._send(self._request(self._dialect.method, body, options))
        return decode_embeddings(answer, len(texts), self._dialect.provider)
