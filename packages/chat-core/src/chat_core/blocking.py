"""Chats and stores without an event loop, for scripts, notebooks and web frameworks that handle requests in threads.

One background thread of the process runs an asyncio event loop, started on first use. Each call is a task in that loop,
and the calling thread waits for it. All threads share the loop, so their calls run concurrently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Never, Self, TypeVar, cast, final

import typing_extensions

from chat_core._loop import Task, loop_holder
from chat_core.arguments import argument_error
from chat_core.conversation import Conversation
from chat_core.embed import Texts
from chat_core.engine.stream import ChatStream
from chat_core.errors import UsageError
from chat_core.events import Done, ProgressEvent, StreamEvent, StructuredDelta, TextDelta
from chat_core.messages import Messages, Tool
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsResponse, TokenCount
from chat_core.response import ChatResponse, Paused
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.chat import Chat, EmbeddingsChat, StreamingChat  # circular: Chat.blocking returns a BlockingChat

T = TypeVar("T")
OutT_co = typing_extensions.TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = typing_extensions.TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


def call(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function on the shared event loop and return its result.

    For example, `call(store.due)` returns the due conversations of a store that was entered with `enter()`. If the
    caller is interrupted, the function is cancelled, and the interruption is raised after the function has ended.

    Args:
        function: async function, called without arguments. Its exceptions are raised to the caller.

    Raises:
        UsageError: `function` is not a function, for example because it has already been called.
    """
    if not callable(function):  # pyright: ignore[reportUnnecessaryComparison] - callers without a checker
        value: object = function
        if asyncio.iscoroutine(value):
            value.close()  # otherwise, Python warns that it was never awaited
        raise argument_error("function", "an async function that is not called yet, such as store.due", value)
    task = Task(loop_holder.loop(), function)
    try:
        task.start()
        return task.result()
    except BaseException:
        task.cancel_and_join()
        raise
    finally:
        del task  # breaks the reference cycle of task, exception and this frame


@contextmanager
def enter(manager: AbstractAsyncContextManager[T]) -> Generator[T]:
    """Enter an async context manager, such as a store or a stored conversation, in a `with` statement.

    The context manager runs on the event loop that `chat.blocking` uses, so blocking chats accept the conversation. It
    is entered and exited in different tasks, so it must not keep a task group or a cancel scope open.

    Args:
        manager: the context manager. Its `__aexit__` receives the exception of the block.

    Returns:
        A context manager whose `as` target is the value of `manager`.

    Raises:
        UsageError: `manager` is not an async context manager.
    """
    if not isinstance(manager, AbstractAsyncContextManager):
        raise argument_error("manager", "an async context manager, such as a store", manager)
    value = call(manager.__aenter__)
    try:
        yield value
    except BaseException as error:
        # The name of an exception is deleted at the end of its block, so the lambda needs another name.
        raised = error
        if not call(lambda: manager.__aexit__(type(raised), raised, raised.__traceback__)):
            raise
    else:
        call(lambda: manager.__aexit__(None, None, None))


# --- Blocking chats -----------------------------------------------------------------------------------------


