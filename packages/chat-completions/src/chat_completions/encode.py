"""From a conversation to the body of a request.

The body is joined from pieces of bytes: one for each turn, kept with the turn once it can no longer change, one for the
tools, kept with them, and one for everything that is new in this request. A long history costs a join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chat_core.errors import PendingToolsError, UnsupportedOptionError
from chat_core.json import dump_bytes, dumps
from chat_core.messages import Messages, Role, Turn
from chat_core.messages.content import ROLES
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.wire.strict import requires_all, strict_schema

from chat_completions.options import CompletionsOptions, Dialect
from chat_completions.parts import model_messages, plain_message

EXTRAS: Final = (
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "top_logprobs",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "service_tier",
    "store",
    "verbosity",
)
MAPPINGS: Final = ("logit_bias", "metadata", "audio", "web_search_options")


def encode(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: Dialect,
    stream: bool,
) -> bytes:
    """The body of a request.

    Raises:
        PendingToolsError: a call in the history is not resolved.
        UnsupportedPartError: this wire has no place for a part of the history.
        UnsupportedOptionError: this wire, or this dialect of it, does not know an option.
    """
    extras = options.extra(CompletionsOptions, dialect.provider)  # noqa: S610 - not Django
    declared = _declared(tools, extras, dialect)
    options.refuse(dialect.provider, *dialect.refuses)
    rest = _rest(options, extras, structured_output, dialect, stream=stream, tools=bool(declared))
    pieces = [b'{"model":', dump_bytes(dialect.model), b","] if dialect.model else [b"{"]
    pieces += [b'"messages":[', *_instruction(structured_output, dialect), encode_turns(messages, dialect), b"]"]
    if declared:
        pieces += [b',"tools":[', declared, b"]"]
    if rest:
        pieces += [b",", dump_bytes(rest)[1:]]
    else:
        pieces.append(b"}")
    return b"".join(pieces)


def _instruction(output: OutputSchema | None, dialect: Dialect) -> Sequence[bytes]:
    """The schema of a structured answer in words, for servers that promise no more than that it is JSON."""
    if output is None or dialect.structured == "json_schema":
        return ()
    # In front, where it stays: what comes before a new turn is the same bytes as before it.
    words = f"Answer with one JSON object, and with nothing else. It satisfies this JSON Schema: {dumps(output.schema)}"
    return (dump_bytes({"role": dialect.system_role, "content": words}), b",")


def encode_turns(messages: Messages, dialect: Dialect) -> bytes:
    """The messages of the wire, joined by commas: each turn's own, then the results of its tools.

    Raises:
        PendingToolsError: a call is not resolved.
        UnsupportedPartError: this wire has no place for a part.
    """
    encoders: dict[Role, Callable[[Turn], bytes]] = {role: _encoder(role, dialect) for role in ROLES}
    return messages.encoded(dialect.turn_key, encoders)


class _encoder:  # noqa: N801 - a closure in all but name
    """Encodes the turns of one role. Made once per request, since the cache calls it only for turns that are new."""

    __slots__ = ("_dialect", "_role")

    def __init__(self, role: Role, dialect: Dialect) -> None:
        self._role: Role = role
        self._dialect = dialect

    def __call__(self, turn: Turn) -> bytes:
        if self._role != "model":
            return dump_bytes(plain_message(self._role, turn, self._dialect))
        waiting = [tool.id for tool in turn.tools if not tool.resolved]
        if waiting:
            msg = f"a request cannot be sent while calls wait ({', '.join(waiting)}): decide or cancel them first"
            raise PendingToolsError(msg, waiting)
        return dump_bytes(model_messages(turn, self._dialect))[1:-1]  # a list, without its brackets


def _declared(tools: ToolDeclarations, extras: CompletionsOptions | None, dialect: Dialect) -> bytes:
    """The tools, joined by commas: the chat's own, then those that the server knows by itself."""
    if tools and not dialect.tools:
        msg = f"{dialect.provider} has no tools: leave out {', '.join([item.name for item in tools])}, or ask another"
        raise UnsupportedOptionError(msg)
    pieces = [tools.encoded(dialect.tools_key, lambda items: _tools(items, dialect))] if tools else []
    if extras is not None:
        pieces += [dump_bytes(tool) for tool in extras.tools]
    return b",".join(pieces)


def _tools(items: Sequence[ToolDeclaration], dialect: Dialect) -> bytes:
    return b",".join([dump_bytes({"type": "function", "function": _function(item, dialect)}) for item in items])


