"""Encoder for request bodies.

The body is joined from pieces of bytes: one per turn, one for the tools, and one for the other fields. The pieces of
final turns and of tools are cached, so a request with a long history mostly joins cached bytes. A cache point that
moves with the conversation is added to the last turn only, outside the cached pieces. The bytes before the cache point
therefore do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

from chat_core.errors import PendingToolsError, UnsupportedOptionError, UnsupportedPartError, UsageError
from chat_core.json import dump_bytes, dump_checked, dumps
from chat_core.messages import File, Messages, Tool, Turn, View
from chat_core.options import ChatOptions
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations, require_request
from chat_core.wire.instructions import instruction_turns
from chat_core.wire.parts import sole_text
from chat_core.wire.shapes import Json

from chat_claude.options import Cache, ClaudeOptions, Dialect, McpServer, NativeTool
from chat_claude.parts import ID as NAME
from chat_claude.parts import add_cache_point, cache_point, input_blocks, model_blocks
from chat_claude.request import Settings, resolve_settings
from chat_claude.schema import StrictLimits, input_schema, strict_schema

NO_CACHE: Final = Cache()

URL_SOURCE: Final = b'"type":"url"'
FILE_ID: Final = b'"file_id":"'
FILES_BETA: Final = "files-api-2025-04-14"
"""Beta feature required if the body contains `FILE_ID`, which cannot occur inside a JSON string: quotes are escaped."""

COUNT_FIELDS: Final = frozenset(
    {"tool_choice", "thinking", "output_config", "cache_control", "mcp_servers", "context_management", "speed"}
)
"""Request fields that the token count endpoint accepts, in addition to model, system, tools and messages."""


@final
@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded request: its body, beta features and output tool.

    Attributes:
        body: JSON body.
        betas: values of the `anthropic-beta` header.
        output_tool: name of the tool whose arguments are the structured output, if structured output is requested by a
            tool.
    """

    body: bytes = field(repr=False)  # may contain the token of an MCP server
    betas: tuple[str, ...] = ()
    output_tool: str | None = None


def encode(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: Dialect,
    stream: bool,
) -> Encoded:
    """Encode a completion request.

    Args:
        messages: the conversation to send.
        tools: tools of the chat that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        dialect: the request format for the model on its platform.
        stream: whether to request a stream.

    Raises:
        PendingToolsError: a tool call in the history is not resolved.
        UnsupportedPartError: the Messages API cannot represent a part of the history.
        UnsupportedOptionError: Claude, or this model, does not support an option.
        UsageError: options contradict each other, or there is no message to send.
    """
    require_request(messages, tools, options, structured_output)
    tools = tools.declared
    view = messages.view()
    settings = resolve_settings(view, tools, options, structured_output, dialect)
    fields = dict(settings.fields)
    if dialect.stream_in_body and stream:
        fields["stream"] = True
    return _assemble_request(view, tools, options, settings, fields=fields, dialect=dialect)


def encode_count(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: Dialect,
) -> Encoded:
    """Encode a request that counts input tokens. Raises the same errors as `encode()`.

    Args:
        messages: the conversation to send.
        tools: tools of the chat that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        dialect: the request format for the model on its platform.
    """
    require_request(messages, tools, options, structured_output)
    tools = tools.declared
    view = messages.view()
    settings = resolve_settings(view, tools, options, structured_output, dialect)
    fields = {name: value for name, value in settings.fields.items() if name in COUNT_FIELDS}
    return _assemble_request(view, tools, options, settings, fields=fields, dialect=dialect)


def _assemble_request(
    view: View,
    tools: ToolDeclarations,
    options: ChatOptions,
    settings: Settings,
    *,
    fields: Json,
    dialect: Dialect,
) -> Encoded:
    extras = settings.extras
    cache = extras.cache or NO_CACHE if extras is not None else NO_CACHE
    system, conversation = encode_turns(view, dialect, cache, options)
    if not dialect.urls and URL_SOURCE in conversation:
        _reject_urls(view, dialect)
    declarations = _encode_tools(tools, settings, dialect, cache)
    platform: Json = {"model": dialect.model} if dialect.model_in_body else {}
    if dialect.anthropic_version is not None:
        platform["anthropic_version"] = dialect.anthropic_version
    if settings.betas and dialect.betas_in_body:
        platform["anthropic_beta"] = list(settings.betas)
    pieces = [dump_bytes(platform | fields)[:-1], b"," if platform or fields else b""]
    if system:
        pieces += [b'"system":[', system, b"],"]
    if declarations:
        pieces += [b'"tools":[', declarations, b"],"]
    pieces += [b'"messages":[', conversation, b"]}"]
    betas = () if dialect.betas_in_body else settings.betas
    if FILE_ID in conversation and FILES_BETA not in betas and not dialect.betas_in_body:
        betas = (*betas, FILES_BETA)
    return Encoded(b"".join(pieces), betas, settings.output_tool)


