"""Encoder for request bodies.

The body is joined from encoded pieces: one per turn, one for the tools, and one for the other fields. The pieces of
completed turns and of tools are cached, so a request with a long history mostly joins cached bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chat_core.errors import PendingToolsError, UnsupportedOptionError
from chat_core.json import dump_bytes, dump_checked, dumps
from chat_core.messages import Messages, Role, Text, Turn, View
from chat_core.messages.content import ROLES
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations, require_request
from chat_core.wire.instructions import instruction_text, instruction_turns, leading_system_turns
from chat_core.wire.parts import sole_text
from chat_core.wire.strict import requires_all, strict_schema

from chat_completions.message_order import arrange_messages
from chat_completions.options import CompletionsOptions, Dialect
from chat_completions.parts import model_messages, plain_message, wire_role

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
    """Encode the body of a chat request.

    Args:
        messages: the conversation to send.
        tools: the tools that are declared to the model.
        options: settings of the request, such as `temperature`.
        structured_output: the schema of the output, if the response is structured.
        dialect: the request format of the server.
        stream: whether the response is streamed.

    Raises:
        PendingToolsError: a tool call in the conversation is not resolved.
        UnsupportedPartError: the API cannot represent a part of the conversation.
        UnsupportedOptionError: the API, or this dialect, does not support an option.
        UsageError: `tool_choice` names a tool that is not declared.
    """
    require_request(messages, tools, options, structured_output)
    tools = tools.declared
    extras = options.extra(CompletionsOptions, dialect.provider)
    declared = _encode_tools(tools, extras, dialect)
    options.refuse(dialect.provider, *dialect.refuses, *(() if dialect.top_k else ("top_k",)))
    if tools and (extras is None or not extras.tools):
        tools.require_choice(options.tool_choice)
    formatted = None if asks_in_prompt(tools, options, structured_output, dialect) else structured_output
    described = structured_output if formatted is None or dialect.structured == "json_object" else None
    other_fields = _option_fields(options, extras, formatted, dialect, stream=stream, tools=bool(declared))
    pieces = [b'{"model":', dump_bytes(dialect.model), b","] if dialect.model else [b"{"]
    view = messages.view()
    turns = encode_turns(view, dialect)
    if options.instructions is not None:
        turns = _add_instructions(turns, view, options, dialect)
    encoded = b"".join([*_encode_schema_instruction(described, dialect), turns])
    pieces += [b'"messages":[', arrange_messages(encoded, dialect), b"]"]
    if declared:
        pieces += [b',"tools":[', declared, b"]"]
    if other_fields:
        pieces += [b",", dump_bytes(other_fields)[1:]]
    else:
        pieces.append(b"}")
    return b"".join(pieces)


def asks_in_prompt(
    tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None, dialect: Dialect
) -> bool:
    """Return whether a request asks for structured output only in a message, so that the server does not enforce it.

    Args:
        tools: the tools that are declared to the model.
        options: settings of the request, such as `temperature`.
        output: the schema of the output, if the response is structured.
        dialect: the request format of the server.
    """
    if output is None or dialect.structured_with_tools:
        return False
    extras = options.extra(CompletionsOptions, dialect.provider)
    return bool(tools.declared or (extras is not None and extras.tools))


def _encode_schema_instruction(output: OutputSchema | None, dialect: Dialect) -> Sequence[bytes]:
    """Return a system message with the output schema, followed by a comma, or an empty sequence without a schema."""
    if output is None:
        return ()
    # The message comes first, so that the prefix of the prompt stays the same for the server's cache.
    instruction = (
        f"Answer with one JSON object, and with nothing else. It satisfies this JSON Schema: {dumps(output.schema)}"
    )
    return (dump_bytes({"role": dialect.system_role, "content": instruction}), b",")


def _add_instructions(encoded: bytes, view: View, options: ChatOptions, dialect: Dialect) -> bytes:
    """Return the encoded conversation with the instructions before and after its leading system turns.

    Args:
        encoded: the encoded conversation.
        view: the turns to send.
        options: settings of the request, such as `temperature`.
        dialect: the request format of the server.
    """
    encode_turn = _encoder("system", dialect)
    leading = leading_system_turns(view)
    if not leading:
        # One system message, because many servers and chat templates accept no second system message.
        text = instruction_text(options)
        pieces = [encode_turn(Turn([Text(text)])) if text else b"", encoded]
        return b",".join([piece for piece in pieces if piece])
    before, after = instruction_turns(options)
    stored = b",".join([turn.encoded(dialect.turn_key, encode_turn) for turn in leading])
    rest = encoded[len(stored) + 1 :]
    pieces = [*map(encode_turn, before), stored, *map(encode_turn, after), rest]
    return b",".join([piece for piece in pieces if piece])


def encode_turns(view: View, dialect: Dialect) -> bytes:
    """Encode the turns as JSON messages, joined by commas. Tool results follow the turn of their calls.

    Args:
        view: the turns to send.
        dialect: the request format of the server.

    Raises:
        PendingToolsError: a tool call is not resolved.
        UnsupportedPartError: the API cannot represent a part.
    """
    encoders: dict[Role, Callable[[Turn], bytes]] = {role: _encoder(role, dialect) for role in ROLES}
    return view.encoded(dialect.turn_key, encoders)


class _encoder:  # noqa: N801 - used like a function
    """Callable that encodes turns of one role, and is called only for turns that are not in the cache."""

    __slots__ = ("_dialect", "_role")

    def __init__(self, role: Role, dialect: Dialect) -> None:
        self._role: Role = role
        self._dialect = dialect

    def __call__(self, turn: Turn) -> bytes:
        if (text := sole_text(turn)) is not None:
            return dump_checked({"role": wire_role(self._role, self._dialect), "content": text})
        if self._role != "model":
            return dump_checked(plain_message(self._role, turn, self._dialect))
        if not turn.settled:
            waiting = [tool.id for tool in turn.tools if not tool.resolved]
            msg = f"the tool calls {', '.join(waiting)} are pending: decide or cancel them before the next request"
            raise PendingToolsError(msg, waiting)
        return dump_checked(model_messages(turn, self._dialect))[1:-1]  # a list, without its brackets


def _encode_tools(tools: ToolDeclarations, extras: CompletionsOptions | None, dialect: Dialect) -> bytes:
    """Return the tool declarations as JSON objects joined by commas: the chat's tools, then server-side tools."""
    if not tools and extras is None:
        return b""
    if tools and not dialect.tools:
        msg = f"{dialect.provider} does not support tools: remove {', '.join([item.name for item in tools])}"
        raise UnsupportedOptionError(msg)
    pieces = [tools.encoded(dialect.tools_key, lambda items: _encode_declarations(items, dialect))] if tools else []
    if extras is not None:
        pieces += [dump_bytes(tool) for tool in extras.tools]
    return b",".join(pieces)


