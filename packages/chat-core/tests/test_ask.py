"""Tests of `ask()`, which sends one prompt to a model."""

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


async def test_ask_sends_system_prompt_question_and_options_in_one_request() -> None:
    model = ScriptedProvider("Paris.")

    answer: ChatResponse = await ask(
        model, "What is the capital of France?", system="Be brief.", options=ChatOptions(temperature=0)
    )

    assert answer.text == "Paris."
    assert [content.role for content in model.asked[0].messages] == ["system", "user"]
    assert model.asked[0].options.temperature == 0


async def test_ask_returns_a_structured_response_for_an_output_type() -> None:
    answer: StructuredResponse[City] = await ask(ScriptedProvider('{"name": "Paris"}'), "Where?", output=City)

    assert answer.value == City("Paris")


async def test_ask_runs_tools() -> None:
    tools = ToolCollection()

    @tools.tool
    def clock() -> str:
        """Tell the time."""
        return "noon"

    assert (
        await ask(ScriptedProvider(FunctionCall("clock"), "It is noon."), "Time?", tools=tools)
    ).text == "It is noon."


async def test_ask_closes_a_model_that_it_loaded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_ask_refuses_an_unknown_provider_name() -> None:
    with pytest.raises(UnknownModelError, match="no provider 'nobody'"):
        await ask("nobody:x", "hi")
