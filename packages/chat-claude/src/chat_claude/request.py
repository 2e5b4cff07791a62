"""Request fields derived from options: all fields except `messages`, `system` and `tools`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from chat_core.errors import UnsupportedOptionError, UsageError
from chat_core.messages import View
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import OutputSchema, ToolDeclarations
from chat_core.wire.parts import own_data
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
from chat_claude.schema import StrictLimits, input_schema, strict_schema

MIN_BUDGET: Final = 1_024
BUDGETS: Final[Mapping[str, int]] = {
    "minimal": MIN_BUDGET,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
}
"""Thinking budgets in tokens by effort, for models without adaptive thinking.

At least a quarter of the model's output limit remains for the response.
"""

MCP_BETA: Final = "mcp-client-2025-11-20"
LEGACY_MCP_BETA: Final = "mcp-client-2025-04-04"
CONTEXT_BETA: Final = "context-management-2025-06-27"
COMPACT_BETA: Final = "compact-2026-01-12"
INTERLEAVED_PREFIX: Final = "interleaved-thinking-"
"""Prefix of the beta feature that lets a thinking budget cover a whole turn and exceed `max_tokens`."""

TASK_BETA: Final = "task-budgets-2026-03-13"

RESERVED: Final = frozenset({"model", "messages", "system", "tools", "stream", "max_tokens"})
"""Request fields that the library sets and `extra_body` cannot."""

OUTPUT_DESCRIPTION: Final = "Gives the final answer. Call it once, when the answer is known, and say nothing beside."


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Request fields and beta features resolved from the options of one request.

    Attributes:
        fields: fields of the request's body.
        extras: the `ClaudeOptions`, if any.
        betas: beta features to request, without duplicates.
        output_tool, output_declaration: name and declaration of the tool for structured output, if it is requested by
            tool.
        strict_limits: `StrictLimits.remaining` for the chat's tools.
    """

    fields: Json = field(repr=False)  # may contain the token of an MCP server
    extras: ClaudeOptions | None = None
    betas: tuple[str, ...] = ()
    output_tool: str | None = None
    output_declaration: Json | None = field(default=None)
    strict_limits: tuple[int, int, int] = StrictLimits().remaining


def resolve_settings(
    view: View,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    dialect: Dialect,
) -> Settings:
    """Resolve the options of a request and return the resulting fields and beta features.

    Args:
        view: the turns to send; its last response may name a container to reuse.
        tools: tools of the chat that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        dialect: the request format for the model on its platform.

    Raises:
        UnsupportedOptionError: Claude, or this model, does not support an option.
        UsageError: options contradict each other, or `tool_choice` names a tool that is not declared.
    """
    options.refuse(dialect.provider, "seed")
    extras = options.extra(ClaudeOptions, dialect.provider)
    thinking, effort = _choose_thinking(options, extras, dialect)
    fields: Json = {"max_tokens": _max_tokens(options, thinking, dialect)}
    if thinking is not None:
        fields["thinking"] = {"type": dialect.no_thinking} if isinstance(thinking, NoThinking) else thinking.to_wire()
    fields |= _sampling_fields(options, extras, thinking, dialect)
    limits = StrictLimits()
    output = _Output.of(structured_output, tools, dialect, limits)
    if config := _output_config(effort, extras, output):
        fields["output_config"] = config
    has_native = _has_native_tools(extras, dialect)
    if tools and not has_native:
        tools.require_choice(options.tool_choice)
    fields |= _tool_choice(options, output, thinking, dialect, tools=bool(tools) or has_native)
    servers = [*dialect.mcp_servers, *(extras.mcp_servers if extras is not None else ())]
    if servers:
        fields["mcp_servers"] = [_mcp_server(server) for server in servers]
    if extras is not None:
        fields |= _extra_fields(extras)
    if "container" not in fields and (container := _unfinished_container_id(view, dialect)) is not None:
        fields["container"] = container
    if extras is not None:
        fields |= _extra_body(extras, fields)
    betas = _beta_features(extras, dialect, servers)
    if output is None or output.declaration is None:
        return Settings(fields, extras, betas, strict_limits=limits.remaining)
    return Settings(fields, extras, betas, output.tool, output.declaration, limits.remaining)


# --- Thinking ---------------------------------------------------------------------------------------------------


def _choose_thinking(
    options: ChatOptions, extras: ClaudeOptions | None, dialect: Dialect
) -> tuple[Thinking | None, str | None]:
    """Return the thinking mode and the effort. Values in `extras` take precedence over `options.reasoning`."""
    thinking = extras.thinking if extras is not None else None
    effort: str | None = extras.effort if extras is not None else None
    if thinking is None and options.reasoning is not None:
        thinking, default_effort = _thinking_from_reasoning(options.reasoning, dialect)
        effort = effort or default_effort
    if isinstance(thinking, BudgetThinking):
        betas = (*dialect.betas, *(extras.betas if extras is not None else ()))
        _check_budget(
            thinking, options, dialect, interleaved=any(beta.startswith(INTERLEAVED_PREFIX) for beta in betas)
        )
    elif isinstance(thinking, NoThinking) and dialect.no_thinking is None:
        msg = f"{dialect.model} always thinks: use reasoning='low' for the least thinking, or another model"
        raise UnsupportedOptionError(msg)
    elif isinstance(thinking, AdaptiveThinking) and not dialect.adaptive:
        msg = f"{dialect.model} does not support adaptive thinking: use a budget, such as BudgetThinking(tokens=4096)"
        raise UnsupportedOptionError(msg)
    return thinking, effort


