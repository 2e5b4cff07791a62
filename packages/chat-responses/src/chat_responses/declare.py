"""Encoder for tool declarations and for the tool choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from chat_core.errors import UnsupportedOptionError
from chat_core.json import dump_bytes
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import ToolDeclaration, ToolDeclarations
from chat_core.wire.shapes import Json, is_list, is_mapping
from chat_core.wire.strict import requires_all, strict_schema

from chat_responses.actions import declared_action
from chat_responses.options import ResponsesDialect, ResponsesOptions
from chat_responses.parts import MCP_APPROVAL

NAMED_TYPES: Final = frozenset({"function", "custom"})
"""Types of tools that the model calls by name."""


def encode_tools(tools: ToolDeclarations, extras: ResponsesOptions | None, dialect: ResponsesDialect) -> bytes:
    """Return the tool declarations as JSON objects joined by commas: the chat's tools, then raw tools from `extras`.

    A raw tool replaces the tool of the chat with the same name, for example to declare a custom tool, a deferred tool
    or a client action. The tool `mcp_approval` is never declared, because the model does not call it.

    Args:
        tools: tools of the chat.
        extras: options of the Responses API, with raw tools.
        dialect: settings of the provider.
    """
    raw = extras.tools if extras is not None else ()
    replaced = frozenset([MCP_APPROVAL, *tool_names(raw)])
    if any(item.name in replaced for item in tools):
        pieces = [_encode_functions([item for item in tools if item.name not in replaced], dialect)]
    else:
        pieces = [tools.encoded(dialect.tools_key, lambda items: _encode_functions(items, dialect))]
    pieces += [dump_bytes(tool) for tool in raw]
    return b",".join([piece for piece in pieces if piece])


def tool_names(raw: Iterable[object]) -> Iterator[str]:
    """Yield the names of raw tools, including tools in namespaces, and the names of tools that run client actions."""
    for tool in raw:
        if not is_mapping(tool):
            continue
        name = tool.get("name")
        if tool.get("type") in NAMED_TYPES and isinstance(name, str):
            yield name
        elif (action := declared_action(tool)) is not None:
            yield action
        elif is_list(inner := tool.get("tools")):
            yield from tool_names(inner)


def _encode_functions(items: Sequence[ToolDeclaration], dialect: ResponsesDialect) -> bytes:
    """Return the declarations of function tools as JSON objects joined by commas."""
    return b",".join([dump_bytes(_function_tool(item, dialect)) for item in items])


def _function_tool(item: ToolDeclaration, dialect: ResponsesDialect) -> Json:
    """Return the declaration of one function tool in the API's format."""
    function: Json = {"type": "function", "name": item.name}
    if item.description:
        function["description"] = item.description
    strict = _strict_parameters(item.parameters, dialect) if dialect.strict_tools else None
    function["parameters"] = item.parameters if strict is None else strict
    if strict is not None:
        function["strict"] = True
    elif dialect.say_strict:
        function["strict"] = False
    return function


def _strict_parameters(parameters: Mapping[str, object], dialect: ResponsesDialect) -> Mapping[str, object] | None:
    """Return the parameter schema for strict mode, or `None` if the tool cannot use strict mode."""
    if not dialect.strict_rewrite:
        return parameters
    # Strict mode requires all properties. Forcing it on a tool with default values would disable the defaults.
    return strict_schema(parameters) if requires_all(parameters) else None


def tool_choice_fields(options: ChatOptions, extras: ResponsesOptions | None, *, tools: bool) -> Json:
    """Return the request fields `tool_choice` and `parallel_tool_calls`, where they are needed.

    Args:
        options: settings of the request, such as `temperature`.
        extras: options of the Responses API.
        tools: whether the request has tools.

    Raises:
        UnsupportedOptionError: a call is required but there are no tools, or two choices contradict each other.
    """
    chosen = options.tool_choice
    raw = extras.tool_choice if extras is not None else None
    allowed = extras.allowed_tools if extras is not None else None
    if chosen is not None and raw is not None:
        msg = f"tool_choice={chosen!r} conflicts with tool_choice={dict(raw)!r} of ResponsesOptions: remove one of them"
        raise UnsupportedOptionError(msg)
    if not tools:
        if chosen == "required" or isinstance(chosen, NamedTool) or allowed is not None:
            msg = f"tool_choice={chosen!r} needs tools, but the request has none: add tools, or remove the choice"
            raise UnsupportedOptionError(msg)
        # Without tools, "auto" and "none" have no effect, and several servers reject the fields.
        return {} if raw is None else {"tool_choice": dict(raw)}
    fields: Json = {}
    if allowed is not None:
        fields["tool_choice"] = _allowed_tools_choice(allowed, options, extras)
    elif raw is not None:
        fields["tool_choice"] = dict(raw)
    elif isinstance(chosen, NamedTool):
        fields["tool_choice"] = _tool_choice_for(chosen.name, extras)
    elif chosen is not None:
        fields["tool_choice"] = chosen
    if options.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = options.parallel_tool_calls
    return fields


def _allowed_tools_choice(
    allowed: Sequence[str | Mapping[str, object]], options: ChatOptions, extras: ResponsesOptions | None
) -> Json:
    """Return the value of `tool_choice` that limits the model to the tools in `allowed`."""
    if options.tool_choice not in {None, "auto", "required"} or (extras is not None and extras.tool_choice is not None):
        msg = f"allowed_tools needs tool_choice 'auto' or 'required', not {options.tool_choice!r}: remove one of them"
        raise UnsupportedOptionError(msg)
    tools = [_tool_choice_for(item, extras) if isinstance(item, str) else dict(item) for item in allowed]
    return {"type": "allowed_tools", "mode": options.tool_choice or "auto", "tools": tools}


def _tool_choice_for(name: str, extras: ResponsesOptions | None) -> Json:
    """Return the value of `tool_choice` that selects one tool. `name` is a tool name or the type of a server tool."""
    for tool in extras.tools if extras is not None else ():
        if tool.get("type") == "custom" and tool.get("name") == name:
            return {"type": "custom", "name": name}
        if tool.get("type") == "mcp" and tool.get("server_label") == name:
            return {"type": "mcp", "server_label": name}
        if tool.get("type") == name:
            return {"type": name}
    return {"type": "function", "name": name}
