"""The function `ask()`, which sends one prompt to a model."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from typing_extensions import TypeForm

from chat_core.builder import ChatBuilder
from chat_core.messages import Messages
from chat_core.models import model as model_by_name
from chat_core.options import ChatOptions
from chat_core.provider import CompletionProvider
from chat_core.response import ChatResponse, StructuredResponse
from chat_core.tools.collection import ToolCollection

ValueT = TypeVar("ValueT")


@overload
async def ask(
    model: CompletionProvider | str,
    prompt: str,
    /,
    *,
    system: str | None = None,
    tools: ToolCollection[Any] | None = None,
    options: ChatOptions | None = None,
) -> ChatResponse: ...
@overload
async def ask(
    model: CompletionProvider | str,
    prompt: str,
    /,
    *,
    output: TypeForm[ValueT],
    system: str | None = None,
    tools: ToolCollection[Any] | None = None,
    options: ChatOptions | None = None,
) -> StructuredResponse[ValueT]: ...
async def ask(
    model: CompletionProvider | str,
    prompt: str,
    /,
    *,
    output: Any = None,
    system: str | None = None,
    tools: ToolCollection[Any] | None = None,
    options: ChatOptions | None = None,
) -> Any:
    """Send one prompt to a model and return the response. Tools run without approval.

    Args:
        model: a provider, or a model name for `chat_core.model()`. A provider created from a name is closed at the end.
        prompt: text of the user message.
        output: type of the structured output. By default, the response is text.
        system: instructions for the model.
        tools: tools that the model may call.
        options: settings of the request, such as `temperature`.

    Raises:
        UsageError: the model is unknown.
        ChatError: the run failed.
    """
    builder = ChatBuilder().with_model(model_by_name(model) if isinstance(model, str) else model)
    if tools is not None:
        builder = builder.with_tools(tools)
    messages = Messages() if system is None else Messages.from_system(system)
    messages.user(prompt)
    chat: Any = (builder if output is None else builder.with_structured_output(output)).build()
    try:
        return await chat.complete(messages, options=options)
    finally:
        if isinstance(model, str):
            await chat.aclose()
