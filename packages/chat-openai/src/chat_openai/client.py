"""The providers of this package: a wire, and what its builder was told besides."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import fields, replace
from types import TracebackType
from typing import Any, Self, TypeAlias, final

from chat_completions import CompletionsOptions, CompletionsProvider
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions, ProviderOptions
from chat_core.provider import (
    NO_TOOLS,
    EmbeddingsResponse,
    OutputSchema,
    ProviderMeta,
    ProviderStream,
    ToolDeclarations,
)
from chat_core.wire.shapes import is_mapping
from chat_responses import ResponsesOptions, ResponsesProvider

Extras: TypeAlias = ResponsesOptions | CompletionsOptions


class _Provider:
    """What all of them do."""

    __slots__ = ("_wire",)

    def __init__(self, wire: ResponsesProvider | CompletionsProvider) -> None:
        self._wire = wire

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wire!r})"

    @property
    def metadata(self) -> ProviderMeta:
        """What this provider is."""
        return self._wire.metadata

    async def aclose(self) -> None:
        """Close the transport, if this provider made it. Closing twice is allowed."""
        await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Chats(_Provider):
    """What those that chat do."""

    __slots__ = ("_extras",)

    def __init__(self, wire: ResponsesProvider | CompletionsProvider, extras: Extras | None = None) -> None:
        """`extras` go with every request; those of a run go over them."""
        super().__init__(wire)
        self._extras = extras

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Ask once. The turn's tools are `Pending`.

        Raises:
            ChatError: with whatever usage was reported.
        """
        return await self._wire.complete(messages, tools, self._with_extras(options), structured_output)

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Ask once, and listen. Leaving the block closes the connection at once.

        Raises:
            ChatError: on entering, when the request is refused.
        """
        return self._wire.stream(messages, tools, self._with_extras(options), structured_output)

    def _with_extras(self, options: ChatOptions) -> ChatOptions:
        extras = self._extras
        return options if extras is None else replace(options, extras=over(options.extras, extras))


@final
class OpenAIProvider(_Chats):
    """A model of OpenAI or Azure on the Responses wire: it completes, streams and counts. The builders make it.

    Immutable and safe to share between tasks. As an async context manager it closes its transport on leaving, if it
    made it; one that was passed in stays open.
    """

    __slots__ = ("_counts",)

    def __init__(self, wire: ResponsesProvider, extras: ResponsesOptions | None = None) -> None:
        super().__init__(wire, extras)
        self._counts = wire

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = NO_TOOLS,
        options: ChatOptions = ChatOptions(),  # noqa: B008 - immutable
        structured_output: OutputSchema | None = None,
    ) -> int:
        """How many tokens the same request would have, native tools included; nothing is answered.

        Raises:
            ChatError: the server does not say it.
        """
        return await self._counts.count_tokens(messages, tools, self._with_extras(options), structured_output)


@final
class OpenAICompletionsProvider(_Chats):
    """A model of OpenAI or Azure on the Chat Completions wire: it completes and streams. The builders make it.

    Shared and closed as an `OpenAIProvider` is.
    """

    __slots__ = ()


@final
class OpenRouterProvider(_Chats):
    """A model of OpenRouter, on either wire: it completes and streams. The builders make it.

    Shared and closed as an `OpenAIProvider` is.
    """

    __slots__ = ()


@final
class OpenAIEmbeddings(_Provider):
    """A model of OpenAI, Azure or OpenRouter that turns texts into vectors, and does nothing else."""

    __slots__ = ("_texts",)

    def __init__(self, wire: CompletionsProvider) -> None:
        super().__init__(wire)
        self._texts = wire

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """One request: n texts in, n vectors out, in order.

        Raises:
            ChatError: with whatever usage was reported.
        """
        return await self._texts.embed(texts, options)


def over(given: Sequence[ProviderOptions], defaults: Extras) -> tuple[ProviderOptions, ...]:
    """The extras of a run with `defaults` below those of the same class: lists join, and what is set wins."""
    kind = type(defaults)
    mine: ProviderOptions | None = None
    others: list[ProviderOptions] = []
    for extra in given:
        if isinstance(extra, kind):
            mine = extra
        else:
            others.append(extra)
    return (*others, defaults if mine is None else _joined(mine, defaults))


def _joined(mine: Any, defaults: Extras) -> Any:  # noqa: ANN401 - the class of the defaults
    changes: dict[str, object] = {}
    for item in fields(defaults):
        usual: Any = getattr(defaults, item.name)
        own: Any = getattr(mine, item.name)
        if usual in (None, ()) or item.name == "provider":
            continue
        if own is None:
            changes[item.name] = usual
        elif isinstance(usual, tuple):
            changes[item.name] = usual + tuple([entry for entry in own if entry not in usual])
        elif is_mapping(usual):
            changes[item.name] = {**usual, **own}
    return replace(mine, **changes)
