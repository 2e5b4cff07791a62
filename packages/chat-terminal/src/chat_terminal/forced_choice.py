"""A model that must call a tool, but not for ever."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import final

from chat_core import ChatOptions, ChatProvider, Messages
from chat_core.messages import Turn
from chat_core.provider import OutputSchema, ProviderMeta, ProviderStream, ToolDeclarations


@final
@dataclass(frozen=True)
class Freed:
    """A model that is asked for a call in the first step of an answer alone, and is free from then on.

    The options of a chat hold for each step of a run: a model that must call would do so until the steps are used up.
    """

    model: ChatProvider

    @property
    def metadata(self) -> ProviderMeta:
        """That of the model."""
        return self.model.metadata

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Ask the model."""
        return await self.model.complete(messages, tools, _freed(options, messages), structured_output)

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Ask the model, and listen."""
        return self.model.stream(messages, tools, _freed(options, messages), structured_output)

    async def aclose(self) -> None:
        """Close the model, where there is something to close."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()


def _freed(options: ChatOptions, messages: Messages) -> ChatOptions:
    last = messages.last
    called = last is not None and last.role == "model" and bool(last.tools)
    return replace(options, tool_choice="auto") if called and options.tool_choice not in {None, "none"} else options
