"""From a conversation to the body of a request.

The body is joined from pieces of bytes: one for each turn, kept with the turn once it can no longer change, one for the
tools, kept with them, and one for everything that is new in this request.

Instructions have a place of their own on this wire, before everything else: wherever in the history they stand, they
are sent there, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from chat_core.errors import PendingToolsError, UnsupportedOptionError
from chat_core.json import dump_bytes
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.wire.shapes import Json, is_mapping

from chat_gemini.options import Dialect, GeminiOptions
from chat_gemini.parts import model_contents, system_parts, user_content
from chat_gemini.schema import InexpressibleError, json_form, openapi_form

DIRECT: Final = {"temperature": "temperature", "top_p": "topP", "seed": "seed", "max_tokens": "maxOutputTokens"}

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
"""Options of this wire alone, and their names in `generationConfig`."""

BESIDE: Final = {"cached_content": "cachedContent", "labels": "labels", "service_tier": "serviceTier", "store": "store"}
"""The same beside it."""

TAKEN: Final = frozenset({"contents", "systemInstruction", "tools", "generationConfig", "model"})

BUDGETS: Final[Mapping[str, int]] = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
"""Efforts in tokens, as the vendor's own table for other clients has them."""

NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
"""The names that functions may have."""

LEVELS: Final = ("minimal", "low", "medium", "high")


def encode(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: Dialect,
) -> bytes:
    """The body of a request, the same for a stream and for a whole answer.

    Raises:
        PendingToolsError: a call in the history is not resolved.
        UnsupportedPartError: this wire has no place for a part of the history.
        UnsupportedOptionError: this wire does not know an option, or cannot say what a schema says.
    """
    extras = options.extra(GeminiOptions, dialect.provider)  # noqa: S610 - not Django
    declared = encode_tools(tools, extras, dialect)
    pieces = [encode_conversation(messages, dialect)]
    if declared:
        pieces += [b',"tools":[', declared, b"]"]
    rest = _rest(options, extras, structured_output, dialect, tools=tools)
    pieces += [b",", dump_bytes(rest)[1:]] if rest else [b"}"]
    return b"".join([b"{", *pieces])


def encode_conversation(messages: Messages, dialect: Dialect) -> bytes:
    """The instructions and the contents, as members of an object without its braces.

    Raises:
        PendingToolsError: a call is not resolved.
        UnsupportedPartError: this wire has no place for a part.
    """
    said: list[bytes] = []
    contents: list[bytes] = []
    for content in messages:
        encoder = _encoder(content.role, dialect)
        place = said if content.role == "system" else contents
        place += [data for turn in content.turns if (data := turn.encoded(dialect.turn_key, encoder))]
    system = [b'"systemInstruction":{"parts":[', b",".join(said), b"]},"] if said else []
    return b"".join([*system, b'"contents":[', b",".join(contents), b"]"])


class _encoder:  # noqa: N801 - a closure in all but name
    """Encodes the turns of one role. The cache calls it only for turns that are new."""

    __slots__ = ("_dialect", "_role")

    def __init__(self, role: str, dialect: Dialect) -> None:
        self._role = role
        self._dialect = dialect

    def __call__(self, turn: Turn) -> bytes:
        if self._role == "system":
            return _joined(system_parts(turn, self._dialect))
        if self._role == "user":
            content = user_content(turn, self._dialect)
            return b"" if content is None else dump_bytes(content)
        waiting = [tool.id for tool in turn.tools if not tool.resolved]
        if waiting:
            msg = f"a request cannot be sent while calls wait ({', '.join(waiting)}): decide or cancel them first"
            raise PendingToolsError(msg, waiting)
        return _joined(model_contents(turn, self._dialect))


def _joined(items: Sequence[Json]) -> bytes:
    return b",".join([dump_bytes(item) for item in items])


# --- Tools --------------------------------------------------------------------------------------------------


def encode_tools(tools: ToolDeclarations, extras: GeminiOptions | None, dialect: Dialect) -> bytes:
    """The tools, joined by commas: the chat's own, then those that the server knows by itself."""
    pieces: list[bytes] = []
    if tools:
        declared = tools.encoded(
            dialect.tools_key, lambda items: _joined([_declaration(item, dialect) for item in items])
        )
        pieces.append(b'{"functionDeclarations":[' + declared + b"]}")
    pieces += [dump_bytes(dict(tool)) for tool in dialect.native_tools]
    if extras is not None:
        pieces += [dump_bytes(dict(tool)) for tool in extras.tools]
    return b",".join(pieces)


def _declaration(item: ToolDeclaration, dialect: Dialect) -> Json:
    if NAME.fullmatch(item.name) is None:
        msg = (
            f"{dialect.provider} takes no tool of the name {item.name!r}: a name begins with a letter or underscore, "
            "and has up to 128 letters, digits, underscores, dots, colons and dashes"
        )
        raise UnsupportedOptionError(msg)
    declaration: Json = {"name": item.name}
    if item.description:
        declaration["description"] = item.description
    field = "parametersJsonSchema" if dialect.schemas == "json" else "parameters"
    declaration[field] = _schema(item.parameters, dialect, f"the parameters of the tool {item.name!r}")
    return declaration