def _reject_urls(view: View, dialect: Dialect) -> None:
    parts = [part for _, turn in view.turns for part in turn.parts]
    files = [file for part in parts if isinstance(part, Tool) for file in part.result_files]
    for file in [*[part for part in parts if isinstance(part, File)], *files]:
        if file.url is not None:
            msg = (
                f"{dialect.provider} does not accept File(mime={file.mime!r}) by URL on this platform: attach its bytes"
            )
            raise UnsupportedPartError(msg)


# --- Messages -------------------------------------------------------------------------------------------------


def encode_turns(
    view: View, dialect: Dialect, cache: Cache = NO_CACHE, options: ChatOptions | None = None
) -> tuple[bytes, bytes]:
    """Return the JSON of the system blocks and of the messages, each as a list without its brackets.

    Args:
        view: the turns to send.
        dialect: the request format for the model on its platform.
        cache: cache points to set. Default: none. The system cache point is set before instructions that may change
            with each request.
        options: options of the request, for its instructions.

    Raises:
        PendingToolsError: a tool call is not resolved.
        UnsupportedPartError: the Messages API cannot represent a part.
        UsageError: there is no message to send.
    """
    system_turns, message_turns = _split_system(view, dialect)
    if options is None or options.instructions is None:
        system = _join_turns(system_turns, cache.system)
    else:
        system = _join_instructions(system_turns, options, dialect, cache)
    conversation = _join_turns(message_turns, cache.messages)
    if not conversation:
        msg = f"{dialect.provider} needs at least one user message: add one with messages.user('…')"
        raise UsageError(msg)
    return system, conversation


def _split_system(view: View, dialect: Dialect) -> tuple[Turns, Turns]:
    """Return the turns for the `system` field and the turns for the messages, each paired with its encoder."""
    system_turns: Turns = []
    message_turns: Turns = []
    system, message = _Encoder("system", dialect), _Encoder("system message", dialect)
    encoders = {"user": _Encoder("user", dialect), "model": _Encoder("model", dialect)}
    for role, turn in view.turns:
        if role != "system":
            message_turns.append((encoders[role], turn))
        elif dialect.system_in_place and message_turns:
            message_turns.append((message, turn))
        else:
            system_turns.append((system, turn))
    return system_turns, message_turns


def _join_instructions(turns: Turns, options: ChatOptions, dialect: Dialect, cache: Cache) -> bytes:
    """Return the encoded system blocks, with the request's instructions before and after the stored system turns.

    Args:
        turns: stored system turns.
        options: settings of the request, such as `temperature`.
        dialect: the request format for the model on its platform.
        cache: cache points to set.
    """
    encoder = _Encoder("system", dialect)
    before, after = instruction_turns(options)
    fixed = _join_turns([*[(encoder, turn) for turn in before], *turns], cache.system)
    changing = _join_turns([(encoder, turn) for turn in after], None if fixed else cache.system)
    return b",".join([blocks for blocks in (fixed, changing) if blocks])


def _join_turns(turns: Turns, ttl: str | None) -> bytes:
    marked, cached_count = b"", len(turns)
    # The next request has its cache point on a later turn. The marked turn, the last one that is not empty, is
    # therefore encoded for this request only and not cached.
    while ttl is not None and cached_count and not marked:
        cached_count -= 1
        encoder, turn = turns[cached_count]
        marked = encoder.encode_marked(turn, ttl)
    pieces = [turn.encoded(encoder.key, encoder) for encoder, turn in turns[:cached_count]]
    return b",".join([piece for piece in [*pieces, marked] if piece])


@final
class _Encoder:
    """Callable that encodes turns of one form.

    The form is `user`, `model`, `system` for the `system` field, or `system message` for a message in the conversation.
    """

    __slots__ = ("_dialect", "_form", "key")

    def __init__(self, form: str, dialect: Dialect) -> None:
        self._form = form
        self._dialect = dialect
        self.key = dialect.turn_key if form != "system" else f"{dialect.turn_key}\x1fsystem"

    def __call__(self, turn: Turn) -> bytes:
        # The API rejects blank texts. A text for the `system` field is a block and not a message.
        if (text := sole_text(turn)) is not None and text.strip() and self._form != "system":
            return _encode_message(MESSAGE_ROLES[self._form], [{"type": "text", "text": text}])
        return self._encode_turn(turn, None)

    def encode_marked(self, turn: Turn, ttl: str) -> bytes:
        """Return `turn` as JSON with a cache point of lifetime `ttl` on the last block that can have one."""
        return self._encode_turn(turn, ttl)

    def _encode_turn(self, turn: Turn, ttl: str | None) -> bytes:
        provider = self._dialect.provider
        if self._form == "model":
            return _encode_model_turn(turn, provider, ttl)
        blocks = input_blocks(turn, provider, "user" if self._form == "user" else "system")
        if ttl is not None:
            add_cache_point(blocks, ttl)
        if self._form == "system":
            return b",".join([dump_checked(block) for block in blocks])
        return _encode_message(MESSAGE_ROLES[self._form], blocks)


MESSAGE_ROLES: Final = {"user": "user", "model": "assistant", "system message": "system"}
"""The role of a message by the form of its turn."""

