"""Instructions: evaluated once at the start of each run, in a fixed order, and never stored."""

from __future__ import annotations

from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    FunctionCall,
    Instructions,
    Messages,
    Paused,
    RequireApproval,
    RunContext,
    ScopedCollection,
    ToolCollection,
    UsageError,
)
from chat_core.testing import MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio


def sent(model: ScriptedProvider) -> list[object]:
    return [asked.options.instructions for asked in model.asked]


async def test_instruction_texts_precede_the_results_of_functions() -> None:
    async def owner(context: RunContext) -> str:
        return f"The user is {context.owner}."

    model = ScriptedProvider("done", "done")
    chat = (
        ChatBuilder()
        .with_instructions(owner)
        .with_instructions("Be kind.")
        .with_model(model)
        .with_instructions(lambda _: "")
        .with_instructions(lambda context: f"Conversation {context.conversation_id}.")
        .with_instructions("Be brief.")
        .with_options(ChatOptions(instructions="Use metric units."))
        .build()
    )

    await chat.complete(MemoryConversation(Messages.from_user("hi"), id="c1", owner="ana"))
    await chat.complete(Messages.from_user("hi"), options=ChatOptions(instructions="Use miles."))

    fixed = "Be kind.\n\nBe brief.\n\n"
    assert sent(model) == [
        Instructions(f"{fixed}Use metric units.", "The user is ana.\n\nConversation c1."),
        Instructions(f"{fixed}Use miles.", "The user is None.\n\nConversation None."),
    ]


async def test_instructions_given_only_as_an_option_are_sent_unchanged() -> None:
    model = ScriptedProvider("done", "done")
    chat = ChatBuilder().with_model(model).with_options(ChatOptions(instructions="Be kind.")).build()

    await chat.complete(Messages.from_user("hi"))
    await chat.complete(Messages.from_user("hi"), options=ChatOptions(instructions=Instructions("a", "b")))

    assert sent(model) == ["Be kind.", Instructions("a", "b")]


async def test_instruction_functions_are_called_once_per_run_and_again_when_it_resumes() -> None:
    calls: list[str] = []
    tools = ToolCollection()

    @tools.tool
    def pay() -> str:
        return "paid"

    def count(context: RunContext) -> str:
        calls.append(context.run_id)
        return f"Run {len(calls)}."

    model = ScriptedProvider(FunctionCall("pay"), FunctionCall("pay"), "done", by_history=True)
    decided = 0

    def policy(_call: FunctionCall, _meta: None) -> RequireApproval:
        return RequireApproval()

    chat = (
        ChatBuilder()
        .with_model(model)
        .with_scoped_tools(ScopedCollection(tools, policy))
        .with_instructions("Fixed.")
        .with_instructions(count)
        .build()
    )
    messages = Messages.from_user("hi")
    while isinstance(paused := await chat.complete(messages), Paused):
        decided += 1
        messages.tool(paused.waiting[0].tool_id).approve()
        messages = Messages.from_json(messages.to_json())

    assert decided == 2
    assert len(set(calls)) == 3
    assert sent(model) == [Instructions("Fixed.", f"Run {number}.") for number in (1, 2, 3)]
    assert "Fixed" not in messages.to_json()
    assert "Run " not in messages.to_json()


async def test_an_inner_chat_does_not_inherit_the_instructions_of_the_outer_chat() -> None:
    inner = ScriptedProvider("answer")
    outer = ScriptedProvider(FunctionCall("ask", {"request": "?"}), "done")
    helper = ChatBuilder().with_model(inner).with_instructions(lambda context: f"Inner for {context.owner}.").build()
    chat = (
        ChatBuilder()
        .with_model(outer)
        .with_scoped_tools(helper.as_tool(name="ask", description="Ask."))
        .with_instructions("Outer.")
        .build()
    )

    await chat.complete(Messages.from_user("hi"), owner="ana")

    assert sent(inner) == [Instructions("", "Inner for ana.")]
    assert sent(outer) == [Instructions("Outer.")] * 2


@pytest.mark.parametrize("returned", [None, 7, ["text"]])
async def test_an_instruction_function_must_return_a_text(returned: Any) -> None:
    def broken(_: RunContext) -> Any:
        return returned

    model = ScriptedProvider("never")
    chat = ChatBuilder().with_model(model).with_instructions(broken).build()

    with pytest.raises(UsageError, match=r"the instructions function .*broken must return a string, not .*; return ''"):
        await chat.complete(Messages.from_user("hi"))
    assert model.asked == []


async def test_an_error_of_an_instruction_function_ends_the_run_before_any_request() -> None:
    def broken(_: RunContext) -> str:
        msg = "no profile"
        raise LookupError(msg)

    model = ScriptedProvider("never")
    chat = ChatBuilder().with_model(model).with_instructions(broken).build()
    messages = Messages.from_user("hi")

    with pytest.raises(LookupError, match="no profile"):
        await chat.complete(messages)
    assert (model.asked, len(messages)) == ([], 1)
    await ChatBuilder().with_model(ScriptedProvider("done")).build().complete(messages)
