from __future__ import annotations

from collections.abc import Sequence

import pytest
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import (
    NO_TOOLS,
    ChatProvider,
    CompletionProvider,
    EmbeddingsProvider,
    EmbeddingsResponse,
    OutputSchema,
    ProviderMeta,
    StreamProvider,
    ToolDeclaration,
    ToolDeclarations,
)

A = ToolDeclaration("a", "first", {"type": "object"})
B = ToolDeclaration("b", "second", {"type": "object"})


class Completes:
    @property
    def metadata(self) -> ProviderMeta:
        return ProviderMeta("mine")

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        raise NotImplementedError


class Embeds:
    @property
    def metadata(self) -> ProviderMeta:
        return ProviderMeta("mine", "embedder", max_embedding_batch=10)

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        raise NotImplementedError


def test_provider_protocols_can_be_checked_with_isinstance() -> None:
    assert isinstance(Completes(), CompletionProvider)
    assert not isinstance(Completes(), (StreamProvider, ChatProvider, EmbeddingsProvider))
    assert isinstance(Embeds(), EmbeddingsProvider)
    assert not isinstance(Embeds(), CompletionProvider)


def test_provider_meta_has_default_fields() -> None:
    assert ProviderMeta("mine") == ProviderMeta("mine", "", "", 2048)


def test_tool_declarations_keep_the_order_of_registration() -> None:
    tools = ToolDeclarations([B, A])
    assert list(tools) == [B, A]
    assert (len(tools), tools[0], tools[-1], tools[:1]) == (2, B, A, (B,))
    assert A in tools
    assert len(NO_TOOLS) == 0
    with pytest.raises(IndexError):
        tools[2]


def test_tool_declarations_are_encoded_once_per_codec() -> None:
    tools, made = ToolDeclarations([A, B]), list[int]()

    def encode(items: Sequence[ToolDeclaration]) -> bytes:
        made.append(len(items))
        return ",".join([item.name for item in items]).encode()

    assert [tools.encoded("wire", encode) for _ in range(3)] == [b"a,b"] * 3
    assert tools.encoded("other", encode) == b"a,b"
    assert made == [2, 2]


def test_tool_declarations_do_not_change_with_the_list_they_were_made_from() -> None:
    items = [A]
    tools = ToolDeclarations(items)
    items.append(B)
    assert list(tools) == [A]


def test_declared_contains_the_tools_to_send_to_the_model() -> None:
    shown, hidden = [ToolDeclaration(name, "", {}, declared=name == "shown") for name in ("shown", "hidden")]
    every = ToolDeclarations([shown])

    assert every.declared is every, "with its cache"
    assert list(ToolDeclarations([hidden, shown]).declared) == [shown]
    assert not ToolDeclarations([hidden]).declared