def _encode_declarations(items: Sequence[ToolDeclaration], dialect: Dialect) -> bytes:
    enforced = [_strict_parameters(item.parameters, dialect) if dialect.strict_tools else None for item in items]
    if not dialect.mixed_strict_tools and None in enforced:
        enforced = [None] * len(items)
    functions = [_encode_function(item, strict) for item, strict in zip(items, enforced, strict=True)]
    return b",".join([dump_bytes({"type": "function", "function": function}) for function in functions])


def _encode_function(item: ToolDeclaration, strict: Mapping[str, object] | None) -> dict[str, object]:
    """Return the declaration of a function. `strict` is its schema if the server enforces it."""
    function: dict[str, object] = {"name": item.name}
    if item.description:
        function["description"] = item.description
    function["parameters"] = strict if strict is not None else item.parameters
    if strict is not None:
        function["strict"] = True
    return function


def _strict_parameters(parameters: Mapping[str, object], dialect: Dialect) -> Mapping[str, object] | None:
    if not dialect.strict_rewrite:
        return parameters
    # Strict schemas have no optional properties, so a schema with an optional property is not enforced.
    return strict_schema(parameters) if requires_all(parameters) else None


def _option_fields(
    options: ChatOptions,
    extras: CompletionsOptions | None,
    structured_output: OutputSchema | None,
    dialect: Dialect,
    *,
    stream: bool,
    tools: bool,
) -> dict[str, object]:
    """Return all fields of the request except the model, the messages and the tools."""
    other_fields: dict[str, object] = {}
    fields = {"seed": dialect.seed_field, "max_tokens": dialect.max_tokens_field}
    for name in ("temperature", "top_p", "top_k", "seed", "max_tokens"):
        if (value := getattr(options, name)) is not None:
            other_fields[fields.get(name, name)] = value
    if options.stop is not None:
        other_fields["stop"] = list(options.stop)
    if options.reasoning is not None:
        other_fields |= _reasoning_fields(options.reasoning, dialect)
    other_fields |= _tool_choice_fields(options, tools=tools)
    if structured_output is not None:
        other_fields["response_format"] = _response_format(structured_output, extras, dialect)
    if extras is not None:
        other_fields |= _extra_fields(extras, other_fields)
    if stream:
        other_fields["stream"] = True
        if dialect.stream_usage:
            other_fields.setdefault("stream_options", {"include_usage": True})
    return other_fields


def _reasoning_fields(reasoning: str | int, dialect: Dialect) -> dict[str, object]:
    if dialect.reasoning_style == "object":
        return {"reasoning": {"max_tokens" if isinstance(reasoning, int) else "effort": reasoning}}
    if isinstance(reasoning, int):
        msg = (
            f"{dialect.provider} does not support a token budget: reasoning={reasoning!r} cannot be sent; "
            "use 'low', 'medium' or 'high'"
        )
        raise UnsupportedOptionError(msg)
    if dialect.reasoning_style == "thinking" and reasoning == "none":
        return {"thinking": {"type": "disabled"}}
    return {"reasoning_effort": reasoning}


def _tool_choice_fields(options: ChatOptions, *, tools: bool) -> dict[str, object]:
    choice = options.tool_choice
    if not tools:
        if choice == "required" or isinstance(choice, NamedTool):
            msg = f"tool_choice={choice!r} needs tools, but no tools are declared: add tools, or remove tool_choice"
            raise UnsupportedOptionError(msg)
        # Without tools, "auto" and "none" have no effect, and several servers reject these fields.
        return {}
    fields: dict[str, object] = {}
    if isinstance(choice, NamedTool):
        fields["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    elif choice is not None:
        fields["tool_choice"] = choice
    if options.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = options.parallel_tool_calls
    return fields


def _response_format(output: OutputSchema, extras: CompletionsOptions | None, dialect: Dialect) -> dict[str, object]:
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
    if extras is not None and extras.output_description is not None:
        schema["description"] = extras.output_description
    return {"type": "json_schema", "json_schema": schema}


def _extra_fields(extras: CompletionsOptions, used_fields: dict[str, object]) -> dict[str, object]:
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
        if name in used_fields or name in fields or name in {"model", "messages", "tools", "stream"}:
            msg = f"extra_body cannot contain {name!r}: set this field with its own option"
            raise UnsupportedOptionError(msg)
        fields[name] = value
    return fields
