"""From a conversation to the body of a request.

The body is joined from pieces of bytes: one for each turn, kept with the turn once it can no longer change, one for the
tools, kept with them, and one for everything that is new in this request. A long history costs a join. A cache point
that moves is put on the last turn alone, outside of what is kept, so that all that stands before it stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

from chat_core.errors import PendingToolsError, UnsupportedOptionError, UnsupportedPartError, UsageError
from chat_core.json import dump_bytes, dumps
from chat_core.messages import File, Messages, Tool, Turn
from chat_core.options import ChatOptions
from chat_core.provider import OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.wire.shapes import Json

from chat_claude.options import Cache, ClaudeOptions, Dialect, McpServer, NativeTool
from chat_claude.parts import ID as NAME
from chat_claude.parts import cache_point, mark, model_blocks, said_blocks
from chat_claude.request import Settings, settings
from chat_claude.schema import input_schema, strict_schema

NO_CACHE: Final = Cache()

URL_SOURCE: Final = b'"type":"url"'
FILE_ID: Final = b'"file_id":"'
FILES_BETA: Final = "files-api-2025-04-14"
"""What the API wants to be told where a file is named by its id. No text holds these bytes: it escapes its quotes."""

COUNTED: Final = frozenset(
    {"tool_choice", "thinking", "output_config", "cache_control", "mcp_servers", "context_management", "speed"}
)
"""What counting tokens takes of a request, beside the model and what is said."""


@final
@dataclass(frozen=True, slots=True)
class Encoded:
    """A request.

    Attributes:
        body: its body.
        betas: the beta features that it needs.
        output_tool: the tool whose arguments are the structured answer, where one is asked for in that way.
    """

    body: bytes = field(repr=False)  # it may hold the token of an MCP server
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
    """A request for an answer.

    Raises:
        PendingToolsError: a call in the history is not resolved.
        UnsupportedPartError: this wire has no place for a part of the history.
        UnsupportedOptionError: Claude, or this model, does not know an option.
        UsageError: options contradict each other, or nothing was said.
    """
    chosen = settings(messages, tools, options, structured_output, dialect)
    fields = dict(chosen.fields)
    if dialect.stream_in_body and stream:
        fields["stream"] = True
    return _encoded(messages, tools, chosen, fields, dialect)


def encode_count(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: Dialect,
) -> Encoded:
    """A request that asks how many tokens of input `encode()` would send. Raises as that does."""
    chosen = settings(messages, tools, options, structured_output, dialect)
    fields = {name: value for name, value in chosen.fields.items() if name in COUNTED}
    return _encoded(messages, tools, chosen, fields, dialect)


def _encoded(messages: Messages, tools: ToolDeclarations, chosen: Settings, fields: Json, dialect: Dialect) -> Encoded:
    extras = chosen.extras
    cache = extras.cache or NO_CACHE if extras is not None else NO_CACHE
    system, said = encode_turns(messages, dialect, cache)
    if not dialect.urls and URL_SOURCE in said:
        _refuse_urls(messages, dialect)
    declared = _declared(tools, chosen, dialect, cache)
    head: Json = {"model": dialect.model} if dialect.model_in_body else {}
    if dialect.anthropic_version is not None:
        head["anthropic_version"] = dialect.anthropic_version
    if chosen.betas and dialect.betas_in_body:
        head["anthropic_beta"] = list(chosen.betas)
    pieces = [dump_bytes(head | fields)[:-1], b"," if head or fields else b""]
    if system:
        pieces += [b'"system":[', system, b"],"]
    if declared:
        pieces += [b'"tools":[', declared, b"],"]
    pieces += [b'"messages":[', said, b"]}"]
    betas = () if dialect.betas_in_body else chosen.betas
    if FILE_ID in said and FILES_BETA not in betas and not dialect.betas_in_body:
        betas = (*betas, FILES_BETA)
    return Encoded(b"".join(pieces), betas, chosen.output_tool)


def _refuse_urls(messages: Messages, dialect: Dialect) -> None:
    parts = [part for content in messages for part in content.parts]
    files = [file for part in parts if isinstance(part, Tool) for file in part.result_files]
    for file in [*[part for part in parts if isinstance(part, File)], *files]:
        if file.url is not None:
            msg = f"{dialect.provider} takes no File(mime={file.mime!r}) by URL on this platform: attach its bytes"
            raise UnsupportedPartError(msg)


# --- What was said --------------------------------------------------------------------------------------------


def encode_turns(messages: Messages, dialect: Dialect, cache: Cache = NO_CACHE) -> tuple[bytes, bytes]:
    """The system blocks and the messages of the wire, each joined by commas.

    Raises:
        PendingToolsError: a call is not resolved.
        UnsupportedPartError: this wire has no place for a part.
        UsageError: there is no message.
    """
    system, said = _sorted(messages, dialect)
    above = _joined(system, cache.system)
    below = _joined(said, cache.messages)
    if not below:
        msg = f"{dialect.provider} wants a message of the user's: push one with messages.user('…')"
        raise UsageError(msg)
    return above, below


def _sorted(messages: Messages, dialect: Dialect) -> tuple[Turns, Turns]:
    """The turns for the top of the request, and those for its messages, each with what encodes it there."""
    above: Turns = []
    below: Turns = []
    system, message = _Encoder("system", dialect), _Encoder("system message", dialect)
    encoders = {"user": _Encoder("user", dialect), "model": _Encoder("model", dialect)}
    for content in messages:
        if content.role != "system":
            encoder = encoders[content.role]
            below += [(encoder, turn) for turn in content.turns]
        elif dialect.system_in_place and below:
            below += [(message, turn) for turn in content.turns]
        else:
            above += [(system, turn) for turn in content.turns]
    return above, below


def _joined(turns: Turns, ttl: str | None) -> bytes:
    marked, closed = b"", len(turns)
    # The point moves on with the next turn: what it marks, the last one that says anything, is encoded for this request
    # alone.
    while ttl is not None and closed and not marked:
        closed -= 1
        encoder, turn = turns[closed]
        marked = encoder.marked(turn, ttl)
    pieces = [turn.encoded(encoder.key, encoder) for encoder, turn in turns[:closed]]
    return b",".join([piece for piece in [*pieces, marked] if piece])


@final
class _Encoder:
    """Encodes the turns of one form."""

    __slots__ = ("_dialect", "_form", "key")

    def __init__(self, form: str, dialect: Dialect) -> None:
        self._form = form
        self._dialect = dialect
        self.key = dialect.turn_key if form != "system" else f"{dialect.turn_key}\x1fsystem"

    def __call__(self, turn: Turn) -> bytes:
        return self._encode(turn, None)

    def marked(self, turn: Turn, ttl: str) -> bytes:
        """The turn with a cache point on its last block."""
        return self._encode(turn, ttl)

    def _encode(self, turn: Turn, ttl: str | None) -> bytes:
        provider = self._dialect.provider
        if self._form == "model":
            return _model(turn, provider, ttl)
        blocks = said_blocks(turn, provider, "user" if self._form == "user" else "system")
        if ttl is not None:
            mark(blocks, ttl)
        if self._form == "system":
            return b",".join([dump_bytes(block) for block in blocks])
        return _message("user" if self._form == "user" else "system", blocks)


Turns: TypeAlias = list[tuple[_Encoder, Turn]]


def _message(role: str, blocks: list[Json]) -> bytes:
    """A message; nothing where it would say nothing, which the API refuses."""
    return dump_bytes({"role": role, "content": blocks}) if blocks else b""


def _model(turn: Turn, provider: str, ttl: str | None) -> bytes:
    waiting = [tool.id for tool in turn.tools if not tool.resolved]
    if waiting:
        msg = f"a request cannot be sent while calls wait ({', '.join(waiting)}): decide or cancel them first"
        raise PendingToolsError(msg, waiting)
    blocks, results = model_blocks(turn, provider)
    if ttl is not None:
        mark(results or blocks, ttl)
    messages = [_message("assistant", blocks), _message("user", results)]
    return b",".join([message for message in messages if message])


# --- Tools ------------------------------------------------------------------------------------------------------


def _declared(tools: ToolDeclarations, chosen: Settings, dialect: Dialect, cache: Cache) -> bytes:
    """The tools, joined by commas: the chat's own, then those that the API knows, then the one for the answer."""
    extras = chosen.extras
    others = _others(chosen, dialect, extras)
    known = frozenset([name for tool in others if isinstance(name := tool.get("name"), str)])
    fields = (extras.tool_fields if extras is not None else None) or {}
    ttl = cache.tools if cache.tools is not None else ""
    if ttl and others:
        others[-1] = {"cache_control": cache_point(ttl), **others[-1]}
    own = tools.encoded(
        (dialect.tools_key, known, dumps(_plain(fields)), "" if others else ttl),
        _Tools(dialect, known, fields, "" if others else ttl),
    )
    pieces = [own] if own else []
    return b",".join([*pieces, *[dump_bytes(tool) for tool in others]])


