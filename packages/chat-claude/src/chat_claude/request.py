"""From the options of a call to the fields of a request: all but what was said and the tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from chat_core.errors import UnsupportedOptionError, UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import OutputSchema, ToolDeclarations
from chat_core.wire.parts import owned
from chat_core.wire.shapes import Json, mapping

from chat_claude.options import (
    AdaptiveThinking,
    BudgetThinking,
    ClaudeOptions,
    Dialect,
    McpServer,
    NoThinking,
    Thinking,
)
from chat_claude.parts import cache_point
from chat_claude.schema import input_schema, strict_schema

LEAST_BUDGET: Final = 1_024
BUDGETS: Final[Mapping[str, int]] = {
    "minimal": LEAST_BUDGET,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
}
"""What an effort is in tokens, for models that think within a budget."""

MCP_BETA: Final = "mcp-client-2025-11-20"
LEGACY_MCP_BETA: Final = "mcp-client-2025-04-04"
CONTEXT_BETA: Final = "context-management-2025-06-27"
COMPACT_BETA: Final = "compact-2026-01-12"
INTERLEAVED: Final = "interleaved-thinking-"
"""How the beta begins with which the budget is that of all thoughts of a turn, and may exceed `max_tokens`."""

TASK_BETA: Final = "task-budgets-2026-03-13"

TAKEN: Final = frozenset({"model", "messages", "system", "tools", "stream", "max_tokens"})
"""Fields that the library writes in any case."""

OUTPUT_DESCRIPTION: Final = "Gives the final answer. Call it once, when the answer is known, and say nothing beside."


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """What the options of one call come to.

    Attributes:
        fields: of the request.
        extras: the options of Claude alone.
        betas: the beta features that are asked for.
        output_tool, output_declaration: the tool for the structured answer, where one is asked for in that way.
    """

    fields: Json = field(repr=False)  # they may hold the token of an MCP server
    extras: ClaudeOptions | None = None
    betas: tuple[str, ...] = ()
    output_tool: str | None = None
    output_declaration: Json | None = field(default=None)


def settings(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    dialect: Dialect,
) -> Settings:
    """Read the options.

    Raises:
        UnsupportedOptionError: Claude, or this model, does not know one.
        UsageError: they contradict each other.
    """
    options.refuse(dialect.provider, "seed")
    extras = options.extra(ClaudeOptions, dialect.provider)  # noqa: S610 - not Django
    thinking, effort = _thinking(options, extras, dialect)
    fields: Json = {"max_tokens": _max_tokens(options, thinking, dialect)}
    if thinking is not None:
        fields["thinking"] = thinking.to_wire()
    fields |= _sampling(options, extras, thinking)
    output = _Output.of(structured_output, tools, dialect)
    if config := _output_config(effort, extras, output):
        fields["output_config"] = config
    fields |= _choice(options, output, thinking, dialect, tools=bool(tools) or _has_native(extras, dialect))
    servers = [*dialect.mcp_servers, *(extras.mcp_servers if extras is not None else ())]
    if servers:
        fields["mcp_servers"] = [_mcp_server(server) for server in servers]
    if extras is not None:
        fields |= _extras(extras)
    if "container" not in fields and (container := _container(messages, dialect)) is not None:
        fields["container"] = container
    if extras is not None:
        fields |= _further(extras, fields)
    betas = _betas(extras, dialect, servers)
    if output is None or output.declaration is None:
        return Settings(fields, extras, betas)
    return Settings(fields, extras, betas, output.tool, output.declaration)


# --- Thinking ---------------------------------------------------------------------------------------------------


def _thinking(
    options: ChatOptions, extras: ClaudeOptions | None, dialect: Dialect
) -> tuple[Thinking | None, str | None]:
    """How the model thinks, and the effort that goes with it."""
    own = extras.thinking if extras is not None else None
    effort: str | None = extras.effort if extras is not None else None
    if own is None and options.reasoning is not None:
        own, asked = _reasoning(options.reasoning, dialect)
        effort = effort or asked
    if isinstance(own, BudgetThinking):
        betas = (*dialect.betas, *(extras.betas if extras is not None else ()))
        _check_budget(own, options, dialect, interleaved=any(beta.startswith(INTERLEAVED) for beta in betas))
    elif isinstance(own, AdaptiveThinking) and not dialect.adaptive:
        msg = f"{dialect.model} does not think adaptively: give it a budget, BudgetThinking(tokens=4096)"
        raise UnsupportedOptionError(msg)
    return own, effort


def _reasoning(reasoning: str | int, dialect: Dialect) -> tuple[Thinking | None, str | None]:
    if not (dialect.budget or dialect.adaptive):
        if reasoning == "none":
            return None, None
        msg = f"{dialect.model} does not think: leave reasoning={reasoning!r} out, or choose a newer model"
        raise UnsupportedOptionError(msg)
    if isinstance(reasoning, int):
        if not dialect.budget:
            msg = (
                f"{dialect.model} takes an effort, not a budget in tokens: reasoning={reasoning!r} cannot be sent; "
                "choose 'low', 'medium' or 'high'"
            )
            raise UnsupportedOptionError(msg)
        return BudgetThinking(reasoning), None
    if reasoning == "none":
        return NoThinking(), None
    if dialect.adaptive:
        return AdaptiveThinking(), "low" if reasoning == "minimal" else reasoning
    return BudgetThinking(BUDGETS[reasoning]), None


def _check_budget(thinking: BudgetThinking, options: ChatOptions, dialect: Dialect, *, interleaved: bool) -> None:
    if not dialect.budget:
        msg = f"{dialect.model} does not think within a budget: use AdaptiveThinking(), or reasoning='high'"
        raise UnsupportedOptionError(msg)
    if thinking.tokens < LEAST_BUDGET:
        msg = f"a budget for thinking is at least {LEAST_BUDGET} tokens, not {thinking.tokens!r}"
        raise UsageError(msg)
    if options.max_tokens is not None and thinking.tokens >= options.max_tokens and not interleaved:
        msg = (
            f"the budget for thinking ({thinking.tokens}) must be below max_tokens ({options.max_tokens}), which holds "
            "the answer too: raise max_tokens, or lower the budget"
        )
        raise UsageError(msg)


def _max_tokens(options: ChatOptions, thinking: Thinking | None, dialect: Dialect) -> int:
    """The API wants a limit. Without one of the caller's it is the model's default, and the budget comes on top."""
    if options.max_tokens is not None:
        return options.max_tokens
    return dialect.max_tokens + (thinking.tokens if isinstance(thinking, BudgetThinking) else 0)


def _sampling(options: ChatOptions, extras: ClaudeOptions | None, thinking: Thinking | None) -> Json:
    fields: Json = {}
    if (temperature := options.temperature) is not None:
        if not 0 <= temperature <= 1:
            msg = f"Claude takes a temperature from 0 to 1, not {temperature!r}"
            raise UnsupportedOptionError(msg)
        if isinstance(thinking, BudgetThinking) and temperature != 1:
            msg = (
                f"Claude thinks at temperature 1 alone, not {temperature!r}: leave the temperature or the thinking out"
            )
            raise UsageError(msg)
        fields["temperature"] = temperature
    if options.top_p is not None:
        fields["top_p"] = options.top_p
    if extras is not None and extras.top_k is not None:
        fields["top_k"] = extras.top_k
    if options.stop is not None:
        fields["stop_sequences"] = list(options.stop)
    return fields


# --- Structured answers -----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Output:
    """How a structured answer is asked for: by a schema, or by a tool whose parameters it is."""

    schema: Json | None = None
    tool: str | None = None
    declaration: Json | None = None

    @classmethod
    def of(cls, wanted: OutputSchema | None, tools: ToolDeclarations, dialect: Dialect) -> _Output | None:
        if wanted is None:
            return None
        strict = strict_schema(wanted.schema)
        if strict is not None and dialect.schemas:
            return cls(schema=strict)
        name = wanted.name
        while name in {tool.name for tool in tools}:
            name += "_"
        declaration: Json = {"name": name, "description": OUTPUT_DESCRIPTION}
        if strict is not None and dialect.strict_tools:
            declaration |= {"input_schema": strict, "strict": True}
        else:
            declaration["input_schema"] = input_schema(wanted.schema, name)
        return cls(tool=name, declaration=declaration)


def _output_config(effort: str | None, extras: ClaudeOptions | None, output: _Output | None) -> Json:
    config: Json = {}
    if effort is not None:
        config["effort"] = effort
    if extras is not None and extras.task_budget is not None:
        config["task_budget"] = {"type": "tokens", "total": extras.task_budget}
    if output is not None and output.schema is not None:
        config["format"] = {"type": "json_schema", "schema": output.schema}
    return config


def _has_native(extras: ClaudeOptions | None, dialect: Dialect) -> bool:
    return bool(dialect.tools or dialect.mcp_servers or (extras is not None and (extras.tools or extras.mcp_servers)))


def _choice(
    options: ChatOptions, output: _Output | None, thinking: Thinking | None, dialect: Dialect, *, tools: bool
) -> Json:
    choice = options.tool_choice
    forced = choice == "required" or isinstance(choice, NamedTool)
    if forced and not tools:
        msg = f"tool_choice={choice!r} needs tools, and there are none: add them, or leave the choice out"
        raise UnsupportedOptionError(msg)
    if forced and isinstance(thinking, BudgetThinking):
        msg = f"Claude cannot be made to call a tool while it thinks: leave tool_choice={choice!r} or the thinking out"
        raise UsageError(msg)
    wire = _wire_choice(options)
    if output is not None and output.tool is not None:
        free = isinstance(thinking, BudgetThinking) or (isinstance(thinking, AdaptiveThinking) and not dialect.forced)
        wire = _output_choice(output.tool, options, wire, free=free, tools=tools)
    elif not tools:
        return {}
    return {} if wire is None else {"tool_choice": wire}


def _wire_choice(options: ChatOptions) -> Json | None:
    choice = options.tool_choice
    if isinstance(choice, NamedTool):
        wire: Json = {"type": "tool", "name": choice.name}
    elif choice is None:
        if options.parallel_tool_calls is not False:
            return None
        wire = {"type": "auto"}
    else:
        wire = {"type": "any" if choice == "required" else choice}
    if options.parallel_tool_calls is False and choice != "none":
        wire["disable_parallel_tool_use"] = True
    return wire


def _output_choice(name: str, options: ChatOptions, wire: Json | None, *, free: bool, tools: bool) -> Json | None:
    """The choice where the answer is a tool's arguments: that tool is called, or one of the chat's own."""
    if isinstance(options.tool_choice, NamedTool):
        return wire  # the answer comes in a later step
    if free:
        # Nothing can be forced while the model thinks so. The description of the tool asks for the call, and an answer
        # in words is corrected.
        return {"type": "auto"} if options.tool_choice == "none" else wire
    if not tools or options.tool_choice == "none":
        return {"type": "tool", "name": name}
    return {**(wire or {}), "type": "any"}


# --- The rest -----------------------------------------------------------------------------------------------------


def _mcp_server(server: McpServer) -> Json:
    found: Json = {"type": "url", "name": server.name, "url": server.url}
    if server.authorization_token is not None:
        found["authorization_token"] = server.authorization_token
    if server.legacy and server.allowed_tools is not None:
        found["tool_configuration"] = {"enabled": True, "allowed_tools": list(server.allowed_tools)}
    return found


def _extras(extras: ClaudeOptions) -> Json:
    fields: Json = {}
    for name in ("service_tier", "inference_geo", "speed"):
        if (value := getattr(extras, name)) is not None:
            fields[name] = value
    if extras.user_id is not None:
        fields["metadata"] = {"user_id": extras.user_id}
    if (container := extras.container) is not None:
        fields["container"] = container if isinstance(container, str) else dict(container)
    if extras.context_management is not None:
        fields["context_management"] = dict(extras.context_management)
    if extras.cache is not None and extras.cache.automatic is not None:
        fields["cache_control"] = cache_point(extras.cache.automatic)
    return fields


def _further(extras: ClaudeOptions, fields: Json) -> Json:
    further = dict(extras.extra_body or {})
    if taken := sorted(further.keys() & (fields.keys() | TAKEN)):
        msg = f"extra_body cannot hold {', '.join(taken)}, which the request already has: set it by its own option"
        raise UnsupportedOptionError(msg)
    return further


def _container(messages: Messages, dialect: Dialect) -> str | None:
    """The container in which the last answer began what it has not ended: code that waits for a tool, or a pause."""
    last = next((content for content in reversed(messages.contents) if content.role == "model"), None)
    if last is None or (metadata := (turn := last.turns[-1]).metadata) is None or metadata.provider != dialect.provider:
        return None
    waits = turn.finish_reason == "pause" or any(
        "caller" in owned(tool.call.opaque, dialect.provider) for tool in turn.tools
    )
    id_ = mapping(metadata.extra.get("container")).get("id")
    return id_ if waits and isinstance(id_, str) else None


def _betas(extras: ClaudeOptions | None, dialect: Dialect, servers: list[McpServer]) -> tuple[str, ...]:
    """The beta features that are asked for, each once, in an order that does not change."""
    betas = [*dialect.betas, *[tool.beta for tool in dialect.tools]]
    betas += [LEGACY_MCP_BETA if server.legacy else MCP_BETA for server in servers]
    if extras is not None:
        betas += [tool.beta for tool in extras.tools if not isinstance(tool, Mapping)]
        if extras.context_management is not None:
            betas.append(CONTEXT_BETA)
            if "compact_" in str(extras.context_management):
                betas.append(COMPACT_BETA)
        if extras.task_budget is not None:
            betas.append(TASK_BETA)
        betas += extras.betas
    return tuple(dict.fromkeys([beta for beta in betas if beta]))
