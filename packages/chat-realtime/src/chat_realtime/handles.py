"""`TalkInput` and `TalkOutput`, the two sides of a talk, for use in different tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, Never, Protocol, Self, final

from chat_core import ChatResponse, Part, Paused
from chat_core.arguments import require_type
from typing_extensions import TypeVar

from chat_realtime.events import TalkEvent

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


class _Controls(Protocol):
    """Protocol of the talk methods that `TalkInput` calls."""

    async def send(self, *parts: Part | str) -> None: ...
    def resume(self) -> None: ...
    def end(self) -> None: ...
    def cancel(self) -> None: ...
    @property
    def is_connected(self) -> bool: ...


@final
class TalkInput:
    """The input side of a talk. Any number of tasks can use it."""

    __slots__ = ("_talk",)

    def __init__(self, talk: _Controls, /) -> None:
        """Create the handle. Applications call `Talk.split()` instead."""
        self._talk = talk

    async def send(self, *parts: Part | str) -> None:
        """Queue a user message, as `Talk.send()` does."""
        await self._talk.send(*parts)

    def resume(self) -> None:
        """Continue after a `Paused` event or an error, as `Talk.resume()` does."""
        self._talk.resume()

    def end(self) -> None:
        """Stop accepting input, as `Talk.end()` does."""
        self._talk.end()

    def cancel(self) -> None:
        """End the talk now, as `Talk.cancel()` does."""
        self._talk.cancel()

    @property
    def is_connected(self) -> bool:
        """Whether the talk accepts input."""
        return self._talk.is_connected


@final
class TalkOutput(Generic[OutT_co, PauseT_co]):
    """The output side of a talk: an async iterator over its events. One task at a time can read it."""

    __slots__ = ("_read",)

    def __init__(self, talk: AsyncIterator[TalkEvent[OutT_co, PauseT_co]], /) -> None:
        """Create the handle. Applications call `Talk.split()` instead."""
        require_type("talk", talk, AsyncIterator, "an async iterator, such as a Talk")
        self._read = talk.__anext__

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TalkEvent[OutT_co, PauseT_co]:
        return await self._read()
