"""Chat provider that sends requests to the Messages API over a `Transport`."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, Self, final
from urllib.parse import quote

from chat_core.arguments import require_items, require_type
from chat_core.batches import Batch, BatchItem, BatchRequest, BatchStatus, add_cursor, require_batch
from chat_core.errors import ProviderError, UnsupportedOptionError
from chat_core.json import dump_bytes
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, Abilities, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Framing, Request
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider
from chat_core.wire.shapes import parse_id

from chat_claude.batches import (
    PAGE_SIZE,
    ListedBatch,
    batch_data,
    batch_request,
    decode_item,
    decode_list,
    decode_status,
    encode_batch,
    in_doubt_error,
)
from chat_claude.codec import Encoded, StreamDecoder, decode, decode_count, encode, encode_count, is_last
from chat_claude.errors import error_from_response
from chat_claude.options import BEDROCK_VERSION, ClaudeOptions, Dialect

NO_OPTIONS: Final = ChatOptions()


@final
@dataclass(frozen=True, slots=True)
class Paths:
    """The URL paths of a platform's API methods, relative to the base URL.

    Attributes:
        complete: path of requests for complete responses.
        stream: path of requests for streams.
        count: path of requests that count tokens.
        framing: format of the events of a stream.
        batches: path of the batches, or `None` if the platform has another API for batches.
    """

    complete: str = "/v1/messages"
    stream: str = "/v1/messages"
    count: str = "/v1/messages/count_tokens"
    framing: Framing = "sse"
    batches: str | None = None

    @classmethod
    def on_vertex(cls, model: str) -> Self:
        """Return the paths for a model on Vertex AI, below `publishers/anthropic`."""
        path = f"/models/{quote(model, safe='@')}"
        return cls(f"{path}:rawPredict", f"{path}:streamRawPredict", "/models/count-tokens:rawPredict")

    @classmethod
    def on_bedrock(cls, model: str) -> Self:
        """Return the paths for a model on Bedrock."""
        path = f"/model/{quote(model, safe='')}"
        return cls(f"{path}/invoke", f"{path}/invoke-with-response-stream", f"{path}/count-tokens", "aws-event-stream")


ANTHROPIC_PATHS: Final = Paths(batches="/v1/messages/batches")
"""The paths of the Anthropic API and of gateways with the same API."""


@final
class ClaudeProvider(TransportProvider):
    """Chat provider for Claude with `complete()`, `stream()` and `count_tokens()`. Created by `ClaudeBuilder`.

    Instances are immutable and safe to share between tasks. Exiting the `async with` block closes the default
    transport. A transport that the caller passed to the builder stays open.
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
        metadata = ProviderMeta(
            dialect.provider, dialect.model, description, abilities=abilities, extras=(ClaudeOptions,)
        )
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect
        self._paths = paths

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

        Exiting the `async with` block early or canceling the task closes the connection at once.

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
            messages: the conversation to send.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

        Raises:
            ChatError: the request failed.
        """
        if self._dialect.anthropic_version == BEDROCK_VERSION:
            return await self._count_on_bedrock(messages, tools, options, structured_output)
        dialect = replace(self._dialect, model_in_body=True)  # the path of the count has no model
        encoded = encode_count(messages, tools, options, structured_output, dialect=dialect)
        read = partial(decode_count, provider=self._dialect.provider)
        return await self.fetch_decoded(self._create_request(self._paths.count, encoded, options), read)

    async def _count_on_bedrock(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> int:
        """Count the tokens of a request. The body of the count request contains the whole request in base64."""
        invoked = encode(messages, tools, options, structured_output, dialect=self._dialect, stream=False)
        body = dump_bytes({"input": {"invokeModel": {"body": base64.b64encode(invoked.body).decode()}}})
        read = partial(decode_count, provider=self._dialect.provider, field="inputTokens")
        return await self.fetch_decoded(self._create_request(self._paths.count, Encoded(body), options), read)

    def encode_batch_request(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> BatchRequest:
        """Implement `BatchProvider.encode_batch_request`.

        Raises:
            UsageError: the request cannot be encoded, or the platform has another API for batches.
        """
        self._batches_path()
        return batch_request(encode(messages, tools, options, structured_output, dialect=self._dialect, stream=False))

    async def submit_batch(self, requests: Sequence[BatchRequest], *, name: str) -> Batch:
        """Implement `BatchProvider.submit_batch` with the Message Batches API.

        Raises:
            ChatError: the batch was rejected, or it is unknown whether the server has received it.
        """
        require_batch(requests, name)
        request = self._create_request(self._batches_path(), encode_batch(requests, name), NO_OPTIONS)
        id_ = await self.fetch_decoded(request, partial(parse_id, provider=self._dialect.provider))
        return Batch(id_, name, batch_data(requests))

    async def find_batch(
        self, requests: Sequence[BatchRequest], *, name: str, size: int, since: datetime
    ) -> Batch | None:
        """Implement `BatchProvider.find_batch`.

        The API stores no name of a batch. An ended batch is recognized by the ids in its results.

        Raises:
            BatchInDoubtError: a batch with the same number of requests is still processed.
            ChatError: the request failed.
        """
        require_items("requests", requests, BatchRequest, "a sequence of requests from encode_batch_request()")
        doubtful: list[Batch] = []
        for listed in await self._list_batches(since):
            batch = Batch(listed.id, name, batch_data(requests))
            if listed.requests == size and not listed.ended:
                doubtful.append(batch)
            elif listed.requests == size and await self._has_results_of(batch):
                return batch
        if doubtful:
            raise in_doubt_error(doubtful, self._dialect.provider)
        return None

    async def _list_batches(self, since: datetime) -> list[ListedBatch]:
        """Return the batches that were created after a time, most recent first."""
        found: list[ListedBatch] = []
        cursor: str | None = ""
        cursors: set[str] = set()
        while cursor is not None:
            after = f"&after_id={quote(cursor, safe='')}" if cursor else ""
            request = self._get(f"?limit={PAGE_SIZE}{after}")
            batches, cursor = await self.fetch_decoded(request, partial(decode_list, provider=self._dialect.provider))
            recent = [batch for batch in batches if batch.created_at >= since]
            found += recent
            if len(recent) < len(batches):
                break
            add_cursor(cursors, cursor, self._dialect.provider)
        return found

    async def _has_results_of(self, batch: Batch) -> bool:
        async with self.batch_results(batch) as items:
            async for item in items:
                return item.id.startswith(f"{batch.name}-")
        return False

    async def batch_status(self, batch: Batch) -> BatchStatus:
        """Implement `BatchProvider.batch_status`.

        Raises:
            ChatError: the request failed.
        """
        require_type("batch", batch, Batch, "a Batch, such as BatchHandle.batch")
        read = partial(decode_status, provider=self._dialect.provider)
        return await self.fetch_decoded(self._get(f"/{quote(batch.id, safe='')}"), read)

    def batch_results(self, batch: Batch) -> AbstractAsyncContextManager[AsyncIterator[BatchItem]]:
        """Implement `BatchProvider.batch_results`: stream the lines of the results.

        Raises:
            ChatError: the results cannot be read.
        """
        require_type("batch", batch, Batch, "a Batch, such as BatchHandle.batch")
        request = self._get(f"/{quote(batch.id, safe='')}/results", stream=True)
        return self.open_lines(request, partial(decode_item, batch=batch, dialect=self._dialect))

    async def cancel_batch(self, batch: Batch) -> None:
        """Implement `BatchProvider.cancel_batch`.

        Raises:
            ChatError: the request failed.
        """
        require_type("batch", batch, Batch, "a Batch, such as BatchHandle.batch")
        path = f"{self._batches_path()}/{quote(batch.id, safe='')}/cancel"
        await self.fetch(self.endpoint.request(path, b"", None, stream=False))

    def _get(self, path: str, *, stream: bool = False) -> Request:
        return self.endpoint.request(
            f"{self._batches_path()}{path}", b"", None, stream=stream, framing="json-lines", method="GET"
        )

    def _batches_path(self) -> str:
        if self._paths.batches is None:
            msg = f"{self._dialect.provider}: batches are only supported on the Anthropic API"
            raise UnsupportedOptionError(msg)
        return self._paths.batches

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Implement `TransportProvider.response_error`: return the error for a response whose status is not 2xx."""
        return error_from_response(status, headers, body, self._dialect.provider)

    def _create_request(self, path: str, encoded: Encoded, options: ChatOptions, *, stream: bool = False) -> Request:
        headers = (("anthropic-beta", ",".join(encoded.betas)),) if encoded.betas else ()
        return self.endpoint.request(
            path,
            encoded.body,
            options.timeout,
            stream=stream,
            is_last=is_last,
            framing=self._paths.framing,
            headers=headers,
        )
