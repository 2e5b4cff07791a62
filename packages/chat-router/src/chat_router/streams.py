"""Streams that report their beginning, end or failure to a router."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import final

from chat_core import ChatError, Delta, ProviderStream, Turn

from chat_router.selection import Selected


@final
class RoutedStreamContext(AbstractAsyncContextManager[ProviderStream]):
    """A context manager that chooses a model and opens its stream.

    Args:
        select: function that chooses the model.
        open_stream: function that returns the context manager of the model's stream.
    """

    __slots__ = ("_context", "_open_stream", "_select", "_selected")

    def __init__(
        self,
        select: Callable[[], Awaitable[Selected]],
        open_stream: Callable[[Selected], AbstractAsyncContextManager[ProviderStream]],
    ) -> None:
        self._select = select
        self._open_stream = open_stream
        self._selected: Selected | None = None
        self._context: AbstractAsyncContextManager[ProviderStream] | None = None

    async def __aenter__(self) -> ProviderStream:
        selected = self._selected = await self._select()
        try:
            context = self._open_stream(selected)
            stream = await context.__aenter__()
        except BaseException as error:
            selected.end(error)
            raise
        self._context = context
        return RoutedStream(stream, selected)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        selected, context = self._selected, self._context
        assert selected is not None  # noqa: S101 - the block was entered
        assert context is not None  # noqa: S101 - as above
        try:
            return await context.__aexit__(kind, error, trace)
        except ChatError as raised:
            selected.fail(raised)
            raise
        finally:
            selected.release()


@final
class RoutedStream:
    """The stream of a chosen model. Its end or its error is recorded as the outcome of the request."""

    __slots__ = ("_selected", "_stream")

    def __init__(self, stream: ProviderStream, selected: Selected) -> None:
        self._stream = stream
        self._selected = selected

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        """Iterate over the batches of the model."""
        selected, batches = self._selected, aiter(self._stream)
        try:
            async for batch in batches:
                selected.measure()
                yield batch
        except ChatError as error:
            selected.fail(error)
            raise
        finally:
            aclose: Callable[[], Awaitable[None]] | None = getattr(batches, "aclose", None)
            if aclose is not None:
                await aclose()

    def close(self) -> Turn:
        """Return the complete model turn."""
        try:
            turn = self._stream.close()
        except ChatError as error:
            self._selected.fail(error)
            raise
        self._selected.succeed()
        return turn

    def partial(self) -> Turn:
        """Return the turn received so far."""
        return self._stream.partial()