def _schema(schema: Mapping[str, object], dialect: Dialect, what: str) -> Json:
    if dialect.schemas == "json":
        return json_form(schema)
    try:
        return openapi_form(schema)
    except InexpressibleError as error:
        msg = f"{dialect.provider} cannot be told {what}: {error}"
        raise UnsupportedOptionError(msg) from None


# --- Everything else ----------------------------------------------------------------------------------------


def _rest(
    options: ChatOptions,
    extras: GeminiOptions | None,
    structured_output: OutputSchema | None,
    dialect: Dialect,
    *,
    tools: ToolDeclarations,
) -> Json:
    """Everything but the conversation and the tools."""
    rest: Json = {}
    config: Json = {}
    if choice := _choice(options, extras, dialect, tools):
        config["functionCallingConfig"] = choice
    if extras is not None and extras.server_calls is not None:
        config["includeServerSideToolInvocations"] = extras.server_calls
    if dialect.retrieval:
        config["retrievalConfig"] = dict(dialect.retrieval)
    if config:
        rest["toolConfig"] = config
    safety = extras.safety if extras is not None and extras.safety is not None else dialect.safety
    if safety:
        rest["safetySettings"] = [item.to_dict() for item in safety]
    for name, field in BESIDE.items():
        if (value := getattr(extras, name, None)) is not None:
            rest[field] = dict(value) if name == "labels" else value
    if generation := _generation(options, extras, structured_output, dialect):
        rest["generationConfig"] = generation
    if extras is not None:
        _add(rest, extras.extra_body, "extra_body", TAKEN)
    return rest


def _generation(
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
            config[field] = _plain(value)
    if thinking := _thinking(options.reasoning, extras, dialect):
        config["thinkingConfig"] = thinking
    if structured_output is not None:
        config["responseMimeType"] = "application/json"
        field = "responseJsonSchema" if dialect.schemas == "json" else "responseSchema"
        config[field] = _schema(structured_output.schema, dialect, f"the schema {structured_output.name!r}")
    if extras is not None:
        _add(config, extras.generation_config, "generation_config")
    return config


def _add(fields: Json, further: Mapping[str, object] | None, what: str, taken: frozenset[str] = frozenset()) -> None:
    for name, value in (further or {}).items():
        if name in fields or name in taken:
            msg = f"{what} cannot hold {name!r}, which the request already has: set it by its own option"
            raise UnsupportedOptionError(msg)
        fields[name] = value


def _plain(value: Any) -> object:  # noqa: ANN401 - JSON
    return dict(value) if is_mapping(value) else value


def _thinking(reasoning: str | int | None, extras: GeminiOptions | None, dialect: Dialect) -> Json:
    config: Json = {}
    told = extras.include_thoughts if extras is not None and extras.include_thoughts is not None else None
    told = dialect.include_thoughts if told is None else told
    if told is not None:
        config["includeThoughts"] = told
    if isinstance(reasoning, int):
        config["thinkingBudget"] = reasoning
    elif reasoning is not None and dialect.thinking == "budget":
        if reasoning not in BUDGETS:
            _refuse_effort(reasoning, dialect, BUDGETS)
        config["thinkingBudget"] = BUDGETS[reasoning]
    elif reasoning is not None:
        if reasoning not in LEVELS:
            _refuse_effort(reasoning, dialect, LEVELS)
        config["thinkingLevel"] = reasoning
    return config


def _refuse_effort(effort: str, dialect: Dialect, known: Iterable[str]) -> None:
    names = ", ".join([repr(name) for name in known])
    msg = f"{dialect.provider} does not know the option reasoning={effort!r} for {dialect.model}: choose one of {names}"
    raise UnsupportedOptionError(msg)


def _choice(options: ChatOptions, extras: GeminiOptions | None, dialect: Dialect, tools: ToolDeclarations) -> Json:
    if options.parallel_tool_calls is False:
        msg = f"{dialect.provider} cannot be kept from parallel calls: leave parallel_tool_calls out"
        raise UnsupportedOptionError(msg)
    choice = options.tool_choice
    mode = extras.function_mode if extras is not None else None
    names = extras.allowed_functions if extras is not None else None
    if choice is not None and (mode is not None or names is not None):
        msg = "tool_choice and function_mode say one thing in two ways: leave one of them out"
        raise UnsupportedOptionError(msg)
    if not tools:
        if choice == "required" or isinstance(choice, NamedTool):
            msg = f"tool_choice={choice!r} needs tools, and there are none: add them, or leave the choice out"
            raise UnsupportedOptionError(msg)
        choice = None  # without tools, "auto" and "none" ask for nothing
    config: Json = {}
    if isinstance(choice, NamedTool):
        config = {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    elif choice is not None:
        config = {"mode": {"auto": "AUTO", "none": "NONE", "required": "ANY"}[choice]}
    if mode is not None:
        config["mode"] = mode
    if names is not None:
        config["allowedFunctionNames"] = list(names)
    if extras is not None and extras.stream_arguments is not None:
        config["streamFunctionCallArguments"] = extras.stream_arguments
    return config
