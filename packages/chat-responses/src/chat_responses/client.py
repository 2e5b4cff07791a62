"""A model behind the Responses wire, over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Self, final

from chat_core.errors import ProviderError, TransportError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.transport.protocol import Transport
from chat_core.transport.values import EventStream
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint

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
from chat_responses.errors import error_in, failure, forgotten, refusal, translate
from chat_responses.frames import is_error
from chat_responses.options import ResponsesDialect

PATH = "/responses"


@final
class ResponsesProvider:
    """A model behind the Responses wire: it completes, streams and counts. Made by `ResponsesBuilder`.

    Immutable and safe to share between tasks: whether a request goes on from a stored response is decided by the
    history alone. As an async context manager it closes its transport on leaving, if it made it; one that was passed in
    stays open.
    """

    __slots__ = ("_dialect", "_endpoint", "_metadata", "_owns", "_transport")

    def __init__(
        self,
        dialect: ResponsesDialect,
        endpoint: Endpoint,
        transport: Transport,
        *,
        owns_transport: bool = False,
        description: str = "",
    ) -> None:
        self._dialect = dialect
        self._endpoint = endpoint
        self._transport = transport
        self._owns = owns_transport
        self._metadata = ProviderMeta(dialect.provider, dialect.model, description)

    def __repr__(self) -> str:
        return f"ResponsesProvider(model={self._dialect.model!r}, at {self._endpoint!r})"

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
        dialect = self._dialect
        sent = compose(messages, tools, options, structured_output, dialect=dialect, stream=False)
        try:
            turn = decode(await self._send(PATH, sent.body, options), dialect.provider)
        except ProviderError as error:
            if sent.previous is None or not forgotten(error):
                raise
            sent = compose(messages, tools, options, structured_output, dialect=dialect, stream=False, whole=True)
            turn = decode(await self._send(PATH, sent.body, options), dialect.provider)
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
                stream = _decoded(await stack.enter_async_context(self._open(sent, options)), sent)
                if sent.previous is not None:
                    # Over a socket, the first event says whether the server has it.
                    await stream.begin()
            except ProviderError as error:
                if sent.previous is None or not forgotten(error):
                    raise
                await stack.aclose()
                sent = compose(messages, tools, options, structured_output, dialect=dialect, stream=True, whole=True)
                stream = _decoded(await stack.enter_async_context(self._open(sent, options)), sent)
            yield stream

    @asynccontextmanager
    async def _open(self, sent: Composed, options: ChatOptions) -> AsyncGenerator[EventStream, None]:
        request = self._endpoint.request(PATH, sent.body, options.timeout, stream=True, is_last=is_last)
        try:
            async with self._transport.stream(request) as events:
                yield events
        except TransportError as error:
            raise translate(error, self._dialect.provider) from error

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
        return decode_count(await self._send(f"{PATH}/input_tokens", body, options), self._dialect.provider)

    async def _send(self, path: str, body: bytes, options: ChatOptions) -> bytes:
        request = self._endpoint.request(path, body, options.timeout, stream=False, is_last=is_last)
        try:
            response = await self._transport.send(request)
        except TransportError as error:
            raise translate(error, self._dialect.provider) from error
        if not 200 <= response.status < 300:  # noqa: PLR2004 - RFC 9110, section 15.3
            if (event := is_error(response.body)) is not None:
                raise failure(error_in(event), self._dialect.provider)
            raise refusal(response.status, response.headers, response.body, self._dialect.provider)
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


def _decoded(events: EventStream, sent: Composed) -> DecodedStream:
    """The answer to what was sent: its turn knows from which history it came."""
    provider = sent.dialect.provider
    seal = partial(sealed, history=sent.history, dialect=sent.dialect)
    return DecodedStream(events, StreamDecoder(provider), partial(translate, provider=provider), seal)
