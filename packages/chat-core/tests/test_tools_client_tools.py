"""Client tools: declarations sent to the model, refused declarations, and results."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    ClientTools,
    FunctionCall,
    Messages,
    Paused,
    StreamingChat,
    ToolCollection,
    UsageError,
)
from chat_core.testing import ScriptedProvider

pytestmark = pytest.mark.anyio
LOCATE: dict[str, object] = {
    "name": "locate",
    "description": "Find out where the user is.",
    "parameters": {"type": "object", "properties": {"exact": {"type": "boolean"}}, "required": ["exact"]},
}
CALL = FunctionCall("locate", {"exact": True}, id="a")


def own_tools() -> ToolCollection[None]:
    tools = ToolCollection()
    tools.tool(name="own")(lambda: "fine")
    return tools


def chat_of(model: ScriptedProvider, scope: ClientTools | None = None) -> StreamingChat[ChatResponse, Paused]:
    return ChatBuilder().with_model(model).with_tools(own_tools()).with_scoped_tools(scope or ClientTools()).build()


async def test_model_receives_the_client_tools_after_the_tools_of_the_chat() -> None:
    model = ScriptedProvider("hello")
    messages = Messages()
    messages.user("hi", client_tools=[LOCATE])
    await chat_of(model).complete(messages)
    assert [item.name for item in model.asked[0].tools] == ["own", "locate"]


async def test_call_of_a_client_tool_waits_for_a_result_and_continues_in_another_process() -> None:
    messages = Messages()
    messages.user("Where am I?", client_tools=[LOCATE])
    outcome = await chat_of(ScriptedProvider(CALL), ClientTools(expires_in=timedelta(hours=1))).complete(messages)
    assert isinstance(outcome, Paused)
    assert outcome.waiting[0].kind == "result"
    assert outcome.waiting[0].expires_at is not None
    elsewhere = Messages.from_json(messages.to_json())
    elsewhere.tool("a").complete({"city": "Nantes"}, by="browser")
    model = ScriptedProvider("In Nantes.")
    assert isinstance(await chat_of(model).complete(elsewhere), ChatResponse)
    assert [item.name for item in model.asked[0].tools] == ["own", "locate"]


async def test_client_tools_are_not_sent_after_the_next_user_turn() -> None:
    model = ScriptedProvider("hello", "again")
    messages = Messages()
    messages.user("hi", client_tools=[LOCATE])
    chat = chat_of(model)
    await chat.complete(messages)
    messages.user("and now?")
    await chat.complete(messages)
    assert [item.name for item in model.asked[1].tools] == ["own"]


async def test_client_tool_call_with_invalid_arguments_fails_without_waiting() -> None:
    messages = Messages()
    messages.user("hi", client_tools=[LOCATE])
    outcome = await chat_of(ScriptedProvider(FunctionCall("locate", {}, id="a"), "sorry")).complete(messages)
    assert isinstance(outcome, ChatResponse)
    assert "exact" in messages.tool("a").result_text()


async def test_client_tool_with_the_name_of_a_chat_tool_raises_before_the_request() -> None:
    model = ScriptedProvider("hello")
    messages = Messages()
    messages.user("hi", client_tools=[{**LOCATE, "name": "own"}])
    with pytest.raises(UsageError, match="both have a tool named 'own'"):
        await chat_of(model).complete(messages)
    assert model.asked == []


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"name": "a b"},
        {"name": "f", "parameters": []},
        {"name": "f", "description": 1},
        {"name": "f", "parameters": {"type": "object", "properties": {"a": {"pattern": "("}}}},
    ],
)
async def test_invalid_client_tool_declaration_raises(declared: dict[str, object]) -> None:
    messages = Messages()
    messages.user("hi", client_tools=[declared])
    with pytest.raises(UsageError):
        await chat_of(ScriptedProvider("hello")).complete(messages)


async def test_two_client_tools_with_the_same_name_raise() -> None:
    messages = Messages()
    messages.user("hi", client_tools=[LOCATE, LOCATE])
    with pytest.raises(UsageError, match="both have a tool named 'locate'"):
        await chat_of(ScriptedProvider("hello")).complete(messages)


async def test_more_client_tools_than_max_tools_raise() -> None:
    scope = ClientTools(max_tools=2)
    tools = [{**LOCATE, "name": f"f{number}"} for number in range(3)]
    assert [item.declaration.name for item in scope.with_declarations(tools[:2]).definitions()] == ["f0", "f1"]
    with pytest.raises(UsageError, match="declares 3 tools, but 2 are allowed"):
        scope.with_declarations(tools)


async def test_chat_without_client_tools_raises_and_names_the_remedy() -> None:
    messages = Messages()
    messages.user("hi", client_tools=[LOCATE])
    with pytest.raises(UsageError, match=r"with_scoped_tools\(ClientTools\(\)\)"):
        await ChatBuilder().with_model(ScriptedProvider("hello")).build().complete(messages)


def test_client_tool_declarations_are_stored_with_their_turn() -> None:
    messages = Messages()
    messages.user("hi", client_tools=[LOCATE])
    turn = json.loads(messages.to_json())["contents"][0]["turns"][0]
    assert turn["client_tools"] == [LOCATE]
    assert Messages.from_json(messages.to_json()) == messages
