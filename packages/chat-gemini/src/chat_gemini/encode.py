"""Encoder for request bodies.

The body is joined from pieces of bytes: one per turn, one for the tools, and one for the other fields. The pieces of
final turns and of tools are cached.

The API has one field for system instructions. All system messages are sent in this field in order, regardless of their
position in the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from chat_core.errors import PendingToolsError, UnsupportedOptionError
from chat_core.json import dump_bytes, dump_checked
from chat_core.messages import Messages, Turn, View
from chat_core.messages.content import ROLES
from chat_core.options import ChatOptions, NamedTool, ToolChoice
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations, require_request
from chat_core.wire.instructions import instruction_turns
from chat_core.wire.parts import sole_text
from chat_core.wire.shapes import Json, is_mapping

from chat_gemini.options import Dialect, GeminiOptions
from chat_gemini.output_tool import output_tool_name, with_output_tool
from chat_gemini.parts import model_contents, system_parts, user_content
from chat_gemini.schema import InexpressibleError, json_form, openapi_form

DIRECT: Final = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "max_tokens": "maxOutputTokens",
}

EXTRAS: Final = {
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "response_logprobs": "responseLogprobs",
    "logprobs": "logprobs",
    "response_modalities": "responseModalities",
    "speech": "speechConfig",
    "image": "imageConfig",
    "media_resolution": "mediaResolution",
}
"""Fields of `generationConfig` by the name of the attribute in `GeminiOptions`."""

TOP_LEVEL: Final = {
    "cached_content": "cachedContent",
    "labels": "labels",
    "service_tier": "serviceTier",
    "store": "store",
}
"""Top-level fields by the name of the attribute in `GeminiOptions`."""

RESERVED: Final = frozenset({"contents", "systemInstruction", "tools", "generationConfig", "model"})

BUDGETS: Final[Mapping[str, int]] = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
"""Thinking budgets in tokens by effort, as in the vendor's table for clients of other APIs."""

NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
"""Pattern for valid function names."""

LEVELS: Final = ("minimal", "low", "medium", "high")


def encode(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: Dialect,
) -> bytes:
    """Encode the body of a chat request. Streams and complete responses use the same body.

    Args:
        messages: the conversation to send.
        tools: tools of the chat that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        dialect: the request format of the model.

    Raises:
        PendingToolsError: a tool call in the history is not resolved.
        UnsupportedPartError: the API cannot represent a part of the history.
        UnsupportedOptionError: the API does not support an option, or cannot represent a schema.
    """
    require_request(messages, tools, options, structured_output)
    tools = tools.declared
    extras = options.extra(GeminiOptions, dialect.provider)
    declarations = tools
    output_tool = output_tool_name(tools, structured_output, options, dialect)
    if output_tool is not None and structured_output is not None:
        declarations = with_output_tool(tools, output_tool, structured_output)
        structured_output = None
    elif tools and (options.tool_choice == "required" or isinstance(options.tool_choice, NamedTool)):
        structured_output = None  # newer models reject a schema with a forced call; the output follows the call
    encoded_tools = encode_tools(declarations, extras, dialect)
    view = messages.view()
    token, suspended = _continuation(view, dialect)
    pieces = [encode_conversation(view, dialect, options, omitted=suspended)]
    if token is not None:
        pieces += [b',"continuationToken":', dump_bytes(token)]
    if encoded_tools:
        pieces += [b',"tools":[', encoded_tools, b"]"]
    fields = _option_fields(options, extras, structured_output, dialect, tools=tools, output_tool=output_tool)
    pieces += [b",", dump_bytes(fields)[1:]] if fields else [b"}"]
    return b"".join([b"{", *pieces])


def encode_conversation(view: View, dialect: Dialect, options: ChatOptions | None = None, *, omitted: int = 0) -> bytes:
    """Return the `systemInstruction` and `contents` fields as JSON, without the braces of the enclosing object.

    Args:
        view: the turns to send.
        dialect: the request format of the model.
        options: options of the request, for its instructions.
        omitted: number of turns at the end that are not sent.

    Raises:
        PendingToolsError: a tool call is not resolved.
        UnsupportedPartError: the API cannot represent a part.
    """
    instructions: list[bytes] = []
    contents: list[bytes] = []
    encoders = {role: _TurnEncoder(role, dialect) for role in ROLES}
    for role, turn in view.turns[: len(view.turns) - omitted] if omitted else view.turns:
        if data := turn.encoded(dialect.turn_key, encoders[role]):
            (instructions if role == "system" else contents).append(data)
    if options is not None and options.instructions is not None:
        encode_turn = encoders["system"]
        before, after = instruction_turns(options)
        instructions = [*map(encode_turn, before), *instructions, *map(encode_turn, after)]
    system = [b'"systemInstruction":{"parts":[', b",".join(instructions), b"]},"] if instructions else []
    return b"".join([*system, b'"contents":[', b",".join(contents), b"]"])


