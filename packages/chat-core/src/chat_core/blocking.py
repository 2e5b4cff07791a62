"""A chat without an event loop: for scripts, notebooks, and web frameworks that call in threads.

Nothing of the engine is here a second time. One thread of the process has an event loop (asyncio's), begun when it is
first needed; each call is a task there, and the caller waits for it. Callers in many threads share the loop, so their
calls run at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import closing
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Never, Self, TypeVar, cast, final

import typing_extensions

from chat_core._loop import Task, loop_holder
from chat_core.errors import UsageError
from chat_core.events import StructuredDelta, TextDelta
from chat_core.response import ChatResponse, Paused

if TYPE_CHECKING:
    from chat_core.chat import Chat, EmbeddingsChat, StreamingChat  # circular: chat.blocking returns a face of the chat
    from chat_core.conversation import Conversation
    from chat_core.engine.stream import ChatStream
    from chat_core.events import StreamEvent
    from chat_core.messages import Messages
    from chat_core.options import ChatOptions
    from chat_core.provider import EmbeddingsResponse
    from chat_core.usage import Usage

T = TypeVar("T")
OutT_co = typing_extensions.TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = typing_extensions.TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


def _run(function: Callable[[], Awaitable[T]]) -> T:
    """Await it on the loop. Where the caller is interrupted, it is cancelled, and waited for."""
    task = Task(loop_holder.loop(), function)
    try:
        task.start()
        return task.result()
    except BaseException:
        task.cancel_and_join()
        raise
    finally:
        del task  # it holds the error, which holds this frame


# --- The faces ----------------------------------------------------------------------------------------------


class BlockingChat(Generic[OutT_co, PauseT_co]):
    """A `Chat` for callers without an event loop: `chat.blocking`.

    It may be used from any thread. A ctrl-C in the main thread cancels the run, and is raised when the run has ended in
    order. Called where a loop runs, it blocks that loop.
    """

    __slots__ = ("_chat",)

    def __init__(self, chat: Chat[OutT_co, PauseT_co], /) -> None:
        """Made by `Chat.blocking`."""
        self._chat = chat

    def complete(self, messages: Messages | Conversation, *, options: ChatOptions | None = None) -> OutT_co | PauseT_co:
        """What `Chat.complete()` returns and raises."""
        return _run(lambda: self._chat.complete(messages, options=options))

    def close(self) -> None:
        """Close the model, where it can be closed."""
        _run(self._chat.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


@final
class BlockingStreamingChat(BlockingChat[OutT_co, PauseT_co]):
    """A `StreamingChat` for callers without an event loop."""

    __slots__ = ()

    def __init__(self, chat: StreamingChat[OutT_co, PauseT_co], /) -> None:
        """Made by `StreamingChat.blocking`."""
        super().__init__(chat)
        self._chat: StreamingChat[OutT_co, PauseT_co]

    def stream(
        self, messages: Messages | Conversation, *, options: ChatOptions | None = None
    ) -> BlockingStream[OutT_co, PauseT_co]:
        """The events of a run: `for event in chat.blocking.stream(messages)`, or in a `with` block of its own."""
        return BlockingStream(self._chat.stream(messages, options=options))


@final
class BlockingEmbeddingsChat:
    """An `EmbeddingsChat` for callers without an event loop."""

    __slots__ = ("_chat",)

    def __init__(self, chat: EmbeddingsChat, /) -> None:
        """Made by `EmbeddingsChat.blocking`."""
        self._chat = chat

    def embed(self, texts: Sequence[str], *, options: ChatOptions | None = None) -> EmbeddingsResponse:
        """What `EmbeddingsChat.embed()` returns and raises."""
        return _run(lambda: self._chat.embed(texts, options=options))

    def close(self) -> None:
        """Close the model, where it can be closed."""
        _run(self._chat.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


# --- A stream -----------------------------------------------------------------------------------------------


@final
class _Failed:
    """The run failed."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


_STARTED: Final = object()
_ENDED: Final = object()


