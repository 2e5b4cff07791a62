"""A response stream whose final turn is changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import final

from chat_core import Delta, ProviderStream, Turn


@asynccontextmanager
async def change_turn(
    opening: AbstractAsyncContextManager[ProviderStream], change: Callable[[Turn], None]
) -> AsyncGenerator[ProviderStream]:
    """Open a response stream, and change its turn when the response is complete.

    Args:
        opening: opens the stream.
        change: changes the complete turn, in place.
    """
    async with opening as stream:
        yield _ChangedStream(stream, change)


def refuse_calls(turn: Turn, reason: str, *, after: int = 0) -> None:
    """Reject the unresolved tool calls of a turn.

    Args:
        turn: the turn.
        reason: the reason that the model receives.
        after: the number of calls, from the first, that are not rejected.
    """
    for tool in turn.tools[after:]:
        if not tool.resolved:
            tool.refuse(reason)


@final
class _ChangedStream:
    __slots__ = ("_change", "_stream")

    def __init__(self, stream: ProviderStream, change: Callable[[Turn], None]) -> None:
        self._stream = stream
        self._change = change

    def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        return aiter(self._stream)

    def close(self) -> Turn:
        turn = self._stream.close()
        self._change(turn)
        return turn

    def partial(self) -> Turn:
        return self._stream.partial()
