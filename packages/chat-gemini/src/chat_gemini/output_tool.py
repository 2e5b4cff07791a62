"""Structured output as the arguments of a tool, for requests in which a model accepts no output schema next to tools.

Models before Gemini 3 reject a request that has function declarations and the response type `application/json`. Later
models reject it if the response must be a call.

Source: https://ai.google.dev/gemini-api/docs/structured-output (2026-11-29).
"""

from __future__ import annotations

from chat_core.options import ChatOptions
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations

from chat_gemini import model_texts
from chat_gemini.options import Dialect, GeminiOptions


def output_tool_name(
    tools: ToolDeclarations, output: OutputSchema | None, options: ChatOptions, dialect: Dialect
) -> str | None:
    """Return the name of the tool whose arguments are the structured output, or `None` if no such tool is needed.

    Args:
        tools: tools of the chat. None of them has the returned name.
        output: schema of the structured output, or `None` for text.
        options: settings of the request. With the function mode `ANY`, every model needs the tool.
        dialect: the request format of the model.
    """
    names = {tool.name for tool in tools.declared}
    extras = options.extra(GeminiOptions, dialect.provider)
    forced = extras is not None and extras.function_mode == "ANY"
    if output is None or not names or (dialect.schemas_with_tools and not forced):
        return None
    name = output.name
    while name in names:
        name += "_"
    return name


def with_output_tool(tools: ToolDeclarations, name: str, output: OutputSchema) -> ToolDeclarations:
    """Return the tools, followed by the tool for the structured output.

    Args:
        tools: tools of the chat.
        name: name of the tool for the structured output.
        output: schema of the structured output.
    """
    return ToolDeclarations([*tools, ToolDeclaration(name, model_texts.OUTPUT_TOOL, output.schema)])