class BlockingChat(Generic[OutT_co, PauseT_co]):
    """A `Chat` for callers without an event loop, available as `chat.blocking`.

    Safe to use from any thread. `KeyboardInterrupt` in the main thread cancels the run and is raised after the run has
    ended. A call from a coroutine blocks the event loop of that coroutine.
    """

    __slots__ = ("_chat",)

    def __init__(self, chat: Chat[OutT_co, PauseT_co], /) -> None:
        """Wrap `chat`. This is internal: use `Chat.blocking` instead."""
        self._chat = chat

    def complete(
        self,
        messages: Messages | Conversation,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
    ) -> OutT_co | PauseT_co:
        """Run `Chat.complete()` and wait for its result.

        Args:
            messages: the conversation. The run appends to it.
            options: options of this run, merged over those of the chat.
            inject: values by type, for `Injected` parameters of tools. They replace factories of the same
                types, even in inner chats.
            owner: the user who owns the conversation. Only for plain messages: a stored conversation has an owner.

        Raises:
            ChatError: the run failed. `messages` stays valid and contains everything that was completed.
        """
        return call(lambda: self._chat.complete(messages, options=options, inject=inject, owner=owner))

    def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        messages: Messages | Conversation,
        *,
        id: str = "",
    ) -> Tool | PauseT_co:
        """Run `Chat.call()` and wait for its result.

        Args:
            name: name of a tool of this chat.
            arguments: arguments of the call.
            messages: the conversation. The run appends to it.
            id: ID of the call, unique in the conversation. By default, each call has a new ID.

        Raises:
            ChatError: the run failed. `messages` stays valid and contains everything that was completed.
        """
        return call(lambda: self._chat.call(name, arguments, messages, id=id))

    def count_tokens(
        self,
        messages: Messages,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
    ) -> TokenCount:
        """Run `Chat.count_tokens()` and wait for its result.

        Args:
            messages: the conversation. Its tool calls must be resolved.
            options: options of the request, merged over those of the chat.
            inject: values by type, for the functions that return instructions.
            owner: the user who owns the conversation, for the functions that return instructions.

        Raises:
            UsageError: an instructions function needs a value that is missing, or an argument is wrong.
            ChatError: the provider's request to count the tokens failed. The request is not retried.
        """
        return call(lambda: self._chat.count_tokens(messages, options=options, inject=inject, owner=owner))

    def close(self) -> None:
        """Close the model, if it has an `aclose()` method."""
        call(self._chat.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


@final
class BlockingStreamingChat(BlockingChat[OutT_co, PauseT_co]):
    """A `StreamingChat` for callers without an event loop, available as `chat.blocking`."""

    __slots__ = ()

    def __init__(self, chat: StreamingChat[OutT_co, PauseT_co], /) -> None:
        """Wrap `chat`. This is internal: use `StreamingChat.blocking` instead."""
        super().__init__(chat)
        self._chat: StreamingChat[OutT_co, PauseT_co]

    def stream(
        self,
        messages: Messages | Conversation,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
    ) -> BlockingStream[OutT_co, PauseT_co]:
        """Return an iterator over the events of a run. Use it directly or in a `with` block.

        Args:
            messages: the conversation. The run appends to it.
            options: options of this run, merged over those of the chat.
            inject: values by type, for `Injected` parameters of tools. They replace factories of the same
                types, even in inner chats.
            owner: the user who owns the conversation. Only for plain messages: a stored conversation has an owner.
        """
        return BlockingStream(self._chat.stream(messages, options=options, inject=inject, owner=owner))


@final
class BlockingEmbeddingsChat:
    """An `EmbeddingsChat` for callers without an event loop, available as `chat.blocking`."""

    __slots__ = ("_chat",)

    def __init__(self, chat: EmbeddingsChat, /) -> None:
        """Wrap `chat`. This is internal: use `EmbeddingsChat.blocking` instead."""
        self._chat = chat

    def embed(
        self, texts: Texts, *, options: ChatOptions | None = None, allow_failures: bool = False
    ) -> EmbeddingsResponse:
        """Run `EmbeddingsChat.embed()` and wait for its result.

        Args:
            texts: texts to embed, sent in batches within the provider's limits.
            options: options of this call, merged over those of the chat.
            allow_failures: whether to return the other vectors if a text fails. Its vector is then empty, and its error
                is in `failures` of the response. Errors that concern all texts, such as a rejected key, are raised.

        Raises:
            UsageError: `texts` is not a sequence of strings.
            ChatError: a request failed after all retries. The error's `usage` includes the earlier requests.
        """
        return call(lambda: self._chat.embed(texts, options=options, allow_failures=allow_failures))

    def close(self) -> None:
        """Close the model, if it has an `aclose()` method."""
        call(self._chat.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()


# --- The stream ---------------------------------------------------------------------------------------------


@final
class _Failed:
    """Queue item with the exception of a failed run."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


_STARTED: Final = object()
_ENDED: Final = object()


@final
class BlockingStream(Generic[OutT_co, PauseT_co]):
    """Iterator over the events of one run.

    As with `ChatStream`, the run advances only while the caller waits for the next event. Exiting the `with` block
    closes the connection and leaves the messages valid. Without a block, close or discard the iterator to end the run.
    """

    __slots__ = ("_cancelled", "_entered", "_exiting", "_reading", "_received", "_requested", "_stream", "_task")

    def __init__(self, stream: ChatStream[OutT_co, PauseT_co], /) -> None:
        """Wrap `stream`. This is internal: use `BlockingStreamingChat.stream()` instead."""
        self._stream = stream
        self._received: SimpleQueue[object] = SimpleQueue()
        self._task: Task[None] | None = None
        self._cancelled = False
        self._entered = False
        self._exiting = False
        self._reading = False

    def __enter__(self) -> Self:
        if self._task is not None:
            msg = "a stream can be entered only once; call chat.blocking.stream(...) for another run"
            raise UsageError(msg)
        self._task = task = Task(loop_holder.loop(), self._run_stream, self._signal_end)
        self._reading = True
        try:
            task.start()
            self._receive_item()
        except BaseException:
            self._stop_task(task)
            raise
        self._reading = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._task is not None:
            self._stop_task(self._task)
        if kind is None:
            while not self._received.empty():
                item = self._received.get()
                if isinstance(item, _Failed):
                    raise item.error

    def __iter__(self) -> Iterator[ProgressEvent | Done[OutT_co] | PauseT_co]:
        return self._open_and_iterate() if self._task is None else self._iterate_events(self._task)

    def text(self) -> Iterator[str]:
        """Iterate over the response text as it arrives. After an `AttemptReset`, the text starts again."""
        return (event.text for event in self if isinstance(event, (TextDelta, StructuredDelta)))

    def cancel(self) -> None:
        """Cancel the run. The iteration then ends without an error. Callable from any thread."""
        if self._task is None:
            msg = "cancel() was called before the run started: enter the stream with `with`, or start iterating, first"
            raise UsageError(msg)
        self._cancelled = True
        self._task.loop.call_soon(self._cancel_stream)

    @property
    def cancelled(self) -> bool:
        """Whether `cancel()` was called."""
        return self._cancelled

    @property
    def usage(self) -> Usage:
        """Token usage of the run so far."""
        return self._stream.usage

    @property
    def response(self) -> OutT_co | PauseT_co:
        """The response or the pause with which the run ended. Still available after the block.

        Raises:
            UsageError: the run has not ended, or the stream was closed before the run ended.
        """
        return self._stream.response

    def _open_and_iterate(self) -> Iterator[ProgressEvent | Done[OutT_co] | PauseT_co]:
        with self:
            if self._task is not None:
                with closing(self._iterate_events(self._task)) as events:
                    yield from events

    def _iterate_events(self, task: Task[None]) -> Generator[StreamEvent[OutT_co, PauseT_co], None, None]:
        while not task.done or not self._received.empty():
            if task.loop.closed and self._received.empty():
                msg = (
                    "the event loop of this stream has closed, because the process forked or is exiting: "
                    "read a stream in the process that started it"
                )
                raise UsageError(msg)
            self._reading = True
            task.loop.call_soon(self._request_next)
            event = self._receive_item()
            self._reading = False
            if event is _ENDED:
                return
            yield cast("StreamEvent[OutT_co, PauseT_co]", event)

    def _receive_item(self) -> object:
        item = self._received.get()
        if isinstance(item, _Failed):
            raise item.error
        return item

    def _stop_task(self, task: Task[None]) -> None:
        """End the task of the stream, and wait until it has ended."""
        self._exiting = True
        if self._reading:
            task.cancel_and_join()
            return
        task.loop.call_soon(self._request_next)
        try:
            task.join()
        except BaseException:
            task.cancel_and_join()
            raise

    # Called in the thread of the loop

    def _request_next(self) -> None:
        self._requested.set()

    def _cancel_stream(self) -> None:
        if self._entered:
            self._stream.cancel()

    async def _run_stream(self) -> None:
        """Run the stream in one task, and put its events, or its exception, into the queue."""
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
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread
            self._received.put(_Failed(error))
        finally:
            self._signal_end()

    def _signal_end(self) -> None:
        self._received.put(_ENDED)

    async def _wait_for_request(self) -> bool:
        """Wait until the caller requests the next event. Return False if the caller exits instead."""
        await self._requested.wait()
        self._requested.clear()
        return not self._exiting
