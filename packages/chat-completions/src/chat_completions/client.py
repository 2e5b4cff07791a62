"""Chat and embeddings providers that send requests to a Chat Completions API over a `Transport`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Self, TypeVar, final

from chat_core.arguments import require_type
from chat_core.errors import ChatError, ProviderError, TransportError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsResponse, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

from chat_completions.codec import (
    StreamDecoder,
    decode,
    decode_embeddings,
    encode,
    encode_embeddings,
    is_last,
    requested_encoding,
)
from chat_completions.encode import asks_in_prompt
from chat_completions.errors import ErrorPatterns, error_from_response, error_without_response
from chat_completions.options import CompletionsOptions, Dialect

ResultT = TypeVar("ResultT")


class _Provider(TransportProvider):
    """Base class for this package's providers, with completion and streaming."""

    __slots__ = ("_dialect", "_error_patterns", "_hint")

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
        error_patterns: ErrorPatterns = (),
    ) -> None:
        metadata = ProviderMeta(
            dialect.provider,
            dialect.model,
            description,
            max_embedding_batch,
            dimensions=dialect.dimensions,
            extras=(CompletionsOptions,),
        )
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect
        self._hint = hint
        self._error_patterns = error_patterns

    def with_provider_name(self, name: str) -> Self:
        """Implement `TransportProvider.with_provider_name`. The new name also replaces the name in the dialect."""
        clone = super().with_provider_name(name)
        object.__setattr__(clone, "_dialect", replace(self._dialect, provider=name))
        return clone

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: send one request and return the model's turn with pending tools.

        Raises:
            ChatError: the request failed. The error contains the usage that the server reported, if any.
        """
        body = self.encode_request(messages, tools, options, structured_output)
        if not asks_in_prompt(tools, options, structured_output, self._dialect):
            return await self._send_and_decode("/chat/completions", body, options, self.decode_response)
        reasons = self._dialect.finish_reasons
        read = partial(decode, provider=self._dialect.provider, finish_reasons=reasons, fenced=True)
        return await self._send_and_decode("/chat/completions", body, options, read)

    def encode_request(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> bytes:
        """Return the body that `complete()` sends, for APIs that take requests in another form.

        Args:
            messages: the conversation to send.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

        Raises:
            UsageError: the request cannot be encoded.
        """
        return encode(messages, tools, options, structured_output, dialect=self._dialect, stream=False)

    def decode_response(self, body: bytes) -> Turn:
        """Return the turn in the body of a response, for responses that arrive in another form.

        Args:
            body: the response body as received.

        Raises:
            ChatError: the body reports an error, or is not a response.
        """
        require_type("body", body, bytes, "bytes")
        return decode(body, self._dialect.provider, finish_reasons=self._dialect.finish_reasons)

    @asynccontextmanager
    async def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AsyncGenerator[DecodedStream, None]:
        """Implement `StreamProvider.stream`: send one request and stream its response.

        Exiting the context manager closes the connection, even before the end of the stream.

        Raises:
            ChatError: on entry, if the request is rejected.
        """
        body = encode(messages, tools, options, structured_output, dialect=self._dialect, stream=True)
        request = self.endpoint.request("/chat/completions", body, options.timeout, stream=True, is_last=is_last)
        decoder = StreamDecoder(
            self._dialect.provider,
            finish_reasons=self._dialect.finish_reasons,
            fenced=asks_in_prompt(tools, options, structured_output, self._dialect),
        )
        async with self.open_stream(request, decoder) as stream:
            yield stream

    async def _send_and_decode(
        self, path: str, body: bytes, options: ChatOptions, read: Callable[[bytes], ResultT]
    ) -> ResultT:
        return await self.fetch_decoded(self.endpoint.request(path, body, options.timeout, stream=False), read)

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Return the error for a response whose status is not 2xx. The vendor's error patterns also apply."""
        return error_from_response(status, headers, body, self._dialect.provider, self._error_patterns)

    def transport_error(self, error: TransportError) -> ChatError:
        """Return the `ChatError` for a transport failure, with the vendor's hint if no connection could be made."""
        require_type("error", error, TransportError, "a TransportError")
        return error_without_response(error, self._dialect.provider, self._hint, self._error_patterns)


@final
class CompletionsProvider(_Provider):
    """Provider for a model on a Chat Completions API, with completion, streaming and embeddings.

    Instances are created by `CompletionsBuilder` or by the builder for a vendor that has embeddings. They are immutable
    and safe to share between tasks. Exiting the `async with` block closes the default transport. A transport that was
    passed to the builder stays open.
    """

    __slots__ = ()

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed`: send one request and return one vector per text, in order.

        Raises:
            ChatError: the request failed. The error contains the usage that the server reported, if any.
        """
        body = encode_embeddings(texts, options, dialect=self._dialect)
        read = partial(
            decode_embeddings,
            count=len(texts),
            provider=self._dialect.provider,
            encoding_format=requested_encoding(options, self._dialect),
            dimensions=self._dialect.dimensions,
        )
        return await self._send_and_decode("/embeddings", body, options, read)


@final
class CompletionsChatProvider(_Provider):
    """Provider for a model of a vendor without embeddings, with completion and streaming.

    In all other respects this class behaves like `CompletionsProvider`.
    """

    __slots__ = ()
