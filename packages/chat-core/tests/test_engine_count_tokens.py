"""Token counts of the next request."""

from __future__ import annotations

import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    Messages,
    OutputSchema,
    ProviderMeta,
    TokenCount,
    ToolCollection,
    ToolDeclarations,
    UsageError,
)
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


async def test_an_estimate_says_that_it_is_one_and_includes_tools_and_schema() -> None:
    ready = ChatBuilder().with_model(ScriptedProvider())
    messages = Messages.from_user("What time is it?")

    plain = await ready.build().count_tokens(messages)
    with_tools = await ready.with_tools(tools).build().count_tokens(messages)
    with_schema = await ready.with_structured_output(list[int]).build().count_tokens(messages)

    assert not plain.exact
    assert plain.tokens < with_tools.tokens
    assert plain.tokens < with_schema.tokens


async def test_only_messages_are_counted() -> None:
    with pytest.raises(UsageError, match=r"count_tokens\(\) needs Messages"):
        await ChatBuilder().with_model(ScriptedProvider()).build().count_tokens("hi")  # type: ignore[arg-type]


@given(st.text(min_size=1), st.text(min_size=1))
def test_more_text_is_never_estimated_as_less(first: str, second: str) -> None:
    chat = ChatBuilder().with_model(ScriptedProvider()).build()

    less = chat.blocking.count_tokens(Messages.from_user(first))
    more = chat.blocking.count_tokens(Messages.from_user(first + second))

    assert 0 < less.tokens <= more.tokens
