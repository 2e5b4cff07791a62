"""Token counts of the next request."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ClientTools,
    Instructions,
    Messages,
    OutputSchema,
    ProviderMeta,
    RunContext,
    TokenCount,
    ToolCollection,
    ToolDeclarations,
    UsageError,
)
from chat_core.messages.token_estimate import TURN_TOKENS, estimate_text
from chat_core.testing import ScriptedProvider
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio


class Counting:
    """A provider that counts."""

    def __init__(self) -> None:
        self.complete = ScriptedProvider().complete
        self.metadata = ProviderMeta("counting")

    async def count_tokens(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> int:
        assert structured_output is not None
        assert options == ChatOptions(seed=1, top_p=0.5)
        return len(messages) * 100 + len(tools)


class CountingInstructions:
    """A provider that records the instructions that it counts."""

    def __init__(self) -> None:
        self.complete = ScriptedProvider().complete
        self.metadata = ProviderMeta("counting")
        self.instructions: list[object] = []

    async def count_tokens(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> int:
        del messages, tools, structured_output
        self.instructions.append(options.instructions)
        return 7


async def _greeting(run: RunContext) -> str:
    return f"The user is {run.owner}."


tools = ToolCollection()


@tools.tool
def clock() -> str:
    """Tell the time."""
    return "noon"


async def test_the_provider_counts_the_whole_request() -> None:
    builder = ChatBuilder().with_model(Counting()).with_options(ChatOptions(seed=1)).with_tools(tools)
    chat = builder.with_structured_output(list[int]).build()

    count = await chat.count_tokens(Messages.from_user("hi"), options=ChatOptions(top_p=0.5))

    assert count == TokenCount(101, exact=True)
    assert chat.blocking.count_tokens(Messages.from_user("hi"), options=ChatOptions(top_p=0.5)) == count


async def test_an_estimate_is_marked_as_inexact_and_includes_tools_and_schema() -> None:
    ready = ChatBuilder().with_model(ScriptedProvider())
    messages = Messages.from_user("What time is it?")

    plain = await ready.build().count_tokens(messages)
    with_tools = await ready.with_tools(tools).build().count_tokens(messages)
    with_schema = await ready.with_structured_output(list[int]).build().count_tokens(messages)

    assert not plain.exact
    assert plain.tokens < with_tools.tokens
    assert plain.tokens < with_schema.tokens


async def test_the_provider_counts_instructions() -> None:
    model = CountingInstructions()
    chat = ChatBuilder().with_model(model).with_instructions("Be kind.").with_instructions(_greeting).build()

    count = await chat.count_tokens(Messages.from_user("hi"), owner="ana")

    assert count == TokenCount(7, exact=True)
    assert model.instructions == [Instructions("Be kind.", "The user is ana.")]
    with pytest.raises(UsageError, match="owner of count_tokens"):
        await chat.count_tokens(Messages.from_user("hi"), owner=1)  # type: ignore[arg-type]  # wrong on purpose


async def test_an_estimate_includes_instructions() -> None:
    text = "Answer in one sentence. " * 100
    ready = ChatBuilder().with_model(ScriptedProvider())
    messages = Messages.from_user("hi")

    plain = await ready.build().count_tokens(messages)
    counts = [
        await ready.with_instructions(text).build().count_tokens(messages),
        await ready.with_instructions(lambda run: text).build().count_tokens(messages),
        await ready.build().count_tokens(messages, options=ChatOptions(instructions=text)),
        await ready.build().count_tokens(Messages.from_system(text).user("hi")),
    ]

    assert [count.tokens - plain.tokens for count in counts[:3]] == [estimate_text(text) + TURN_TOKENS] * 3
    assert counts[3].tokens >= counts[0].tokens


async def test_instructions_are_counted_with_the_values_of_the_chat() -> None:
    closed: list[str] = []

    @asynccontextmanager
    async def name(run: RunContext) -> AsyncGenerator[str]:
        assert run.owner == "ana"
        yield "ana, who lives in Nantes"
        closed.append("name")

    ready = ChatBuilder().with_model(ScriptedProvider()).with_instructions(lambda run: f"The user is {run.values[str]}")
    messages = Messages.from_user("hi")

    made = await ready.with_values(str, name).build().count_tokens(messages, owner="ana")
    passed = await ready.build().count_tokens(messages, inject={str: "ana, who lives in Nantes"})

    assert made == passed
    assert closed == ["name"]
    with pytest.raises(UsageError, match="no value of the type str"):
        await ready.build().count_tokens(messages)


async def test_client_tools_of_the_last_user_turn_are_counted() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider()).with_scoped_tools(ClientTools()).build()
    declared = Messages()
    declared.user("hi", client_tools=[{"name": "locate", "description": "Find the position."}])

    plain = await chat.count_tokens(Messages.from_user("hi"))
    assert (await chat.count_tokens(declared)).tokens > plain.tokens


async def test_count_tokens_refuses_arguments_that_are_not_messages() -> None:
    with pytest.raises(UsageError, match=r"count_tokens\(\) needs Messages"):
        await ChatBuilder().with_model(ScriptedProvider()).build().count_tokens("hi")  # type: ignore[arg-type]  # wrong on purpose


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_token_estimate_does_not_decrease_with_more_text(first: str, second: str) -> None:
    chat = ChatBuilder().with_model(ScriptedProvider()).build()

    less = chat.blocking.count_tokens(Messages.from_user(first))
    more = chat.blocking.count_tokens(Messages.from_user(first + second))

    assert 0 < less.tokens <= more.tokens
