"""Chat and embeddings providers that send requests to a Gemini server over a `Transport`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, Literal, Self, TypeVar, final
from urllib.parse import quote, urlsplit

from chat_core.arguments import require_items, require_type
from chat_core.batches import Batch, BatchItem, BatchRequest, BatchStatus, add_cursor, require_batch
from chat_core.errors import InvalidResponseError, ProviderError, UnsupportedOptionError, UsageError
from chat_core.json import dump_bytes
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, Abilities, EmbeddingsResponse, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Request
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

from chat_gemini.batches import (
    FILE_TYPE,
    OUTPUT_TOOL,
    PAGE_SIZE,
    InlineItems,
    batch_data,
    decode_item,
    decode_list,
    decode_name,
    decode_output,
    decode_status,
    encode_file_batch,
    encode_inline,
    encode_lines,
)
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
from chat_gemini.options import Dialect, EmbeddingDialect, EmbeddingOptions, GeminiOptions
from chat_gemini.output_tool import output_tool_name

ResultT = TypeVar("ResultT")

INVALID_IN_MODEL: Final = re.compile(r"[\0-\x20\x7f\ud800-\udfff]")
"""Pattern for characters that are invalid in model names: control characters, spaces and lone surrogates."""

UNSAFE_STEPS: Final = frozenset({"", ".", ".."})
"""Path segments that servers and proxies would resolve to another path."""

MAX_BATCH = {"batchEmbedContents": 100, "predict": 250, "embedContent": 1}
"""Maximum number of texts in an embeddings request, by API method."""


class _Client(TransportProvider):
    """Base class for the providers, which send requests for one model to a Gemini server."""

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

    Instances are immutable and safe to share between tasks. Exiting the `async with` block closes the default
    transport. A transport that the caller passed to the builder stays open.
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
        metadata = ProviderMeta(
            dialect.provider,
            dialect.model,
            description,
            abilities=Abilities(streaming=True),
            extras=(GeminiOptions,),
        )
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect
        self._framing: Literal["sse", "json-array"] = framing
        self._flat_counts = flat_counts

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
            ChatError: the request failed. The error contains the usage that the API reported, if any.
        """
        body = encode(messages, tools, options, structured_output, dialect=self._dialect)
        output_tool = output_tool_name(tools, structured_output, options, self._dialect)
        read = partial(decode, provider=self._dialect.provider, output_tool=output_tool)
        return await self._send_and_decode("generateContent", body, options, read)

    @asynccontextmanager
    async def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AsyncGenerator[DecodedStream, None]:
        """Implement `StreamProvider.stream`: send one request and yield its stream.

        Exiting the `async with` block early or canceling the task closes the connection at once.

        Raises:
            ChatError: the request failed; raised on entering the block.
        """
        body = encode(messages, tools, options, structured_output, dialect=self._dialect)
        method = "streamGenerateContent?alt=sse" if self._framing == "sse" else "streamGenerateContent"
        path = f"{self._path}:{method}"
        # No event marks the end: the response is complete when its body ends.
        request = self.endpoint.request(path, body, options.timeout, stream=True, framing=self._framing)
        decoder = StreamDecoder(
            self._dialect.provider,
            holds_calls=self._declares_servers(options),
            output_tool=output_tool_name(tools, structured_output, options, self._dialect),
        )
        async with self.open_stream(request, decoder) as stream:
            yield stream

    def _declares_servers(self, options: ChatOptions) -> bool:
        """Return whether a request declares MCP servers, whose tools the server runs."""
        extras = options.extra(GeminiOptions, self._dialect.provider)
        tools = self._dialect.native_tools + (() if extras is None else tuple(extras.tools))
        return any("mcpServers" in tool for tool in tools)

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = NO_TOOLS,
        options: ChatOptions = NO_OPTIONS,
        structured_output: OutputSchema | None = None,
    ) -> int:
        """Return the number of input tokens that `complete()` would use with the same arguments.

        Args:
            messages: the conversation to send.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

        Raises:
            ChatError: the request failed.
        """
        dialect, flat = self._dialect, self._flat_counts
        body = encode_count(messages, tools, options, structured_output, dialect=dialect, flat=flat)
        read = partial(decode_count, provider=dialect.provider)
        return await self._send_and_decode("countTokens", body, options, read)

    # --- Batches --------------------------------------------------------------------------------------------

    def encode_batch_request(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> BatchRequest:
        """Implement `BatchProvider.encode_batch_request`.

        Raises:
            UsageError: the request cannot be encoded, or the provider uses Vertex AI, whose batches are different.
        """
        if self._flat_counts:
            msg = f"{self._dialect.provider}: batches are only supported on the Gemini API"
            raise UnsupportedOptionError(msg)
        body = encode(messages, tools, options, structured_output, dialect=self._dialect)
        output_tool = output_tool_name(tools, structured_output, options, self._dialect)
        return BatchRequest(body, {} if output_tool is None else {OUTPUT_TOOL: output_tool})

    async def submit_batch(self, requests: Sequence[BatchRequest], *, name: str) -> Batch:
        """Implement `BatchProvider.submit_batch`. The requests of a large batch are uploaded as a file first.

        Raises:
            ChatError: the batch was rejected, or it is unknown whether the server has received it.
        """
        require_batch(requests, name)
        read = partial(decode_name, provider=self._dialect.provider)
        body = encode_inline(requests, name)
        if body is None:
            body = encode_file_batch(await self._upload(encode_lines(requests, name), name), name)
        id_ = await self._send_and_decode("batchGenerateContent", body, NO_OPTIONS, read)
        return Batch(id_, name, batch_data(requests))

    async def _upload(self, lines: bytes, name: str) -> str:
        """Upload a file and return its name."""
        provider = self._dialect.provider
        start = self.endpoint.request(
            "/files",
            dump_bytes({"file": {"displayName": name, "mimeType": FILE_TYPE}}),
            None,
            stream=False,
            headers=(
                ("x-goog-upload-protocol", "resumable"),
                ("x-goog-upload-command", "start"),
                ("x-goog-upload-header-content-length", str(len(lines))),
                ("x-goog-upload-header-content-type", FILE_TYPE),
            ),
        )
        response = await self.fetch_response(replace(start, path=f"/upload{start.path}"))
        try:
            url = urlsplit(response.headers.get("x-goog-upload-url", ""))
        except ValueError:
            msg = f"{provider}: the upload URL is not a valid URL"
            raise InvalidResponseError(msg, path="x-goog-upload-url") from None
        if url.netloc != start.host or url.scheme != start.scheme:
            # The host is not quoted: a server may echo a credential in it.
            msg = f"{provider}: the upload URL must be on {start.scheme}://{start.host}, but is on another host"
            raise InvalidResponseError(msg, path="x-goog-upload-url")
        headers = (("x-goog-upload-offset", "0"), ("x-goog-upload-command", "upload, finalize"))
        upload = self.endpoint.request("/files", lines, None, stream=False, headers=headers)
        upload = replace(upload, path=f"{url.path}?{url.query}")
        return await self.fetch_decoded(upload, partial(decode_name, provider=provider))

    async def find_batch(
        self, requests: Sequence[BatchRequest], *, name: str, size: int, since: datetime
    ) -> Batch | None:
        """Implement `BatchProvider.find_batch`: search the list of batches for the display name.

        Raises:
            ChatError: the request failed.
        """
        del size, since
        require_items("requests", requests, BatchRequest, "a sequence of requests from encode_batch_request()")
        token, query = "", ""
        tokens: set[str] = set()
        while True:
            request = self._get(f"/batches?pageSize={PAGE_SIZE}{query}")
            batches, token = await self.fetch_decoded(request, partial(decode_list, provider=self._dialect.provider))
            for id_, found in batches:
                if found == name:
                    return Batch(id_, name, batch_data(requests))
            if not token:
                return None
            add_cursor(tokens, token, self._dialect.provider)
            query = f"&pageToken={quote(token, safe='')}"

    async def batch_status(self, batch: Batch) -> BatchStatus:
        """Implement `BatchProvider.batch_status`.

        Raises:
            ChatError: the request failed.
        """
        require_type("batch", batch, Batch, "a Batch, such as BatchHandle.batch")
        read = partial(decode_status, provider=self._dialect.provider)
        return await self.fetch_decoded(self._get(f"/{quote(batch.id, safe='/')}"), read)

    @asynccontextmanager
    async def batch_results(self, batch: Batch) -> AsyncGenerator[AsyncIterator[BatchItem], None]:
        """Implement `BatchProvider.batch_results`: read the results from a file or from the batch itself.

        Raises:
            ChatError: the results cannot be read.
        """
        require_type("batch", batch, Batch, "a Batch, such as BatchHandle.batch")
        provider = self._dialect.provider
        read = partial(decode_output, batch=batch, provider=provider)
        output = await self.fetch_decoded(self._get(f"/{quote(batch.id, safe='/')}"), read)
        if isinstance(output, list):
            yield InlineItems(output)
            return
        request = self._get(f"/{quote(output, safe='/')}:download?alt=media", stream=True)
        async with self.open_lines(request, partial(decode_item, batch=batch, provider=provider)) as items:
            yield items

    async def cancel_batch(self, batch: Batch) -> None:
        """Implement `BatchProvider.cancel_batch`.

        Raises:
            ChatError: the request failed.
        """
        require_type("batch", batch, Batch, "a Batch, such as BatchHandle.batch")
        await self.fetch(self.endpoint.request(f"/{quote(batch.id, safe='/')}:cancel", b"{}", None, stream=False))

    def _get(self, path: str, *, stream: bool = False) -> Request:
        return self.endpoint.request(path, b"", None, stream=stream, framing="json-lines", method="GET")


@final
class GeminiEmbeddings(_Client):
    """Embeddings provider for Gemini. Created by `GeminiBuilder`.

    Instances are safe to share between tasks. Exiting the `async with` block closes the default transport, but not a
    transport that the caller passed to the builder.
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
        max_characters: int | None = None,
        concurrency: int = 1,
    ) -> None:
        metadata = ProviderMeta(
            dialect.provider,
            dialect.model,
            description,
            max_batch or MAX_BATCH[dialect.method],
            dimensions=dialect.dimensions,
            max_embedding_characters=max_characters,
            embedding_concurrency=concurrency,
            extras=(EmbeddingOptions,),
        )
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect

    def with_provider_name(self, name: str) -> Self:
        """Implement `TransportProvider.with_provider_name`. The new name also replaces the name in the dialect."""
        clone = super().with_provider_name(name)
        object.__setattr__(clone, "_dialect", replace(self._dialect, provider=name))
        return clone

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed`: send one request and return one vector per text, in order.

        Raises:
            ChatError: the request failed. The error contains the usage that the API reported, if any.
        """
        body = encode_embeddings(texts, options, dialect=self._dialect)
        read = partial(decode_embeddings, count=len(texts), provider=self._dialect.provider)
        return await self._send_and_decode(self._dialect.method, body, options, read)
