"""Declarations of the tools that OpenAI defines and the chat runs."""

from __future__ import annotations

from typing import Any

import pytest
from chat_core import ChatBuilder, Execute, Messages, ScopedCollection, ToolCollection
from chat_core.errors import UsageError
from chat_core.testing import MockTransport
from chat_openai import ApplyPatch, ClientToolSearch, Computer, LocalShell, NativeTool, OpenAIBuilder, Shell

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}

DECLARATIONS: list[tuple[NativeTool, dict[str, Any]]] = [
    (Shell(), {"type": "shell", "environment": {"type": "local"}}),
    (LocalShell(), {"type": "local_shell"}),
    (ApplyPatch(), {"type": "apply_patch"}),
    (Computer(), {"type": "computer"}),
    (
        ClientToolSearch(parameters=SCHEMA, description="Find tools."),
        {"type": "tool_search", "execution": "client", "description": "Find tools.", "parameters": SCHEMA},
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("tool", "declaration"), DECLARATIONS, ids=lambda row: type(row).__name__)
async def test_an_action_is_declared_in_place_of_the_tool_that_runs_it(
    tool: NativeTool, declaration: dict[str, Any]
) -> None:
    name = declaration["type"]
    tools = ToolCollection()
    tools.register(name, {"type": "object"}, lambda _arguments: "done")
    transport = MockTransport()
    transport.answer(200, {}, {"id": "r", "status": "completed", "output": []})
    model = OpenAIBuilder().with_model("m").with_native_tools(tool).with_transport(transport).build()
    scope = ScopedCollection(tools, lambda _call, _meta: Execute())
    await ChatBuilder().with_model(model).with_scoped_tools(scope).build().complete(Messages.from_user("Go."))
    assert transport.last.json()["tools"] == [declaration]


def test_a_tool_search_needs_a_schema() -> None:
    with pytest.raises(UsageError, match="needs a JSON Schema"):
        ClientToolSearch(parameters={})
