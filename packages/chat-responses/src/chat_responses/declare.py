"""The tools of a request, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from chat_core.errors import UnsupportedOptionError
from chat_core.json import dump_bytes
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import ToolDeclaration, ToolDeclarations
from chat_core.wire.shapes import Json, is_list, is_mapping
from chat_core.wire.strict import requires_all, strict_schema

from chat_responses.options import ResponsesDialect, ResponsesOptions
from chat_responses.parts import MCP_APPROVAL

NAMED: Final = frozenset({"function", "custom"})
"""The kinds of tools that are called by a name."""


def declared(tools: ToolDeclarations, extras: ResponsesOptions | None, dialect: ResponsesDialect) -> bytes:
    """The tools, joined by commas: the chat's own, then those in the server's own words.

    A declaration in the server's words that has the name of a tool of the chat is sent in its place: so is a custom
    tool declared, or one that is found by search. `mcp_approval` is no tool that a model may call.
    """
    raw = extras.tools if extras is not None else ()
    taken = frozenset([MCP_APPROVAL, *names_of(raw)])
    if any(item.name in taken for item in tools):
        pieces = [_tools([item for item in tools if item.name not in taken], dialect)]
    else:
        pieces = [tools.encoded(dialect.tools_key, lambda items: _tools(items, dialect))]
    pieces += [dump_bytes(tool) for tool in raw]
    return b",".join([piece for piece in pieces if piece])


def names_of(raw: Iterable[object]) -> Iterator[str]:
    """The names of tools that are declared in the server's own words, those in namespaces too."""
    for tool in raw:
        if not is_mapping(tool):
            continue
        name = tool.get("name")
        if tool.get("type") in NAMED and isinstance(name, str):
            yield name
        elif is_list(inner := tool.get("tools")):
            yield from names_of(inner)


def _tools(items: Sequence[ToolDeclaration], dialect: ResponsesDialect) -> bytes:
    return b",".join([dump_bytes(_function(item, dialect)) for item in items])


def _function(item: ToolDeclaration, dialect: ResponsesDialect) -> Json:
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
    if not dialect.strict_rewrite:
        return parameters
    # A default that a tool has stays one: only a schema that requires all its properties is enforced.
    return strict_schema(parameters) if requires_all(parameters) else None


def choice(options: ChatOptions, extras: ResponsesOptions | None, *, tools: bool) -> Json:
    """Which tools may or must be called, and whether several at once.

    Raises:
        UnsupportedOptionError: a call is asked for where there are no tools, or two choices contradict each other.
    """
    chosen = options.tool_choice
    raw = extras.tool_choice if extras is not None else None
    allowed = extras.allowed_tools if extras is not None else None
    if chosen is not None and raw is not None:
        msg = f"tool_choice={chosen!r} and the extras' tool_choice={dict(raw)!r} are two choices: leave one out"
        raise UnsupportedOptionError(msg)
    if not tools:
        if chosen == "required" or isinstance(chosen, NamedTool) or allowed is not None:
            msg = f"tool_choice={chosen!r} needs tools, and there are none: add them, or leave the choice out"
            raise UnsupportedOptionError(msg)
        # Without tools, "auto" and "none" ask for nothing, and several servers refuse the fields.
        return {} if raw is None else {"tool_choice": dict(raw)}
    fields: Json = {}
    if allowed is not None:
        fields["tool_choice"] = _allowed(allowed, options, extras)
    elif raw is not None:
        fields["tool_choice"] = dict(raw)
    elif isinstance(chosen, NamedTool):
        fields["tool_choice"] = _named(chosen.name, extras)
    elif chosen is not None:
        fields["tool_choice"] = chosen
    if options.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = options.parallel_tool_calls
    return fields


def _allowed(
    allowed: Sequence[str | Mapping[str, object]], options: ChatOptions, extras: ResponsesOptions | None
) -> Json:
    if options.tool_choice not in {None, "auto", "required"} or (extras is not None and extras.tool_choice is not None):
        msg = f"allowed_tools go with tool_choice 'auto' or 'required', not {options.tool_choice!r}: leave one out"
        raise UnsupportedOptionError(msg)
    tools = [_named(item, extras) if isinstance(item, str) else dict(item) for item in allowed]
    return {"type": "allowed_tools", "mode": options.tool_choice or "auto", "tools": tools}


def _named(name: str, extras: ResponsesOptions | None) -> Json:
    """A tool by its name, or by its type where the server runs it itself."""
    for tool in extras.tools if extras is not None else ():
        if tool.get("type") == "custom" and tool.get("name") == name:
            return {"type": "custom", "name": name}
        if tool.get("type") == "mcp" and tool.get("server_label") == name:
            return {"type": "mcp", "server_label": name}
        if tool.get("type") == name:
            return {"type": name}
    return {"type": "function", "name": name}
