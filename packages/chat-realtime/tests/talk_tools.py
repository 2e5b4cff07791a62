"""Tools and chats for the tests of talks."""

from __future__ import annotations

from typing import Any

import anyio
from chat_core import (
    ChatBuilder,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.testing import ScriptedProvider


class Kitchen:
    """Tools whose end a test decides."""

    def __init__(self) -> None:
        self.tools = ToolCollection()
        self.started = anyio.Event()
        self.may_end = anyio.Event()
        self.done: list[str] = []

        @self.tools.tool
        async def cook(meal: str) -> str:
            """Cook a meal."""
            self.started.set()
            await self.may_end.wait()
            self.done.append(meal)
            return "ready"

        @self.tools.tool(idempotent=True)
        async def clean() -> str:
            """Clean the kitchen."""
            await self.may_end.wait()
            return "clean"


def paying_chat(model: ScriptedProvider, paid: list[int]) -> Any:
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    return ChatBuilder().with_model(model).with_scoped_tools(scope).build()
