"""Gemini's models, over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, final

from chat_core.errors import ProviderError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, EmbeddingsResponse, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

from chat_gemini.codec import (
    StreamDecoder,
    decode,
    decode_count,
    decode_embeddings,
    encode,
    encode_count,
    encode_embeddings,
)
from chat_gemini.errors import error_from_response
from chat_gemini.options import Dialect, EmbeddingDialect

MAX_BATCH = {"batchEmbedContents": 100, "predict": 250, "embedContent": 1}
"""How many texts one request for embeddings may hold, by method."""


class _Client(TransportProvider):
    """A provider for one model of a Gemini server."""

    __slots__ = ("_path",)

    def __init__(
        self, metadata: ProviderMeta, endpoint: Endpoint, transport: Transport, *, owns_transport: bool
    ) -> None:
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._path = f"/{model_path(metadata.model)}"

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Return the error for a response whose status is not 2xx, by the details in its `google.rpc.Status` too."""
        return error_from_response(status, headers, body, self.metadata.name)

    async def _post(self, method: str, body: bytes, options: ChatOptions) -> bytes:
        return await self.fetch(self.endpoint.request(f"{self._path}:{method}", body, options.timeout, stream=False))


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
        answer = await self._post("generateContent", body, options)
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
        request = self.endpoint.request(path, body, options.timeout, stream=True, framing=self._framing)
        async with self.open_stream(request, StreamDecoder(self._dialect.provider)) as stream:
            yield stream

    async def count_tokens(
        self, messages: Messages, tools: ToolDeclarations = NO_TOOLS, options: ChatOptions | None = None
    ) -> int:
        """How many tokens a conversation is, with the tools that go with it.

        Raises:
            ChatError: the request is refused.
        """
        body = encode_count(messages, tools, dialect=self._dialect, flat=self._flat_counts)
        answer = await self._post("countTokens", body, options or ChatOptions())
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
        answer = await self._post(self._dialect.method, body, options)
        return decode_embeddings(answer, len(texts), self._dialect.provider)