Turns: TypeAlias = list[tuple[_Encoder, Turn]]


def _encode_message(role: str, blocks: list[Json]) -> bytes:
    """Return a message as JSON, or empty bytes if there are no blocks, because the API rejects an empty message."""
    return dump_checked({"role": role, "content": blocks}) if blocks else b""


def _encode_model_turn(turn: Turn, provider: str, ttl: str | None) -> bytes:
    if not turn.settled:
        waiting = [tool.id for tool in turn.tools if not tool.resolved]
        msg = f"cannot send a request with pending tool calls ({', '.join(waiting)}): decide or cancel them first"
        raise PendingToolsError(msg, waiting)
    blocks, results = model_blocks(turn, provider)
    if ttl is not None:
        add_cache_point(results or blocks, ttl)
    message = _encode_message("assistant", blocks)
    if not results:
        return message
    return b",".join([data for data in (message, _encode_message("user", results)) if data])


# --- Tools ------------------------------------------------------------------------------------------------------


def _encode_tools(tools: ToolDeclarations, settings: Settings, dialect: Dialect, cache: Cache) -> bytes:
    """Return all tool declarations as JSON objects joined by commas.

    The order is the chat's tools, native tools, MCP toolsets, then the output tool.
    """
    extras = settings.extras
    others = _encode_server_tools(settings, dialect, extras)
    other_names = frozenset([name for tool in others if isinstance(name := tool.get("name"), str)])
    fields = (extras.tool_fields if extras is not None else None) or {}
    ttl = cache.tools if cache.tools is not None else ""
    if ttl and others:
        others[-1] = {"cache_control": cache_point(ttl), **others[-1]}
    limits = settings.strict_limits
    own = tools.encoded(
        (dialect.tools_key, other_names, dumps(_to_dicts(fields)), "" if others else ttl, limits),
        _ToolEncoder(dialect, other_names, fields, "" if others else ttl, limits),
    )
    pieces = [own] if own else []
    return b",".join([*pieces, *[dump_bytes(tool) for tool in others]])


def _to_dicts(fields: Mapping[str, Mapping[str, object]]) -> Json:
    return {name: dict(value) for name, value in fields.items()}


def _encode_server_tools(settings: Settings, dialect: Dialect, extras: ClaudeOptions | None) -> list[Json]:
    native: list[NativeTool | Mapping[str, object]] = [*dialect.tools]
    servers: list[McpServer] = [*dialect.mcp_servers]
    if extras is not None:
        native += extras.tools
        servers += extras.mcp_servers
    declarations: list[Json] = [dict(tool) if isinstance(tool, Mapping) else tool.to_wire() for tool in native]
    declarations += [_encode_mcp_toolset(server) for server in servers if not server.legacy]
    if settings.output_declaration is not None:
        declarations.append(settings.output_declaration)
    return declarations


def _encode_mcp_toolset(server: McpServer) -> Json:
    toolset: Json = {"type": "mcp_toolset", "mcp_server_name": server.name}
    default: Json = {"defer_loading": True} if server.defer_loading else {}
    if server.allowed_tools is not None:
        default["enabled"] = False
        toolset["configs"] = {name: {"enabled": True} for name in server.allowed_tools}
    return {**toolset, "default_config": default} if default else toolset


@final
class _ToolEncoder:
    """Callable that encodes the chat's tools, except those with a native declaration of the same name.

    Tools are sent as strict, in order, until a limit of the API is reached. The other schemas are sent unchanged.
    """

    __slots__ = ("_dialect", "_excluded", "_fields", "_limits", "_ttl")

    def __init__(
        self,
        dialect: Dialect,
        excluded: frozenset[str],
        fields: Mapping[str, Mapping[str, object]],
        ttl: str,
        limits: tuple[int, int, int],
    ) -> None:
        self._dialect = dialect
        self._excluded = excluded
        self._fields = fields
        self._ttl = ttl
        self._limits = StrictLimits(limits)

    def __call__(self, items: Sequence[ToolDeclaration]) -> bytes:
        tools = [self._encode_declaration(item) for item in items if item.name not in self._excluded]
        if self._ttl and tools:
            tools[-1].setdefault("cache_control", cache_point(self._ttl))
        return b",".join([dump_bytes(tool) for tool in tools])

    def _encode_declaration(self, item: ToolDeclaration) -> Json:
        if not NAME.fullmatch(item.name):
            msg = (
                f"invalid tool name {item.name!r}: Claude allows 1 to 128 letters, digits, `_` and `-`; rename the tool"
            )
            raise UnsupportedOptionError(msg)
        tool: Json = {"name": item.name}
        if item.description:
            tool["description"] = item.description
        strict = strict_schema(item.parameters) if self._dialect.strict_tools else None
        if strict is not None and not self._limits.take(strict, tools=1):
            strict = None
        tool["input_schema"] = input_schema(item.parameters, item.name) if strict is None else strict
        if strict is not None:
            tool["strict"] = True
        return {**tool, **self._fields.get(item.name, {})}
