"""Chat provider that sends requests to the Responses API over a `Transport`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Self, TypeVar, final

from chat_core.arguments import require_type
from chat_core.errors import ProviderError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import Attempt, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

from chat_responses.background import BackgroundStream, opened, poll, read_or_wait, started, unanswered
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
from chat_responses.options import BackgroundResponse, ResponsesDialect, ResponsesOptions

ResultT = TypeVar("ResultT")

PATH = "/responses"


@final
class ResponsesProvider(TransportProvider):
    """Chat provider for the Responses API, with streaming and token counts. Created by `ResponsesBuilder`.

    Instances are immutable and safe to share between tasks. The provider stores no conversation. The history alone
    determines whether a request refers to a previous response. Exiting the `async with` block closes the default
    transport. A transport that the caller passed to the builder stays open.
    """

    __slots__ = ("_dialect", "_started")

    def __init__(
        self,
        dialect: ResponsesDialect,
        endpoint: Endpoint,
        transport: Transport,
        *,
        owns_transport: bool = False,
        description: str = "",
    ) -> None:
        metadata = ProviderMeta(dialect.provider, dialect.model, description, extras=(ResponsesOptions,))
        super().__init__(metadata, endpoint, transport, owns_transport=owns_transport)
        self._dialect = dialect
        self._started: BackgroundResponse | None = None

    def with_provider_name(self, name: str) -> Self:
        """Implement `TransportProvider.with_provider_name`. The new name also replaces the name in the dialect."""
        clone = super().with_provider_name(name)
        object.__setattr__(clone, "_dialect", replace(self._dialect, provider=name))
        return clone

    def with_attempt(self, attempt: Attempt, /) -> Self:
        """Implement `AttemptAware.with_attempt`: wait for the background response that the last attempt has started."""
        require_type("attempt", attempt, Attempt, "an Attempt")
        clone = copy(self)
        object.__setattr__(clone, "_started", started(attempt))
        return clone

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
        try:
            turn = await self._complete(messages, composed, options)
        except ProviderError as error:
            if composed.previous is None or not is_previous_response_missing(error):
                raise
            composed = compose(messages, tools, options, structured_output, dialect=dialect, stream=False, whole=True)
            turn = await self._complete(messages, composed, options)
        return sealed(turn, composed.history, composed.dialect)

    @asynccontextmanager
    async def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AsyncGenerator[DecodedStream | BackgroundStream, None]:
        """Implement `StreamProvider.stream`: send one request and yield its stream.

        Exiting the `async with` block early or canceling the task closes the connection at once.

        Raises:
            ChatError: the request failed; raised on entering the block.
        """
        dialect = self._dialect
        composed = compose(messages, tools, options, structured_output, dialect=dialect, stream=True)
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(self._open(messages, composed, options))
                if composed.previous is not None and isinstance(stream, DecodedStream):
                    # Over a WebSocket, a missing previous response is reported by the first event.
                    await stream.begin()
            except ProviderError as error:
                if composed.previous is None or not is_previous_response_missing(error):
                    raise
                await stack.aclose()
                composed = compose(
                    messages, tools, options, structured_output, dialect=dialect, stream=True, whole=True
                )
                stream = await stack.enter_async_context(self._open(messages, composed, options))
            yield stream

    def encode_request(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> bytes:
        """Return the body that `complete()` would send, for APIs that take requests in another form.

        Args:
            messages: the conversation to send.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

        Raises:
            UsageError: the request cannot be encoded.
        """
        return compose(messages, tools, options, structured_output, dialect=self._dialect, stream=False).body

    def decode_response(self, body: bytes) -> Turn:
        """Return the turn in the body of a response, for responses that arrive in another form.

        Args:
            body: the response body as received.

        Raises:
            ChatError: the body reports an error, or is not a response.
        """
        require_type("body", body, bytes, "bytes")
        return decode(body, self._dialect.provider)

    async def _complete(self, messages: Messages, composed: Composed, options: ChatOptions) -> Turn:
        """Send a request, and return the turn of its response, even if it is created in the background."""
        extras = composed.extras
        if extras is not None and (extras.background or extras.resume):
            return await self._complete_in_background(messages, composed, extras, options)
        read = partial(decode, provider=composed.dialect.provider)
        return await self._send_and_decode(PATH, composed.body, options, read)

    def _open(
        self, messages: Messages, composed: Composed, options: ChatOptions
    ) -> AbstractAsyncContextManager[DecodedStream | BackgroundStream]:
        """Return a context manager that sends the request and yields the stream of its response."""
        extras = composed.extras
        if extras is not None and (extras.background or extras.resume) and not composed.dialect.socket:
            return opened(self._background_stream(messages, composed, extras, options))
        request = self.endpoint.request(PATH, composed.body, options.timeout, stream=True, is_last=is_last)
        seal = partial(sealed, history=composed.history, dialect=composed.dialect)
        return self.open_stream(request, StreamDecoder(composed.dialect.provider), seal)

    async def _complete_in_background(
        self, messages: Messages, composed: Composed, extras: ResponsesOptions, options: ChatOptions
    ) -> Turn:
        """Send a request, unless it is resumed, and poll its response until it is finished."""
        read = partial(read_or_wait, provider=composed.dialect.provider)
        found: Turn | BackgroundResponse | None = unanswered(extras.resume, messages) or self._started
        if found is None:
            found = await self._send_and_decode(PATH, composed.body, options, read)
            if isinstance(found, BackgroundResponse) and extras.on_background is not None:
                extras.on_background(found)
        if isinstance(found, BackgroundResponse):
            path = found.path(stream=False)
            request = self.endpoint.request(path, b"", options.timeout, stream=False, method="GET")
            found = await poll(found, partial(self.fetch_decoded, request, read))
        return found

    def _background_stream(
        self, messages: Messages, composed: Composed, extras: ResponsesOptions, options: ChatOptions
    ) -> BackgroundStream:
        resumed = unanswered(extras.resume, messages) or self._started
        has_events = resumed is not None and resumed.sequence_number is not None
        decoder = StreamDecoder(composed.dialect.provider, resumed=has_events)
        seal = partial(sealed, history=composed.history, dialect=composed.dialect)

        def connect(response: BackgroundResponse | None) -> AbstractAsyncContextManager[DecodedStream]:
            request = partial(self.endpoint.request, timeout=options.timeout, stream=True, is_last=is_last)
            if response is None:
                return self.open_stream(request(PATH, composed.body), decoder, seal)
            return self.open_stream(request(response.path(stream=True), b"", method="GET"), decoder, seal)

        return BackgroundStream(connect, decoder, extras.on_background, resumed)

    async def cancel_response(self, response: BackgroundResponse | str) -> None:
        """Cancel a background response that the server has not finished, so that the server stops creating it.

        Args:
            response: the response, or its id.

        Raises:
            ChatError: the request failed.
        """
        require_type("response", response, (str, BackgroundResponse), "a response or its id")
        known = BackgroundResponse(response) if isinstance(response, str) else response
        path = f"{known.path(stream=False)}/cancel"
        await self.fetch(self.endpoint.request(path, b"{}", None, stream=False))

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = ToolDeclarations(),  # noqa: B008 - immutable
        options: ChatOptions = ChatOptions(),  # noqa: B008 - immutable
        structured_output: OutputSchema | None = None,
    ) -> int:
        """Return the number of input tokens that `complete()` would use with the same arguments.

        Args:
            messages: the conversation to send.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

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
