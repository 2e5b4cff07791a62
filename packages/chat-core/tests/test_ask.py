"""One question to a model, in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from chat_core import (
    ChatOptions,
    ChatResponse,
    FunctionCall,
    StructuredResponse,
    ToolCollection,
    UnknownModelError,
    ask,
)
from chat_core.testing import ScriptedProvider

pytestmark = pytest.mark.anyio


@dataclass
class City:
    name: str


async def test_a_question_is_answered_in_one_call() -> None:
    model = ScriptedProvider("Paris.")

    answer: ChatResponse = await ask(
        model, "What is the capital of France?", system="Be brief.", options=ChatOptions(temperature=0)
    )

    assert answer.text == "Paris."
    assert [content.role for content in model.asked[0].messages] == ["system", "user"]
    assert model.asked[0].options.temperature == 0


async def test_an_answer_can_be_structured() -> None:
    answer: StructuredResponse[City] = await ask(ScriptedProvider('{"name": "Paris"}'), "Where?", output=City)

    assert answer.value == City("Paris")


async def test_tools_run() -> None:
    tools = ToolCollection()

    @tools.tool
    def clock() -> str:
        """Tell the time."""
        return "noon"

    assert (
        await ask(ScriptedProvider(FunctionCall("clock"), "It is noon."), "Time?", tools=tools)
    ).text == "It is noon."


async def test_a_model_can_be_named_and_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    class Closing:
        def __init__(self) -> None:
            inner = ScriptedProvider("hello")
            self.metadata, self.complete = inner.metadata, inner.complete

        async def aclose(self) -> None:
            closed.append(True)

    def load(_group: str, _vendor: str) -> Callable[[str], Closing]:
        return lambda _model: Closing()

    monkeypatch.setattr("chat_core.models._load_factory", load)

    assert (await ask("x:y", "hi")).text == "hello"
    assert closed == [True]


async def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownModelError, match="no provider 'nobody'"):
        await ask("nobody:x", "hi")