def _continuation(view: View, dialect: Dialect) -> tuple[str | None, int]:
    """Return the token that continues the last response, and the number of its turns at the end of `view`.

    The server continues a response that ended with `CONTINUATION` if the same request is sent again with the token, so
    the turns received so far are not sent.
    """
    token: str | None = None
    count = 0
    for role, turn in reversed(view.turns):
        metadata = turn.metadata
        if (
            role != "model"
            or metadata is None
            or (metadata.provider, metadata.finish_reason) != (dialect.provider, "CONTINUATION")
            or turn.tools
            or not isinstance(found := metadata.extra.get("continuationToken"), str)
        ):
            break
        token = token or found
        count += 1
    return token, count


class _TurnEncoder:
    """Callable that encodes turns of one role, and is called only for turns that are not in the cache."""

    __slots__ = ("_dialect", "_role")

    def __init__(self, role: str, dialect: Dialect) -> None:
        self._role = role
        self._dialect = dialect

    def __call__(self, turn: Turn) -> bytes:
        # Empty texts are not sent. A system turn becomes parts of one field and not a message.
        if (text := sole_text(turn)) and self._role != "system":
            return dump_checked({"role": self._role, "parts": [{"text": text}]})
        if self._role == "system":
            return _join_json(system_parts(turn, self._dialect))
        if self._role == "user":
            content = user_content(turn, self._dialect)
            return b"" if content is None else dump_checked(content)
        if not turn.settled:
            waiting = [tool.id for tool in turn.tools if not tool.resolved]
            msg = f"cannot send a request with pending tool calls ({', '.join(waiting)}): decide or cancel them first"
            raise PendingToolsError(msg, waiting)
        return _join_json(model_contents(turn, self._dialect))


def _join_json(items: Sequence[Json]) -> bytes:
    return b",".join([dump_checked(item) for item in items])


# --- Tools --------------------------------------------------------------------------------------------------


def encode_tools(tools: ToolDeclarations, extras: GeminiOptions | None, dialect: Dialect) -> bytes:
    """Return the tool declarations as JSON objects joined by commas: the chat's tools, then server-side tools.

    Args:
        tools: tools of the chat that the model may call.
        extras: options with further server-side tools.
        dialect: the request format of the model.

    Raises:
        UnsupportedOptionError: the API does not accept a tool's name, or cannot represent its parameters.
    """
    pieces: list[bytes] = []
    if tools:
        declarations = tools.encoded(
            dialect.tools_key,
            lambda items: b",".join([dump_bytes(_encode_declaration(item, dialect)) for item in items]),
        )
        pieces.append(b'{"functionDeclarations":[' + declarations + b"]}")
    pieces += [dump_bytes(dict(tool)) for tool in dialect.native_tools]
    if extras is not None:
        pieces += [dump_bytes(dict(tool)) for tool in extras.tools]
    return b",".join(pieces)


def _encode_declaration(item: ToolDeclaration, dialect: Dialect) -> Json:
    if NAME.fullmatch(item.name) is None:
        msg = (
            f"invalid tool name {item.name!r}: {dialect.provider} allows up to 128 letters, digits, underscores, dots, "
            "colons and dashes, beginning with a letter or underscore; rename the tool"
        )
        raise UnsupportedOptionError(msg)
    declaration: Json = {"name": item.name}
    if item.description:
        declaration["description"] = item.description
    field = "parametersJsonSchema" if dialect.schemas == "json" else "parameters"
    declaration[field] = _encode_schema(item.parameters, dialect, f"the parameters of the tool {item.name!r}")
    return declaration


def _encode_schema(schema: Mapping[str, object], dialect: Dialect, label: str) -> Json:
    if dialect.schemas == "json":
        return json_form(schema)
    try:
        return openapi_form(schema)
    except InexpressibleError as error:
        msg = f"{dialect.provider} does not accept {label}: {error}"
        raise UnsupportedOptionError(msg) from None


# --- Other fields -------------------------------------------------------------------------------------------


def _option_fields(
    options: ChatOptions,
    extras: GeminiOptions | None,
    structured_output: OutputSchema | None,
    dialect: Dialect,
    *,
    tools: ToolDeclarations,
    output_tool: str | None,
) -> Json:
    """Return all fields of the request body except the conversation and the tools."""
    fields: Json = {}
    config: Json = {}
    if choice := _tool_choice(options, extras, dialect, tools, output_tool):
        config["functionCallingConfig"] = choice
    if extras is not None and extras.server_calls is not None:
        config["includeServerSideToolInvocations"] = extras.server_calls
    if dialect.retrieval:
        config["retrievalConfig"] = dict(dialect.retrieval)
    if config:
        fields["toolConfig"] = config
    safety = extras.safety if extras is not None and extras.safety is not None else dialect.safety
    if safety:
        fields["safetySettings"] = [item.to_dict() for item in safety]
    for name, field in TOP_LEVEL.items():
        if (value := getattr(extras, name, None)) is not None:
            fields[field] = dict(value) if name == "labels" else value
    if generation := _generation_config(options, extras, structured_output, dialect):
        fields["generationConfig"] = generation
    if extras is not None:
        _add_fields(fields, extras.extra_body, "extra_body", RESERVED)
    return fields


