"""Chat provider that sends requests to the Responses API over a `Transport`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar, final

from chat_core.errors import ProviderError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

from chat_responses.codec import (
    Composed,
    StreamDecoder,
    compose,
    decode,
    decode_count,
    encode_count,
    is_last,
    sealed,
)
from chat_responses.errors import error_from_object, error_object, is_previous_response_missing
from chat_responses.frames import parse_error_event
from chat_responses.options import ResponsesDialect

ResultT = TypeVar("ResultT")

PATH = "/responses"


@final
class ResponsesProvider(TransportProvider):
    """Chat provider for the Responses API, with streaming and token counts. Created by `ResponsesBuilder`.

    Instances are immutable and safe to share between tasks. The provider stores no conversation. The history alone
    determines whether a request refers to a previous response. Leaving `async with` closes the default transport. A
    transport that the caller passed to the builder stays open.
    """

    __slots__ = ("_dialect",)

    def __init__(
        self,
        dialect: ResponsesDialect,
        endpoint: Endpoint,
        transport: Transport,
        *,
        owns_transport: bool = False,
        description: str = "",
    ) -> None:
        metadata = ProviderMeta(dialect.provider, dialect.model, description)
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: send one request and return the model's turn with pending tools.

        If the server no longer has the previous response, the request is sent again with the whole conversation.

        Raises:
            ChatError: the request failed. The error contains the usage that the API reported, if any.
        """
        dialect = self._dialect
        composed = compose(messages, tools, options, structured_output, dialect=dialect, stream=False)
        read = partial(decode, provider=dialect.provider)
        try:
            turn = await self._send_and_decode(PATH, composed.body, options, read)
        except ProviderError as error:
            if composed.previous is None or not is_previous_response_missing(error):
                raise
            composed = compose(messages, tools, options, structured_output, dialect=dialect, stream=False, whole=True)
            turn = await self._send_and_decode(PATH, composed.body, options, read)
        return sealed(turn, composed.history, composed.dialect)

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
        dialect = self._dialect
        composed = compose(messages, tools, options, structured_output, dialect=dialect, stream=True)
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(self._open(composed, options))
                if composed.previous is not None:
                    # Over a WebSocket, a missing previous response is reported by the first event.
                    await stream.begin()
            except ProviderError as error:
                if composed.previous is None or not is_previous_response_missing(error):
                    raise
                await stack.aclose()
                composed = compose(
                    messages, tools, options, structured_output, dialect=dialect, stream=True, whole=True
                )
                stream = await stack.enter_async_context(self._open(composed, options))
            yield stream

    def _open(self, composed: Composed, options: ChatOptions) -> AbstractAsyncContextManager[DecodedStream]:
        """Return a context manager that sends the request and yields the stream of its response."""
        request = self.endpoint.request(PATH, composed.body, options.timeout, stream=True, is_last=is_last)
        seal = partial(sealed, history=composed.history, dialect=composed.dialect)
        return self.open_stream(request, StreamDecoder(composed.dialect.provider), seal)

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = ToolDeclarations(),  # noqa: B008 - immutable
        options: ChatOptions = ChatOptions(),  # noqa: B008 - immutable
        structured_output: OutputSchema | None = None,
    ) -> int:
        """Return the number of input tokens that `complete()` would use with the same arguments.

        Args:
            messages: the conversation.
            tools: declared tools.
            options: options of the request.
            structured_output: schema of the requested output.

        Raises:
            ChatError: the request failed, or the response has no count.
        """
        body = encode_count(messages, tools, options, structured_output, dialect=self._dialect)
        read = partial(decode_count, provider=self._dialect.provider)
        return await self._send_and_decode(f"{PATH}/input_tokens", body, options, read)

    async def _send_and_decode(
        self, path: str, body: bytes, options: ChatOptions, read: Callable[[bytes], ResultT]
    ) -> ResultT:
        request = self.endpoint.request(path, body, options.timeout, stream=False, is_last=is_last)
        return await self.fetch_decoded(request, read)

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Implement `TransportProvider.response_error`: return the error for a response whose status is not 2xx.

        Over a WebSocket, the body is the event that reports the error.
        """
        if (event := parse_error_event(body)) is not None:
            return error_from_object(error_object(event), self._dialect.provider)
        return super().response_error(status, headers, body)
