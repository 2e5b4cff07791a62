"""A provider whose requests pass through the middlewares of a chat."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, final

from chat_core.arguments import require_type
from chat_core.middleware import Middleware, OpenStream, ProviderRequest, Send
from chat_core.provider import FIRST_ATTEMPT, Attempt, AttemptAware, CompletionProvider, ProviderMeta, ProviderStream

if TYPE_CHECKING:
    from chat_core.messages import Messages, Turn
    from chat_core.options import ChatOptions
    from chat_core.provider import OutputSchema, ToolDeclarations


@final
class WrappedModel:
    """A provider whose requests pass through middlewares. The first middleware is the outermost."""

    __slots__ = ("_attempt", "_middleware", "_model")

    def __init__(
        self, model: CompletionProvider, middleware: tuple[Middleware, ...], attempt: Attempt = FIRST_ATTEMPT
    ) -> None:
        self._model: Any = model  # `stream()` is called only on a provider that streams
        self._middleware = middleware
        self._attempt = attempt

    @property
    def metadata(self) -> ProviderMeta:
        """The metadata of the wrapped provider."""
        metadata: ProviderMeta = self._model.metadata
        return metadata

    def with_attempt(self, attempt: Attempt, /) -> WrappedModel:
        """Implement `AttemptAware.with_attempt`: pass the attempt to the middlewares and the provider."""
        model = self._model.with_attempt(attempt) if isinstance(self._model, AttemptAware) else self._model
        return WrappedModel(model, self._middleware, attempt)

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: send the request through the middlewares."""
        send: Send = self._send_request
        for middleware in reversed(self._middleware):
            send = _complete_with_middleware(middleware, send)
        return await send(self._create_request(messages, tools, options, structured_output))

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Implement `StreamProvider.stream`: open the stream through the middlewares."""
        open_stream: OpenStream = self._open_stream
        for middleware in reversed(self._middleware):
            open_stream = _stream_with_middleware(middleware, open_stream)
        return open_stream(self._create_request(messages, tools, options, structured_output))

    def _create_request(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> ProviderRequest:
        return ProviderRequest(self.metadata, messages, tools, options, structured_output, self._attempt)

    async def _send_request(self, request: ProviderRequest) -> Turn:
        turn: Turn = await self._model.complete(
            request.messages, request.tools, request.options, request.structured_output
        )
        return turn

    def _open_stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[ProviderStream]:
        stream: AbstractAsyncContextManager[ProviderStream] = self._model.stream(
            request.messages, request.tools, request.options, request.structured_output
        )
        return stream


def _complete_with_middleware(middleware: Middleware, send: Send) -> Send:
    def forward(request: ProviderRequest) -> Awaitable[Turn]:
        response = middleware.complete(request, send)
        require_type("complete() of a middleware", response, Awaitable, "defined with async def")
        return response

    return forward


def _stream_with_middleware(middleware: Middleware, open_stream: OpenStream) -> OpenStream:
    def forward(request: ProviderRequest) -> AbstractAsyncContextManager[ProviderStream]:
        stream = middleware.stream(request, open_stream)
        if inspect.iscoroutine(stream):
            stream.close()  # otherwise, Python warns that it was never awaited
        expected = "an async context manager, such as open_stream(request); define the method without async"
        require_type("the result of stream() of a middleware", stream, AbstractAsyncContextManager, expected)
        return stream

    return forward
