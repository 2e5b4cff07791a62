"""Functions of the application that return wrong values raise errors that name the function, on every way of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from chat_core import ChatBuilder, ChatError, FunctionCall, Injected, Messages, ToolCollection, UsageError
from chat_core.messages import Failed
from chat_core.middleware import Middleware
from chat_core.testing import ScriptedProvider

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class UnreadableError(Exception):
    """An exception whose message cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError


class Memory:
    """A memory that returns any value."""

    def __init__(self, found: object) -> None:
        self.found: Any = found

    async def recall(self, _scope: str, _question: str, /) -> Any:
        return self.found


class SynchronousMemory(Memory):
    """A memory whose method is not a coroutine function."""

    def recall(self, _scope: str, _question: str, /) -> Any:
        return self.found


class Returning(Middleware):
    """A middleware that returns `None` in place of a turn or a stream."""

    async def complete(self, request: Any, send: Any, /) -> Any:
        await send(request)

    def stream(self, _request: Any, _open_stream: Any, /) -> Any:
        return None


class Swapped(Middleware):
    """A middleware whose `complete()` is not a coroutine function, and whose `stream()` is one."""

    def complete(self, _request: Any, _send: Any, /) -> Any:
        return None

    async def stream(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride] - wrong on purpose
        self, request: Any, open_stream: Any, /
    ) -> Any:
        return open_stream(request)


def builder() -> Any:
    return ChatBuilder().with_model(ScriptedProvider("Hello.", by_history=True))


def with_memory(memory: Any, scope: object = "ana") -> Any:
    def scope_of(_: object) -> object:
        return scope

    return builder().with_memory(memory, scope=scope_of)


async def error_of(chat: Any, *, streaming: bool) -> ChatError:
    with pytest.raises(ChatError) as caught:
        if streaming:
            async with chat.stream(Messages.from_user("Hi.")) as stream:
                _ = [event async for event in stream]
        else:
            await chat.complete(Messages.from_user("Hi."))
    return caught.value


def return_five(*_: object) -> int:
    return 5


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "context": (lambda: builder().with_context(return_five), "the result of the context policy must be a View"),
    "memory": (lambda: with_memory(Memory(["a note"])), "the result of the memory must be a sequence of RecalledNote"),
    "synchronous_memory": (lambda: with_memory(SynchronousMemory([])), r"the result of recall\(\) must be awaitable"),
    "scope": (lambda: with_memory(Memory([]), 5), r"the result of scope\(\) in with_memory\(\) must be a string"),
    "middleware": (
        lambda: builder().with_middleware(Returning()),
        r"(the response of .* must be a Turn|the result of stream\(\) of a middleware must be an async context)",
    ),
    "swapped_middleware": (
        lambda: builder().with_middleware(Swapped()),
        r"(complete\(\) of a middleware must be defined with async def|the result of stream\(\) .* without async)",
    ),
}


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize("case", CASES)
async def test_a_function_that_returns_a_wrong_value_is_named_in_the_error(
    anyio_backend: str, case: str, *, streaming: bool
) -> None:
    assert anyio_backend
    build, message = CASES[case]
    error = await error_of(build().build(), streaming=streaming)
    assert isinstance(error, UsageError)
    with pytest.raises(UsageError, match=message):
        raise error


async def test_a_factory_that_is_cancelled_from_inside_raises_a_usage_error(anyio_backend: str) -> None:
    assert anyio_backend
    tools = ToolCollection()

    @tools.tool
    def greet(name: Injected[str]) -> str:
        return name

    def cancelled(_: object) -> str:
        raise asyncio.CancelledError

    error = await error_of(builder().with_tools(tools).with_values(str, cancelled).build(), streaming=False)
    assert str(error).startswith("a factory of with_values() was cancelled, but not by the run")


@pytest.mark.parametrize("blocking", [False, True], ids=["task", "thread"])
async def test_a_tool_whose_error_has_no_readable_message_fails(anyio_backend: str, *, blocking: bool) -> None:
    assert anyio_backend
    tools = ToolCollection()

    async def in_task() -> None:
        raise UnreadableError

    def in_thread() -> None:
        raise UnreadableError

    tools.tool(name="pay")(in_thread if blocking else in_task)
    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("pay", {}, id="p")], "sorry")
    assert (await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)).text == "sorry"
    assert messages.tool("p").status == Failed("UnreadableError: its message cannot be read")
