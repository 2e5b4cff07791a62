"""Selection of the models that may serve a request, and the options that they receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ContextLengthError,
    File,
    FunctionCall,
    Messages,
    ProviderMeta,
    Tool,
    ToolCollection,
    ToolDeclarations,
    Turn,
    UnsupportedOptionError,
)
from chat_core.provider import Abilities
from chat_router import NoCapableModelError, Router
from chat_router.abilities import fits, needed_abilities, united
from router_helpers import asked, model

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class SomeOptions:
    provider: str = "some"


@dataclass(frozen=True)
class OtherOptions:
    provider: str = "other"


def with_file(mime: str) -> Messages:
    return Messages.from_user("What is this?").file(File(mime, data=b"12"))


@pytest.mark.parametrize(
    ("mime", "ability"), [("image/png", "images"), ("audio/wav", "audio"), ("application/pdf", "documents")]
)
async def test_a_file_is_sent_only_to_models_that_accept_its_kind(mime: str, ability: str) -> None:
    refusing = model("a", "no", abilities=Abilities(**{ability: False}))
    unknown = model("b", "yes")
    chat = ChatBuilder().with_model(Router([refusing, unknown])).build()
    assert (await chat.complete(with_file(mime))).text == "yes"
    assert (await chat.complete(Messages.from_user("hi"))).text == "no"


async def test_tools_go_only_to_models_that_do_not_refuse_tools() -> None:
    tools = ToolCollection()

    @tools.tool
    def now() -> str:
        """The time."""
        return "noon"

    refusing, other = model("a", "no", abilities=Abilities(tools=False)), model("b", "yes")
    chat = ChatBuilder().with_model(Router([refusing, other])).with_tools(tools).build()
    assert (await chat.complete(Messages.from_user("hi"))).text == "yes"
    assert asked(refusing, other) == [0, 1]


async def test_a_request_that_no_model_can_serve_is_not_sent() -> None:
    models = [model(name, abilities=Abilities(images=False)) for name in "ab"]
    chat = ChatBuilder().with_model(Router(models)).build()
    with pytest.raises(NoCapableModelError, match="needs images, and no model of the router supports this: a/m, b/m"):
        await chat.complete(with_file("image/png"))
    assert asked(*models) == [0, 0]


async def test_a_model_that_cannot_stream_receives_no_streamed_request() -> None:
    silent, other = model("a", "whole", abilities=Abilities(streaming=False)), model("b", "streamed")
    chat = ChatBuilder().with_model(Router([silent, other])).build()
    async with chat.stream(Messages.from_user("hi")) as run:
        assert [event async for event in run]
    assert (await chat.complete(Messages.from_user("hi"))).text == "whole"
    assert asked(silent, other) == [1, 1]


def test_a_text_file_needs_no_ability_and_a_file_of_a_tool_result_does() -> None:
    tool = Tool(FunctionCall("draw", {}))
    tool.start()
    tool.complete("done", files=(File("image/png", data=b"12"),))
    messages = with_file("text/plain")
    assert needed_abilities(messages, ToolDeclarations(), streamed=True) == {"streaming"}
    messages.append("model", Turn([tool], finish_reason="tool_calls"))
    assert needed_abilities(messages, ToolDeclarations(), streamed=False) == {"images"}


def test_the_abilities_of_a_router_are_those_of_any_model() -> None:
    some = Abilities(tools=True, images=False, audio=None, context_window=100)
    other = Abilities(tools=False, images=False, audio=False, context_window=None)
    assert united([some, other]) == Abilities(tools=True, images=False, audio=None, context_window=100)


async def test_provider_options_go_only_to_the_models_that_accept_them() -> None:
    some = model("a", "yes", extras=(SomeOptions,))
    other = model("b", "yes", extras=(OtherOptions,))
    named = model("some", "yes")
    options: Any = ChatOptions(extras=(SomeOptions(), OtherOptions()), temperature=0.5)
    for number, item in enumerate([some, other, named]):
        order = [item, *[each for each in (some, other, named) if each is not item]]
        chat = ChatBuilder().with_model(Router(order)).with_options(options).build()
        await chat.complete(Messages.from_user("hi"))
        received = item.asked[0].options
        assert [type(extra) for extra in received.extras] == [[SomeOptions], [OtherOptions], [SomeOptions]][number]
        assert received.temperature == 0.5


async def test_options_that_no_model_accepts_are_refused() -> None:
    only = model("a", "yes", extras=(SomeOptions,))
    chat = ChatBuilder().with_model(Router([only])).with_options(ChatOptions(extras=(OtherOptions(),))).build()
    with pytest.raises(UnsupportedOptionError, match="none of these models accepts OtherOptions: a/m"):
        await chat.complete(Messages.from_user("hi"))
    assert asked(only) == [0]


@pytest.mark.parametrize(
    ("failed", "other", "expected"), [(100, 200, True), (100, 100, False), (None, 5, True), (5, None, True)]
)
def test_a_conversation_that_is_too_long_may_fit_into_a_larger_window(
    failed: int | None, other: int | None, *, expected: bool
) -> None:
    metas = [ProviderMeta("a", abilities=Abilities(context_window=size)) for size in (failed, other)]
    assert fits(ContextLengthError("too long"), *metas) is expected
    assert fits(ValueError(), *metas)


async def test_a_model_with_a_smaller_window_is_not_asked_after_a_larger_one_refused() -> None:
    large = model("large", ContextLengthError("too long"), abilities=Abilities(context_window=200))
    small = model("small", "no", abilities=Abilities(context_window=100))
    with pytest.raises(ContextLengthError):
        await ChatBuilder().with_model(Router([large, small])).build().complete(Messages.from_user("hi"))
    assert asked(large, small) == [1, 0]
