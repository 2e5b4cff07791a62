"""A run without events, with and without a task group."""

from __future__ import annotations

import pytest
from chat_core import ChatBuilder, FunctionCall, Messages, ToolCollection
from chat_core.testing import MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio


async def test_a_run_without_tools_returns_its_response() -> None:
    response = await ChatBuilder().with_model(ScriptedProvider("Hi.")).build().complete(Messages.from_user("Hello."))

    assert response.text == "Hi."


async def test_a_run_with_tools_returns_its_last_response() -> None:
    tools = ToolCollection()

    @tools.tool
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedProvider(FunctionCall("look", {}, id="1"), "Yes.")

    response = await ChatBuilder().with_model(model).with_tools(tools).build().complete(Messages.from_user("Look."))

    assert response.text == "Yes."


async def test_a_stored_conversation_is_released_after_the_run() -> None:
    target = MemoryConversation(Messages.from_user("Hello."))

    await ChatBuilder().with_model(ScriptedProvider("Hi.")).build().complete(target)

    assert str(target.calls[-1]) == "release"