@final
class BlockingStream(Generic[OutT_co, PauseT_co]):
    """The events of one run, read by `for`.

    The run goes on only while the next event is asked for, as that of `ChatStream` does. Leaving the `with` block, or
    the loop where there is no block, closes the connection and leaves the messages valid. Read without a block, the run
    ends when the iterator is closed or forgotten; a block ends it when you say so.
    """

    __slots__ = ("_cancelled", "_entered", "_leaving", "_reading", "_received", "_requested", "_stream", "_task")

    def __init__(self, stream: ChatStream[OutT_co, PauseT_co], /) -> None:
        """Made by `BlockingStreamingChat.stream()`."""
        self._stream = stream
        self._received: SimpleQueue[object] = SimpleQueue()
        self._task: Task[None] | None = None
        self._cancelled = False
        self._entered = False
        self._leaving = False
        self._reading = False

    def __enter__(self) -> Self:
        if self._task is not None:
            msg = "a stream is one run and can be entered once; call chat.blocking.stream(...) again for another"
            raise UsageError(msg)
        self._task = task = Task(loop_holder.loop(), self._run_stream, self._signal_end)
        self._reading = True
        try:
            task.start()
            self._receive()
        except BaseException:
            self._stop(task)
            raise
        self._reading = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._task is not None:
            self._stop(self._task)
        if kind is None:
            while not self._received.empty():
                left = self._received.get()
                if isinstance(left, _Failed):
                    raise left.error

    def __iter__(self) -> Iterator[StreamEvent[OutT_co, PauseT_co]]:
        return self._iterate_alone() if self._task is None else self._iterate(self._task)

    def text(self) -> Iterator[str]:
        """The text of the answer as it arrives, and nothing else. After an `AttemptReset` it begins again."""
        return (event.text for event in self if isinstance(event, (TextDelta, StructuredDelta)))

    def cancel(self) -> None:
        """End the run, from any thread: the iteration ends, without an error."""
        if self._task is None:
            msg = "cancel() ends a run that has begun: enter the stream first, with `with`, or begin to read it"
            raise UsageError(msg)
        self._cancelled = True
        self._task.loop.soon(self._cancel)

    @property
    def cancelled(self) -> bool:
        """Whether `cancel()` was called."""
        return self._cancelled

    @property
    def usage(self) -> Usage:
        """What the run has cost so far."""
        return self._stream.usage

    @property
    def response(self) -> OutT_co | PauseT_co:
        """What the run ended in; also after the block.

        Raises:
            UsageError: it has not ended, or was left before its end.
        """
        return self._stream.response

    def _iterate_alone(self) -> Iterator[StreamEvent[OutT_co, PauseT_co]]:
        with self:
            if self._task is not None:
                with closing(self._iterate(self._task)) as events:
                    yield from events

    def _iterate(self, task: Task[None]) -> Generator[StreamEvent[OutT_co, PauseT_co], None, None]:
        while not task.done or not self._received.empty():
            if task.loop.over and self._received.empty():
                msg = "the loop of this stream is gone: the process forked, or ends; read a stream where it was begun"
                raise UsageError(msg)
            self._reading = True
            task.loop.soon(self._request_next)
            event = self._receive()
            self._reading = False
            if event is _ENDED:
                return
            yield cast("StreamEvent[OutT_co, PauseT_co]", event)

    def _receive(self) -> object:
        answer = self._received.get()
        if isinstance(answer, _Failed):
            raise answer.error
        return answer

    def _stop(self, task: Task[None]) -> None:
        """End the task, and wait for it."""
        self._leaving = True
        if self._reading:
            task.cancel_and_join()
            return
        task.loop.soon(self._request_next)
        try:
            task.join()
        except BaseException:
            task.cancel_and_join()
            raise

    # In the loop

    def _request_next(self) -> None:
        self._requested.set()

    def _cancel(self) -> None:
        if self._entered:
            self._stream.cancel()

    async def _run_stream(self) -> None:
        """The run, in one task from its beginning to its end."""
        self._requested = asyncio.Event()
        try:
            async with self._stream as events:
                self._entered = True
                self._received.put(_STARTED)
                if not self._cancelled and await self._wait_for_request():
                    async for event in events:
                        self._received.put(event)
                        if not await self._wait_for_request():
                            break
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised where the caller waits
            self._received.put(_Failed(error))
        finally:
            self._signal_end()

    def _signal_end(self) -> None:
        self._received.put(_ENDED)

    async def _wait_for_request(self) -> bool:
        """Wait until another event is asked for; not, where the caller leaves."""
        await self._requested.wait()
        self._requested.clear()
        return not self._leaving