def _thinking_from_reasoning(reasoning: str | int, dialect: Dialect) -> tuple[Thinking | None, str | None]:
    if not (dialect.budget or dialect.adaptive):
        if reasoning == "none":
            return None, None
        msg = f"{dialect.model} does not support thinking: remove reasoning={reasoning!r}, or choose a newer model"
        raise UnsupportedOptionError(msg)
    if isinstance(reasoning, int):
        if not dialect.budget:
            msg = (
                f"{dialect.model} does not support a thinking budget in tokens, reasoning={reasoning!r}: "
                "use an effort, 'low', 'medium' or 'high'"
            )
            raise UnsupportedOptionError(msg)
        return BudgetThinking(reasoning), None
    if reasoning == "none":
        return NoThinking(), None
    if dialect.adaptive:
        return AdaptiveThinking(), "low" if reasoning == "minimal" else reasoning
    budget = BUDGETS[reasoning]
    return BudgetThinking(budget if dialect.output_limit is None else min(budget, dialect.output_limit * 3 // 4)), None


def _check_budget(thinking: BudgetThinking, options: ChatOptions, dialect: Dialect, *, interleaved: bool) -> None:
    if not dialect.budget:
        msg = f"{dialect.model} does not support a thinking budget: use AdaptiveThinking(), or reasoning='high'"
        raise UnsupportedOptionError(msg)
    if thinking.tokens < MIN_BUDGET:
        msg = f"a thinking budget must be at least {MIN_BUDGET} tokens, not {thinking.tokens!r}"
        raise UsageError(msg)
    max_tokens = _max_tokens(options, thinking, dialect)
    if thinking.tokens >= max_tokens and not interleaved:
        remedy = "lower the budget" if options.max_tokens is None else "raise max_tokens, or lower the budget"
        msg = (
            f"the thinking budget ({thinking.tokens}) must be below max_tokens ({max_tokens}), which limits "
            f"thinking and response together: {remedy}"
        )
        raise UsageError(msg)


def _max_tokens(options: ChatOptions, thinking: Thinking | None, dialect: Dialect) -> int:
    """Return the limit of output tokens, which the API requires in every request.

    The default is the dialect's limit plus the thinking budget, up to the model's output limit.
    """
    if options.max_tokens is not None:
        return options.max_tokens
    if not isinstance(thinking, BudgetThinking):
        return dialect.max_tokens
    total = dialect.max_tokens + thinking.tokens
    return total if dialect.output_limit is None else max(dialect.max_tokens, min(total, dialect.output_limit))


def _sampling_fields(
    options: ChatOptions, extras: ClaudeOptions | None, thinking: Thinking | None, dialect: Dialect
) -> Json:
    fields: Json = {}
    if (temperature := options.temperature) is not None:
        if not 0 <= temperature <= 1:
            msg = f"temperature must be between 0 and 1 for Claude, not {temperature!r}"
            raise UnsupportedOptionError(msg)
        fields["temperature"] = temperature
    if options.top_p is not None:
        fields["top_p"] = options.top_p
    top_k = options.top_k if extras is None or extras.top_k is None else extras.top_k
    if top_k is not None:
        fields["top_k"] = top_k
    _check_sampling(fields, thinking, dialect)
    if options.stop is not None:
        fields["stop_sequences"] = list(options.stop)
    return fields


def _check_sampling(fields: Json, thinking: Thinking | None, dialect: Dialect) -> None:
    """Check the sampling options against the model and the thinking mode.

    Models without sampling options accept the defaults: 1 as `temperature`, and 0.99 or 1 as `top_p`. Source:
    https://platform.claude.com/docs/en/build-with-claude/thinking#sampling-parameters (2026-11-29).

    Raises:
        UnsupportedOptionError: the API would reject one of the options.
    """
    if dialect.sampling == "one" and {"temperature", "top_p"} <= fields.keys():
        msg = f"{dialect.model} does not support temperature and top_p together: remove one of them"
        raise UnsupportedOptionError(msg)
    if dialect.sampling == "none":
        min_top_p, problem = 0.99, f"is not supported by {dialect.model}: remove it"
    elif isinstance(thinking, BudgetThinking | AdaptiveThinking):
        min_top_p, problem = 0.95, "cannot be combined with thinking: remove it, or turn thinking off"
    else:
        return
    accepted = {
        "temperature": fields.get("temperature", 1) == 1,
        "top_p": fields.get("top_p", 1) >= min_top_p,
        "top_k": "top_k" not in fields,
    }
    for name, is_accepted in accepted.items():
        if not is_accepted:
            msg = f"{name}={fields[name]!r} {problem}"
            raise UnsupportedOptionError(msg)


# --- Structured output ------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Output:
    """The way in which structured output is requested: by a schema, or by a tool whose arguments are the output."""

    schema: Json | None = None
    tool: str | None = None
    declaration: Json | None = None

    @classmethod
    def of(
        cls, requested: OutputSchema | None, tools: ToolDeclarations, dialect: Dialect, limits: StrictLimits
    ) -> _Output | None:
        if requested is None:
            return None
        strict = strict_schema(requested.schema) if dialect.schemas or dialect.strict_tools else None
        if strict is not None and not limits.take(strict, tools=0 if dialect.schemas else 1):
            strict = None
        if strict is not None and dialect.schemas:
            return cls(schema=strict)
        name = requested.name
        while name in {tool.name for tool in tools}:
            name += "_"
        declaration: Json = {"name": name, "description": OUTPUT_DESCRIPTION}
        if strict is not None and dialect.strict_tools:
            declaration |= {"input_schema": strict, "strict": True}
        else:
            declaration["input_schema"] = input_schema(requested.schema, name)
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


def _has_native_tools(extras: ClaudeOptions | None, dialect: Dialect) -> bool:
    return bool(dialect.tools or dialect.mcp_servers or (extras is not None and (extras.tools or extras.mcp_servers)))


def _tool_choice(
    options: ChatOptions, output: _Output | None, thinking: Thinking | None, dialect: Dialect, *, tools: bool
) -> Json:
    choice = options.tool_choice
    is_forced = choice == "required" or isinstance(choice, NamedTool)
    if is_forced and not tools:
        msg = f"tool_choice={choice!r} requires tools, but none are declared: add tools, or remove tool_choice"
        raise UnsupportedOptionError(msg)
    if is_forced and not dialect.forced:
        msg = (
            f"{dialect.model} does not support tool_choice={choice!r}: use 'auto', and request the call in the "
            "instructions"
        )
        raise UnsupportedOptionError(msg)
    if is_forced and isinstance(thinking, BudgetThinking):
        msg = f"tool_choice={choice!r} cannot be combined with a thinking budget on Claude: remove one of them"
        raise UsageError(msg)
    wire = _encode_tool_choice(options)
    if output is not None and output.tool is not None:
        can_force = dialect.forced and not isinstance(thinking, BudgetThinking)
        if isinstance(thinking, AdaptiveThinking) and not dialect.forced_adaptive:
            can_force = False
        wire = _tool_choice_for_output(output.tool, options, wire, can_force=can_force, tools=tools)
    elif not tools:
        return {}
    return {} if wire is None else {"tool_choice": wire}


def _encode_tool_choice(options: ChatOptions) -> Json | None:
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


def _tool_choice_for_output(
    name: str, options: ChatOptions, wire: Json | None, *, can_force: bool, tools: bool
) -> Json | None:
    """Return the tool choice for a request whose structured output is the arguments of the tool `name`.

    The choice forces this tool, or any tool if the chat has tools, unless `can_force` is false.
    """
    if isinstance(options.tool_choice, NamedTool):
        return wire  # the output follows in a later step
    if not can_force:
        # The description of the tool asks the model to call it. After an answer without a call, the chat asks again.
        return {"type": "auto"} if options.tool_choice == "none" else wire
    if not tools or options.tool_choice == "none":
        return {"type": "tool", "name": name}
    return {**(wire or {}), "type": "any"}


# --- Other fields -------------------------------------------------------------------------------------------------


def _mcp_server(server: McpServer) -> Json:
    declaration: Json = {"type": "url", "name": server.name, "url": server.url}
    if server.authorization_token is not None:
        declaration["authorization_token"] = server.authorization_token
    if server.legacy and server.allowed_tools is not None:
        declaration["tool_configuration"] = {"enabled": True, "allowed_tools": list(server.allowed_tools)}
    return declaration


def _extra_fields(extras: ClaudeOptions) -> Json:
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


def _extra_body(extras: ClaudeOptions, fields: Json) -> Json:
    extra_body = dict(extras.extra_body or {})
    if conflicts := sorted(extra_body.keys() & (fields.keys() | RESERVED)):
        msg = f"extra_body cannot replace {', '.join(conflicts)}, set by the library: use the option for it"
        raise UnsupportedOptionError(msg)
    return extra_body


def _unfinished_container_id(view: View, dialect: Dialect) -> str | None:
    """Return the container id of the last response if its work is unfinished, or `None`.

    Work is unfinished if the response paused, or if code in the container waits for a tool.
    """
    turn = next((turn for role, turn in reversed(view.turns) if role == "model"), None)
    if turn is None or (metadata := turn.metadata) is None or metadata.provider != dialect.provider:
        return None
    unfinished = turn.finish_reason == "pause" or any(
        "caller" in own_data(tool.call.opaque, dialect.provider) for tool in turn.tools
    )
    id_ = mapping(metadata.extra.get("container")).get("id")
    return id_ if unfinished and isinstance(id_, str) else None


def _beta_features(extras: ClaudeOptions | None, dialect: Dialect, servers: list[McpServer]) -> tuple[str, ...]:
    """Return the beta features to request, without duplicates and in a stable order."""
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