def _generation_config(
    options: ChatOptions, extras: GeminiOptions | None, structured_output: OutputSchema | None, dialect: Dialect
) -> Json:
    config: Json = {}
    for name, field in DIRECT.items():
        if (value := getattr(options, name)) is not None:
            config[field] = value
    if options.stop is not None:
        config["stopSequences"] = list(options.stop)
    if dialect.modalities is not None:
        config["responseModalities"] = list(dialect.modalities)
    for name, field in EXTRAS.items():
        if (value := getattr(extras, name, None)) is not None:
            config[field] = _to_dict(value)
    if thinking := _thinking_config(options.reasoning, extras, dialect):
        config["thinkingConfig"] = thinking
    if structured_output is not None:
        config["responseMimeType"] = "application/json"
        field = "responseJsonSchema" if dialect.schemas == "json" else "responseSchema"
        config[field] = _encode_schema(structured_output.schema, dialect, f"the schema {structured_output.name!r}")
    if extras is not None:
        _add_fields(config, extras.generation_config, "generation_config")
    return config


def _add_fields(
    fields: Json, further: Mapping[str, object] | None, option: str, reserved: frozenset[str] = frozenset()
) -> None:
    for name, value in (further or {}).items():
        if name in fields or name in reserved:
            msg = f"{option} cannot replace {name!r}, set by the library: use the option for it"
            raise UnsupportedOptionError(msg)
        fields[name] = value


def _to_dict(value: Any) -> object:  # noqa: ANN401 - JSON
    return dict(value) if is_mapping(value) else value


def _thinking_config(reasoning: str | int | None, extras: GeminiOptions | None, dialect: Dialect) -> Json:
    config: Json = {}
    include_thoughts = extras.include_thoughts if extras is not None else None
    if include_thoughts is None:
        include_thoughts = dialect.include_thoughts
    if include_thoughts is not None:
        config["includeThoughts"] = include_thoughts
    if isinstance(reasoning, int):
        config["thinkingBudget"] = reasoning
    elif reasoning is not None and dialect.thinking == "budget":
        if reasoning not in BUDGETS:
            _reject_effort(reasoning, dialect, BUDGETS)
        config["thinkingBudget"] = BUDGETS[reasoning]
    elif reasoning is not None:
        if reasoning not in LEVELS:
            _reject_effort(reasoning, dialect, LEVELS)
        config["thinkingLevel"] = reasoning
    return config


def _reject_effort(effort: str, dialect: Dialect, known: Iterable[str]) -> None:
    names = ", ".join([repr(name) for name in known])
    msg = f"{dialect.provider} does not support reasoning={effort!r} for {dialect.model}: use one of {names}"
    raise UnsupportedOptionError(msg)


def _tool_choice(
    options: ChatOptions,
    extras: GeminiOptions | None,
    dialect: Dialect,
    tools: ToolDeclarations,
    output_tool: str | None,
) -> Json:
    if options.parallel_tool_calls is False:
        msg = f"{dialect.provider} does not support parallel_tool_calls=False: remove the option"
        raise UnsupportedOptionError(msg)
    choice = options.tool_choice
    mode = extras.function_mode if extras is not None else None
    names = extras.allowed_functions if extras is not None else None
    if choice is not None and (mode is not None or names is not None):
        msg = "tool_choice cannot be combined with function_mode or allowed_functions: remove one of them"
        raise UnsupportedOptionError(msg)
    if not tools:
        if choice == "required" or isinstance(choice, NamedTool):
            msg = f"tool_choice={choice!r} requires tools, but none are declared: add tools, or remove tool_choice"
            raise UnsupportedOptionError(msg)
        choice = None  # without tools, "auto" and "none" have no effect
    tools.require_choice(choice)
    config = _calling_mode(choice, output_tool, tools)
    if mode is not None:
        config["mode"] = mode
    if names is not None:
        config["allowedFunctionNames"] = [*names, *([] if output_tool is None else [output_tool])]
    if extras is not None and extras.stream_arguments is not None:
        config["streamFunctionCallArguments"] = extras.stream_arguments
    return config


def _calling_mode(choice: ToolChoice | None, output_tool: str | None, tools: ToolDeclarations) -> Json:
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    if output_tool is not None and choice == "required":
        return {"mode": "ANY", "allowedFunctionNames": [tool.name for tool in tools]}
    if output_tool is not None:
        # The response is a call of one of the tools or of the output tool.
        return {"mode": "ANY", **({"allowedFunctionNames": [output_tool]} if choice == "none" else {})}
    return {} if choice is None else {"mode": {"auto": "AUTO", "none": "NONE", "required": "ANY"}[choice]}
