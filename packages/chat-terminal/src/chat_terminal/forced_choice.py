"""Provider wrapper that forces a tool call in the first step of a run only."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import final

from chat_core import ChatOptions, ChatProvider, Messages
from chat_core.messages import Turn
from chat_core.provider import OutputSchema, ProviderMeta, ProviderStream, ToolDeclarations


@final
@dataclass(frozen=True)
class FirstStepToolChoice:
    """Provider that relaxes a forced tool choice to `auto` after the first tool call.

    The options of a chat apply to every step of a run. A model that must call a tool would do so until the step limit.
    """

    model: ChatProvider

    @property
    def metadata(self) -> ProviderMeta:
        """The metadata of the wrapped provider."""
        return self.model.metadata

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `ChatProvider.complete`."""
        return await self.model.complete(messages, tools, _relax_tool_choice(options, messages), structured_output)

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Implement `StreamProvider.stream`."""
        return self.model.stream(messages, tools, _relax_tool_choice(options, messages), structured_output)

    async def aclose(self) -> None:
        """Close the wrapped provider, if it can be closed."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()


def _relax_tool_choice(options: ChatOptions, messages: Messages) -> ChatOptions:
    """Return the options, without a forced tool choice if the last turn is a model turn with tool calls."""
    last = messages.last
    called = last is not None and last.role == "model" and bool(last.tools)
    return replace(options, tool_choice="auto") if called and options.tool_choice not in {None, "none"} else options