def _plain(fields: Mapping[str, Mapping[str, object]]) -> Json:
    return {name: dict(value) for name, value in fields.items()}


def _others(chosen: Settings, dialect: Dialect, extras: ClaudeOptions | None) -> list[Json]:
    native: list[NativeTool | Mapping[str, object]] = [*dialect.tools]
    servers: list[McpServer] = [*dialect.mcp_servers]
    if extras is not None:
        native += extras.tools
        servers += extras.mcp_servers
    found: list[Json] = [dict(tool) if isinstance(tool, Mapping) else tool.to_wire() for tool in native]
    found += [_toolset(server) for server in servers if not server.legacy]
    if chosen.output_declaration is not None:
        found.append(chosen.output_declaration)
    return found


def _toolset(server: McpServer) -> Json:
    toolset: Json = {"type": "mcp_toolset", "mcp_server_name": server.name}
    default: Json = {"defer_loading": True} if server.defer_loading else {}
    if server.allowed_tools is not None:
        default["enabled"] = False
        toolset["configs"] = {name: {"enabled": True} for name in server.allowed_tools}
    return {**toolset, "default_config": default} if default else toolset


@final
class _Tools:
    """Encodes the chat's own tools, but those that are declared in another form."""

    __slots__ = ("_dialect", "_fields", "_known", "_ttl")

    def __init__(
        self, dialect: Dialect, known: frozenset[str], fields: Mapping[str, Mapping[str, object]], ttl: str
    ) -> None:
        self._dialect = dialect
        self._known = known
        self._fields = fields
        self._ttl = ttl

    def __call__(self, items: Sequence[ToolDeclaration]) -> bytes:
        tools = [self._tool(item) for item in items if item.name not in self._known]
        if self._ttl and tools:
            tools[-1].setdefault("cache_control", cache_point(self._ttl))
        return b",".join([dump_bytes(tool) for tool in tools])

    def _tool(self, item: ToolDeclaration) -> Json:
        if not NAME.fullmatch(item.name):
            msg = f"Claude takes names of tools of letters, digits, `_` and `-`, at most 128: rename {item.name!r}"
            raise UnsupportedOptionError(msg)
        tool: Json = {"name": item.name}
        if item.description:
            tool["description"] = item.description
        strict = strict_schema(item.parameters) if self._dialect.strict_tools else None
        tool["input_schema"] = input_schema(item.parameters, item.name) if strict is None else strict
        if strict is not None:
            tool["strict"] = True
        return {**tool, **self._fields.get(item.name, {})}
