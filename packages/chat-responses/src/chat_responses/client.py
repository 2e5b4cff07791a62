"""A model behind the Responses wire, over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import final

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
from chat_responses.frames import is_error
from chat_responses.options import ResponsesDialect

PATH = "/responses"


@final
class ResponsesProvider(TransportProvider):
    """A model behind the Responses wire: it completes, streams and counts. Made by `ResponsesBuilder`.

    Immutable and safe to share between tasks: whether a request goes on from a stored response is decided by the
    history alone. As an async context manager it closes its transport on leaving, if it made it; one that was passed in
    stays open.
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
        """Ask once. The turn's tools are `Pending`.

        Raises:
            ChatError: with whatever usage was reported.
        """
        dialect = self._dialect
        sent = compose(messages, tools, options, structured_output, dialect=dialect, stream=False)
        try:
            turn = decode(await self._post(PATH, sent.body, options), dialect.provider)
        except ProviderError as error:
            if sent.previous is None or not is_previous_response_missing(error):
                raise
            sent = compose(messages, tools, options, structured_output, dialect=dialect, stream=False, whole=True)
            turn = decode(await self._post(PATH, sent.body, options), dialect.provider)
        return sealed(turn, sent.history, sent.dialect)

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
        dialect = self._dialect
        sent = compose(messages, tools, options, structured_output, dialect=dialect, stream=True)
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(self._listen(sent, options))
                if sent.previous is not None:
                    # Over a socket, the first event says whether the server has it.
                    await stream.begin()
            except ProviderError as error:
                if sent.previous is None or not is_previous_response_missing(error):
                    raise
                await stack.aclose()
                sent = compose(messages, tools, options, structured_output, dialect=dialect, stream=True, whole=True)
                stream = await stack.enter_async_context(self._listen(sent, options))
            yield stream

    def _listen(self, sent: Composed, options: ChatOptions) -> AbstractAsyncContextManager[DecodedStream]:
        request = self.endpoint.request(PATH, sent.body, options.timeout, stream=True, is_last=is_last)
        seal = partial(sealed, history=sent.history, dialect=sent.dialect)
        return self.open_stream(request, StreamDecoder(sent.dialect.provider), seal)

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = ToolDeclarations(),  # noqa: B008 - immutable
        options: ChatOptions = ChatOptions(),  # noqa: B008 - immutable
        structured_output: OutputSchema | None = None,
    ) -> int:
        """How many tokens the same request would have; nothing is answered.

        Raises:
            ChatError: the server does not say it.
        """
        body = encode_count(messages, tools, options, structured_output, dialect=self._dialect)
        return decode_count(await self._post(f"{PATH}/input_tokens", body, options), self._dialect.provider)

    async def _post(self, path: str, body: bytes, options: ChatOptions) -> bytes:
        return await self.fetch(self.endpoint.request(path, body, options.timeout, stream=False, is_last=is_last))

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Return the error for a response whose status is not 2xx: over a socket, its body is an event."""
        if (event := is_error(body)) is not None:
            return error_from_object(error_object(event), self._dialect.provider)
        return super().response_error(status, headers, body)
