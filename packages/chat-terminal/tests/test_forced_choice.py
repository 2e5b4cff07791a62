"""Forced tool choice in the first step only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from chat_core import ChatBuilder, ChatOptions, FunctionCall, Messages, ToolCollection
from chat_core.testing import ScriptedProvider
from chat_terminal.forced_choice import FirstStepToolChoice

pytestmark = pytest.mark.anyio


def tools() -> ToolCollection[None]:
    made = ToolCollection()

    @made.tool
    async def pay(to: str) -> str:
        return f"paid {to}"

    return made


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_forced_choice_ends_after_the_first_call(*, streaming: bool) -> None:
    model = ScriptedProvider([FunctionCall("pay", {"to": "Bo"})], "Done.", "You are welcome.")
    chat = (
        ChatBuilder()
        .with_model(FirstStepToolChoice(model))
        .with_tools(tools())
        .with_options(ChatOptions(tool_choice="required"))
        .build()
    )
    messages = Messages()
    for question in ("Pay Bo.", "Thank you."):
        messages.user(question)
        if streaming:
            async with chat.stream(messages) as events:
                async for _ in events:
                    pass
        else:
            await chat.complete(messages)

    assert [call.options.tool_choice for call in model.asked] == ["required", "auto", "required"]


@pytest.mark.parametrize("choice", [None, "none", "auto"])
async def test_other_choices_are_unchanged(choice: str | None) -> None:
    model = ScriptedProvider([FunctionCall("pay", {"to": "Bo"})], "Done.")
    options = ChatOptions() if choice is None else ChatOptions(tool_choice="none" if choice == "none" else "auto")
    chat = ChatBuilder().with_model(FirstStepToolChoice(model)).with_tools(tools()).with_options(options).build()
    await chat.complete(Messages.from_user("Pay Bo."))

    assert [call.options.tool_choice for call in model.asked] == [choice, choice]


async def test_metadata_and_close_are_delegated() -> None:
    closed: list[bool] = []

    async def close() -> None:
        closed.append(True)

    metadata = ScriptedProvider("Hello.").metadata
    model: Any = SimpleNamespace(metadata=metadata, aclose=close)
    assert FirstStepToolChoice(model).metadata is metadata
    await FirstStepToolChoice(model).aclose()
    assert closed == [True]


async def test_close_accepts_models_without_aclose() -> None:
    model = ScriptedProvider("Hello.")
    assert not hasattr(model, "aclose")
    freed = FirstStepToolChoice(model)
    await freed.aclose()

    answer = await ChatBuilder().with_model(freed).build().complete(Messages.from_user("Hi."))
    assert answer.text == "Hello."