def _function(item: ToolDeclaration, dialect: Dialect) -> dict[str, object]:
    function: dict[str, object] = {"name": item.name}
    if item.description:
        function["description"] = item.description
    strict = _strict_parameters(item.parameters, dialect) if dialect.strict_tools else None
    function["parameters"] = strict if strict is not None else item.parameters
    if strict is not None:
        function["strict"] = True
    return function


def _strict_parameters(parameters: Mapping[str, object], dialect: Dialect) -> Mapping[str, object] | None:
    if not dialect.strict_rewrite:
        return parameters
    # A default that a tool has stays one: only a schema that requires all its properties is enforced.
    return strict_schema(parameters) if requires_all(parameters) else None


def _rest(
    options: ChatOptions,
    extras: CompletionsOptions | None,
    structured_output: OutputSchema | None,
    dialect: Dialect,
    *,
    stream: bool,
    tools: bool,
) -> dict[str, object]:
    """Everything but the model, the messages and the tools."""
    rest: dict[str, object] = {}
    fields = {"seed": dialect.seed_field, "max_tokens": dialect.max_tokens_field}
    for name in ("temperature", "top_p", "seed", "max_tokens"):
        if (value := getattr(options, name)) is not None:
            rest[fields.get(name, name)] = value
    if options.stop is not None:
        rest["stop"] = list(options.stop)
    if options.reasoning is not None:
        rest |= _reasoning(options.reasoning, dialect)
    rest |= _choice(options, tools=tools)
    if structured_output is not None:
        rest["response_format"] = _response_format(structured_output, dialect)
    if extras is not None:
        rest |= _extras(extras, rest)
    if stream:
        rest["stream"] = True
        if dialect.stream_usage:
            rest.setdefault("stream_options", {"include_usage": True})
    return rest


def _reasoning(reasoning: str | int, dialect: Dialect) -> dict[str, object]:
    if dialect.reasoning_style == "object":
        return {"reasoning": {"max_tokens" if isinstance(reasoning, int) else "effort": reasoning}}
    if isinstance(reasoning, int):
        msg = (
            f"{dialect.provider} takes an effort, not a budget in tokens: reasoning={reasoning!r} cannot be sent; "
            "choose 'low', 'medium' or 'high'"
        )
        raise UnsupportedOptionError(msg)
    if dialect.reasoning_style == "thinking" and reasoning == "none":
        return {"thinking": {"type": "disabled"}}
    return {"reasoning_effort": reasoning}


def _choice(options: ChatOptions, *, tools: bool) -> dict[str, object]:
    choice = options.tool_choice
    if not tools:
        if choice == "required" or isinstance(choice, NamedTool):
            msg = f"tool_choice={choice!r} needs tools, and there are none: add them, or leave the choice out"
            raise UnsupportedOptionError(msg)
        # Without tools, "auto" and "none" ask for nothing, and several servers refuse the fields.
        return {}
    fields: dict[str, object] = {}
    if isinstance(choice, NamedTool):
        fields["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    elif choice is not None:
        fields["tool_choice"] = choice
    if options.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = options.parallel_tool_calls
    return fields


def _response_format(output: OutputSchema, dialect: Dialect) -> dict[str, object]:
    if dialect.structured == "json_object":
        return {"type": "json_object"}
    strict: Mapping[str, object] | None = None
    if dialect.strict_output:
        strict = strict_schema(output.schema) if dialect.strict_rewrite else output.schema
    schema: dict[str, object] = {
        "name": output.name,
        "schema": output.schema if strict is None else strict,
        "strict": strict is not None,
    }
    return {"type": "json_schema", "json_schema": schema}


def _extras(extras: CompletionsOptions, taken: dict[str, object]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name in EXTRAS:
        if (value := getattr(extras, name)) is not None:
            fields[name] = value
    for name in MAPPINGS:
        if (value := getattr(extras, name)) is not None:
            fields[name] = dict(value)
    if extras.modalities is not None:
        fields["modalities"] = list(extras.modalities)
    if extras.prediction is not None:
        prediction = extras.prediction
        fields["prediction"] = (
            {"type": "content", "content": prediction} if isinstance(prediction, str) else dict(prediction)
        )
    for name, value in (extras.extra_body or {}).items():
        if name in taken or name in fields or name in {"model", "messages", "tools", "stream"}:
            msg = f"extra_body cannot hold {name!r}, which the request already has: set it by its own option"
            raise UnsupportedOptionError(msg)
        fields[name] = value
    return fields
