"""Variants of a tool loop that use one seam of the engine or the store each, for the rows `seams` and `seams-stored`.

The client `chat-NAME` of these rows uses the seam `NAME`. The baseline `chat` runs the same loop without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from chat_core import (
    ChatBuilder,
    Injected,
    Messages,
    Middleware,
    RunContext,
    StreamingChat,
    Text,
    ToolCollection,
    ToolOutput,
    Turn,
    Window,
)
from work import SENTENCE, Slot, require, weather


class Units:
    """Value that a run passes to the tool."""

    suffix = ""


def _units(_context: RunContext) -> Units:
    return Units()


def _with_values(builder: Any) -> Any:  # noqa: ANN401 - builders have no common base
    tools = ToolCollection()

    @tools.tool
    async def get_weather(city: str, units: Injected[Units]) -> str:
        """The weather."""
        return weather(city) + units.suffix

    return builder.with_values(Units, _units).with_tools(tools)


def _with_outputs(builder: Any) -> Any:  # noqa: ANN401 - as above
    tools = ToolCollection()

    @tools.tool
    async def get_weather(city: str) -> ToolOutput:
        """The weather."""
        return ToolOutput(weather(city), state={"city": city})

    return builder.with_tools(tools)


def _instruct(_context: RunContext) -> str:
    return "Be brief."


def plain_tools() -> ToolCollection[None]:
    """Return the tool of the loop without any seam."""
    tools = ToolCollection()

    @tools.tool
    async def get_weather(city: str) -> str:
        """The weather."""
        return weather(city)

    return tools


SEAMS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "values": _with_values,
    "instructions": lambda builder: builder.with_tools(plain_tools()).with_instructions(_instruct),
    "context": lambda builder: builder.with_tools(plain_tools()).with_context(Window(1_000_000, 500_000)),
    "middleware": lambda builder: builder.with_tools(plain_tools()).with_middleware(Middleware()),
    "outputs": _with_outputs,
}
"""Functions that add the tool and a seam to a builder, by name of the seam."""


def add_tools(builder: ChatBuilder, seam: str) -> Any:  # noqa: ANN401 - as above
    """Return the builder with the tool of the loop, and with a seam if `seam` is the name of one."""
    add = SEAMS.get(seam)
    return builder.with_tools(plain_tools()) if add is None else add(builder)


def stored_loop(chat: StreamingChat, seam: str) -> Slot:
    """Return a slot that runs the loop on a stored conversation. `seam` is `jobs`, `posts` or empty."""
    # Only this work needs a store.
    from chat_store import Job, MemoryStore

    store = MemoryStore()

    async def run(name: str) -> None:
        async with store.open(name) as conversation:
            require((await chat.complete(conversation)).text)

    async def slot() -> None:
        if seam == "posts":
            name = await store.create(Messages())
            await store.post(name, Turn([Text(SENTENCE)]), key="1")
            await run(name)
        elif seam == "jobs":
            name = await store.create(Messages.from_user(SENTENCE), jobs=[Job("run", "1")])
            async with store.take_job("run") as job:
                require(job is not None)
                await run(name)
        else:
            name = await store.create(Messages.from_user(SENTENCE))
            await run(name)
        await store.delete(name)

    return slot
