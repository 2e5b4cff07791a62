"""Chat and embeddings providers that send requests to a Gemini server over a `Transport`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal, TypeVar, final
from urllib.parse import quote

from chat_core.errors import ProviderError, UsageError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, Abilities, EmbeddingsResponse, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

from chat_gemini.codec import (
    NO_OPTIONS,
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

ResultT = TypeVar("ResultT")

INVALID_IN_MODEL: Final = re.compile(r"[\0-\x20\x7f\ud800-\udfff]")
"""Characters that are invalid in model names: control characters, spaces and lone surrogates."""

UNSAFE_STEPS: Final = frozenset({"", ".", ".."})
"""Path segments that servers and proxies would resolve to another path."""

MAX_BATCH = {"batchEmbedContents": 100, "predict": 250, "embedContent": 1}
"""Maximum number of texts in an embeddings request, by API method."""


class _Client(TransportProvider):
    """Base class of the providers, which send requests for one model to a Gemini server."""

    __slots__ = ("_path",)

    def __init__(
        self, metadata: ProviderMeta, endpoint: Endpoint, transport: Transport, *, owns_transport: bool
    ) -> None:
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._path = f"/{model_path(metadata.model)}"

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Implement `TransportProvider.response_error`: return the error that the status and the body describe."""
        return error_from_response(status, headers, body, self.metadata.name)

    async def _send_and_decode(
        self, method: str, body: bytes, options: ChatOptions, read: Callable[[bytes], ResultT]
    ) -> ResultT:
        request = self.endpoint.request(f"{self._path}:{method}", body, options.timeout, stream=False)
        return await self.fetch_decoded(request, read)


def model_path(model: str) -> str:
    """Return the quoted URL path of a model, relative to the base URL.

    The prefix `models/` is added unless the name contains another path, such as `tunedModels/…`.

    Raises:
        UsageError: the name has invalid characters, or its path would point to another resource on the server.
    """
    steps = model.split("/")
    if INVALID_IN_MODEL.search(model) or not UNSAFE_STEPS.isdisjoint(steps):
        msg = f"the model name must be like 'gemini-3-flash-preview' or 'tunedModels/my-model', not {model!r}"
        raise UsageError(msg)
    return quote(model if len(steps) > 1 else f"models/{model}", safe="/@:")


@final
class GeminiProvider(_Client):
    """Chat provider for Gemini with `complete()`, `stream()` and `count_tokens()`. Created by `GeminiBuilder`.

    Instances are immutable and safe to share between tasks. Leaving `async with` closes the default transport. A
    transport that the caller passed to the builder stays open.
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
        metadata = ProviderMeta(dialect.provider, dialect.model, description, abilities=Abilities(streaming=True))
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
        """Implement `CompletionProvider.complete`: send one request and return the model's turn with pending tools.

        Raises:
            ChatError: the request failed. The error contains the usage that the API reported, if any.
        """
        body = encode(messages, tools, options, structured_output, dialect=self._dialect)
        return await self._send_and_decode(
            "generateContent", body, options, partial(decode, provider=self._dialect.provider)
        )

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
        body = encode(messages, tools, options, structured_output, dialect=self._dialect)
        method = "streamGenerateContent?alt=sse" if self._framing == "sse" else "streamGenerateContent"
        path = f"{self._path}:{method}"
        # No event marks the end: the response is complete when its body ends.
        request = self.endpoint.request(path, body, options.timeout, stream=True, framing=self._framing)
        async with self.open_stream(request, StreamDecoder(self._dialect.provider)) as stream:
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
        dialect, flat = self._dialect, self._flat_counts
        body = encode_count(messages, tools, options, structured_output, dialect=dialect, flat=flat)
        read = partial(decode_count, provider=dialect.provider)
        return await self._send_and_decode("countTokens", body, options, read)


@final
class GeminiEmbeddings(_Client):
    """Embeddings provider for Gemini. Created by `GeminiBuilder`.

    Instances are safe to share between tasks. Leaving `async with` closes the default transport, but not a transport
    that the caller passed to the builder.
    """

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
        limit = max_batch or MAX_BATCH[dialect.method]
        metadata = ProviderMeta(dialect.provider, dialect.model, description, limit, dimensions=dialect.dimensions)
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed`: send one request and return one vector per text, in order.

        Raises:
            ChatError: the request failed. The error contains the usage that the API reported, if any.
        """
        body = encode_embeddings(texts, options, dialect=self._dialect)
        read = partial(decode_embeddings, count=len(texts), provider=self._dialect.provider)
        return await self._send_and_decode(self._dialect.method, body, options, read)
