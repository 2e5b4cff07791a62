"""A run appends posted input before a model call, and a failed model call leaves the conversation at rest."""

from __future__ import annotations

from datetime import datetime

import pytest
from chat_core import (
    ChatBuilder,
    ClientTools,
    Delivery,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.errors import ChatError, InvalidResponseError
from chat_core.messages import Text, Turn
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call

pytestmark = pytest.mark.anyio


def conversation(messages: Messages, *posts: str) -> MemoryConversation:
    made = MemoryConversation(messages)
    made.posts += [Turn([Text(text)]) for text in posts]
    return made


def with_client_tool(text: str) -> Turn:
    declaration = {"name": "locate", "description": "Return the position.", "parameters": {"type": "object"}}
    return Turn([Text(text)], client_tools=[declaration])


def posted(target: MemoryConversation) -> list[str]:
    return [part.text for turn in target.posts for part in turn.parts if isinstance(part, Text)]


def said(messages: Messages) -> list[str]:
    return [f"{content.role}: {part.text}" for content in messages for part in content.parts if isinstance(part, Text)]


async def test_posted_input_is_sent_with_the_next_request() -> None:
    target = conversation(Messages.from_user("One?"), "Two?")

    await ChatBuilder().with_model(ScriptedProvider("Yes.")).build().complete(target)

    assert said(target.messages) == ["user: One?", "user: Two?", "model: Yes."]
    assert said(target.resting()) == said(target.messages)


async def test_client_tools_of_posted_input_are_declared_to_the_model() -> None:
    model = ScriptedProvider("Hello.", FunctionCall("locate", {}, id="1"), "Berlin.", "Bye.")
    chat = ChatBuilder().with_model(model).with_scoped_tools(ClientTools()).build()
    target = conversation(Messages.from_user("Hi."))
    await chat.complete(target)
    target.posts.append(with_client_tool("Where am I?"))

    pause = await chat.complete(target)

    assert isinstance(pause, Paused)
    assert [wait.name for wait in pause.waiting] == ["locate"]
    target.messages.tool("1").complete("Berlin")
    target.posts.append(Turn([Text("Bye.")]))
    await chat.complete(target)

    assert [[tool.name for tool in asked.tools] for asked in model.asked] == [[], ["locate"], []]


async def test_client_tools_of_input_posted_during_a_run_are_declared_to_the_model() -> None:
    tools = ToolCollection()
    target = conversation(Messages.from_user("Look."))

    @tools.tool
    def look() -> str:
        """Look, while the client posts another message."""
        target.posts.append(with_client_tool("Where am I?"))
        return "dark"

    model = ScriptedProvider(FunctionCall("look", {}, id="1"), "Here.")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_scoped_tools(ClientTools()).build()
    await chat.complete(target)

    assert [[tool.name for tool in asked.tools] for asked in model.asked] == [["look"], ["look", "locate"]]


async def test_posted_input_follows_a_stored_response_that_needs_no_delivery() -> None:
    target = conversation(Messages.from_user("One?"))
    chat = ChatBuilder().with_model(ScriptedProvider("Yes.", "No.")).build()
    await chat.complete(target)
    target.posts.append(Turn([Text("Two?")]))

    response = await chat.complete(target)

    assert response.text == "No."
    assert said(target.messages) == ["user: One?", "model: Yes.", "user: Two?", "model: No."]


async def test_posted_input_waits_until_the_after_hooks_of_a_response_succeed() -> None:
    delivered: list[str] = []
    failures = [RuntimeError("down")]

    def hook(_: Messages, delivery: Delivery) -> None:
        if failures:
            raise failures.pop()
        delivered.append(delivery.key)

    target = conversation(Messages.from_user("One?"))
    chat = ChatBuilder().with_model(ScriptedProvider("Yes.", "No.")).with_after(hook).build()
    with pytest.raises(RuntimeError):
        await chat.complete(target)
    assert target.looked_at is None
    target.posts.append(Turn([Text("Two?")]))

    first = await chat.complete(target)
    second = await chat.complete(target)

    assert [first.text, second.text] == ["Yes.", "No."]
    assert len(set(delivered)) == 2


async def test_posted_input_waits_until_a_waiting_call_is_decided() -> None:
    tools = ToolCollection()

    @tools.tool
    def pay() -> str:
        """Pay."""
        return "paid"

    def policy(call: FunctionCall, meta: None) -> RequireApproval:
        return RequireApproval()

    model = ScriptedProvider(FunctionCall("pay", {}, id="1"), "Done.")
    chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()
    target = conversation(Messages.from_user("Pay."))
    assert isinstance(await chat.complete(target), Paused)
    target.posts.append(Turn([Text("And?")]))

    assert isinstance(await chat.complete(target), Paused)
    assert posted(target) == ["And?"]
    target.messages.tool("1").approve()
    await chat.complete(target)

    assert said(target.messages)[-2:] == ["user: And?", "model: Done."]


async def test_posted_input_does_not_separate_a_paused_response_from_its_continuation() -> None:
    messages = Messages.from_user("Search.")
    messages.append("model", Turn([Text("Searching")], finish_reason="pause"))
    target = conversation(messages, "And?")

    await ChatBuilder().with_model(ScriptedProvider("Found.")).build().complete(target)

    assert posted(target) == ["And?"]


async def test_a_conversation_is_marked_as_looked_at_after_a_failed_model_call() -> None:
    now = datetime.fromisoformat("2030-01-01T09:00:00+00:00")
    model = ScriptedProvider(InvalidResponseError("nonsense"))
    target = conversation(Messages.from_user("One?"))

    with pytest.raises(ChatError):
        await ChatBuilder().with_model(model).with_clock(lambda: now).build().complete(target)

    assert target.looked_at == now


async def test_a_run_that_lost_its_lease_does_not_mark_the_conversation_as_looked_at() -> None:
    target = conversation(Messages.from_user("One?"))

    def overtake(call: Call) -> None:
        if call.operation == "write_turn":
            target.overtake()

    target.on_call = overtake

    with pytest.raises(ChatError):
        await ChatBuilder().with_model(ScriptedProvider("Yes.")).build().complete(target)

    assert target.looked_at is None
