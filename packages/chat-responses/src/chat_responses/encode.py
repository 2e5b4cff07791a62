"""From a conversation to the body of a request.

The body is joined from pieces of bytes: one for each turn, kept with the turn once it can no longer change, one for the
tools, kept with them, and one for everything that is new in this request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, final

from chat_core.errors import PendingToolsError, UnsupportedOptionError
from chat_core.json import dump_bytes
from chat_core.messages import Messages, Role, Text, Turn
from chat_core.messages.content import ROLES
from chat_core.options import ChatOptions
from chat_core.provider import OutputSchema, ToolDeclarations
from chat_core.wire.parts import owned
from chat_core.wire.shapes import Json, mapping
from chat_core.wire.strict import strict_schema

from chat_responses.chain import Encoded, chains, last_stored
from chat_responses.declare import choice, declared
from chat_responses.options import ResponsesDialect, ResponsesOptions
from chat_responses.parts import model_items, outcomes, plain_items

ENCRYPTED: Final = "reasoning.encrypted_content"

REASONING_MODELS: Final = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-(?:[5-9]|\d\d)(?!.*chat)|codex|gpt-oss)")
"""Models that are known to reason. Others refuse to be asked for their reasoning."""

EXTRAS: Final = (
    "max_tool_calls",
    "top_logprobs",
    "truncation",
    "background",
    "conversation",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
)

COUNTED: Final = frozenset({"tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation", "conversation"})
"""What a question for the number of tokens may hold besides what is said."""


@final
@dataclass(frozen=True, slots=True)
class Composed:
    """A request that is ready.

    Attributes:
        body: what is sent.
        history: every turn and its items, whether or not they are sent, where requests go on from responses.
        dialect: as the options have it.
        previous: the id of the response that it goes on from.
    """

    body: bytes
    history: tuple[Encoded, ...]
    dialect: ResponsesDialect
    previous: str | None


def encode(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: ResponsesDialect,
    stream: bool,
) -> bytes:
    """The body of a request.

    Raises:
        PendingToolsError: a call in the history is not resolved.
        UnsupportedPartError: this wire has no place for a part of the history.
        UnsupportedOptionError: this wire, or this dialect of it, does not know an option.
    """
    return compose(messages, tools, options, structured_output, dialect=dialect, stream=stream).body


def compose(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: ResponsesDialect,
    stream: bool,
    whole: bool = False,
) -> Composed:
    """A request, and what must be known of it when its answer comes. `whole` sends the history whatever is stored.

    Raises:
        PendingToolsError, UnsupportedPartError, UnsupportedOptionError: as `encode()` does.
    """
    extras = options.extra(ResponsesOptions, dialect.provider)  # noqa: S610 - not Django
    if extras is not None and extras.store is not None and extras.store != dialect.store:
        dialect = replace(dialect, store=extras.store)
    instructions, leading = _instructions(messages, dialect)
    history: tuple[Encoded, ...] = ()
    previous: str | None = None
    if chains(dialect):
        history = _history(messages, len(leading), dialect)
        kept_otherwise = extras is not None and extras.conversation is not None
        place = None if whole or kept_otherwise else last_stored(history, dialect)
        items = b",".join([items for _, _, items in _unknown(history, place, dialect) if items])
        previous = None if place is None else _id_of(history[place][1])
    else:
        items = _items(messages, leading, dialect)
    tools_sent = declared(tools, extras, dialect)
    rest = _rest(options, extras, structured_output, dialect, tools=bool(tools_sent))
    if stream and not dialect.socket:
        rest["stream"] = True
    head: Json = {"model": dialect.model} if dialect.model else {}
    if instructions is not None:
        head["instructions"] = instructions
    if previous is not None:
        head["previous_response_id"] = previous
    _add_further(extras, head, rest)
    return Composed(_joined(head, items, tools_sent, rest), history, dialect, previous)


def encode_count(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: ResponsesDialect,
) -> bytes:
    """The body of a question for the number of tokens that a request would have.

    Raises:
        PendingToolsError, UnsupportedPartError, UnsupportedOptionError: as `encode()` does.
    """
    extras = options.extra(ResponsesOptions, dialect.provider)  # noqa: S610 - not Django
    instructions, leading = _instructions(messages, dialect)
    tools_sent = declared(tools, extras, dialect)
    rest = _rest(options, extras, structured_output, dialect, tools=bool(tools_sent))
    rest = {name: value for name, value in rest.items() if name in COUNTED}
    head: Json = {"model": dialect.model} if dialect.model else {}
    if instructions is not None:
        head["instructions"] = instructions
    return _joined(head, _items(messages, leading, dialect), tools_sent, rest)


def _joined(head: Json, items: bytes, tools: bytes, rest: Json) -> bytes:
    pieces = [dump_bytes(head)[:-1], b","] if head else [b"{"]
    pieces += [b'"input":[', items, b"]"]
    if tools:
        pieces += [b',"tools":[', tools, b"]"]
    pieces += [b",", dump_bytes(rest)[1:]] if rest else [b"}"]
    return b"".join(pieces)


def _id_of(turn: Turn) -> str | None:
    return turn.metadata.id if turn.metadata is not None else None


# --- The conversation ---------------------------------------------------------------------------------------


def _instructions(messages: Messages, dialect: ResponsesDialect) -> tuple[str | None, list[Turn]]:
    """The instructions that the conversation begins with, and the turns that they are in."""
    if not dialect.instructions or not len(messages) or messages[0].role != "system":
        return None, []
    leading = [*takewhile(lambda turn: _is_plain(turn, dialect), messages[0].turns)]
    return ("\n\n".join([turn.text for turn in leading]) if leading else None), leading


def _is_plain(turn: Turn, dialect: ResponsesDialect) -> bool:
    """Whether a turn is text and nothing else."""
    return all(isinstance(part, Text) and not owned(part.opaque, dialect.provider) for part in turn.parts)


def _items(messages: Messages, leading: Sequence[Turn], dialect: ResponsesDialect) -> bytes:
    """Every item behind the instructions, joined by commas: a long history costs a join."""
    encoders: dict[Role, Callable[[Turn], bytes]] = {role: _Encoder(role, dialect) for role in ROLES}
    items = messages.encoded(dialect.turn_key, encoders)
    if leading:
        said = b",".join([turn.encoded(dialect.turn_key, encoders["system"]) for turn in leading])
        items = items[len(said) + 1 :]
    if SILENT in items:
        items = items.replace(SILENT + b",", b"").removesuffix(SILENT).removesuffix(b",")
    return items


def _history(messages: Messages, leading: int, dialect: ResponsesDialect) -> tuple[Encoded, ...]:
    """Every turn behind the instructions, with its items."""
    turns: list[tuple[Role, Turn]] = [(content.role, turn) for content in messages for turn in content.turns]
    return tuple([(role, turn, encode_turn(role, turn, dialect)) for role, turn in turns[leading:]])


def _unknown(history: tuple[Encoded, ...], place: int | None, dialect: ResponsesDialect) -> Sequence[Encoded]:
    """What the server does not have, where it has the response at `place`: the outcomes of its calls, and the rest."""
    if place is None:
        return history
    role, turn, _ = history[place]
    told = b",".join([dump_bytes(item) for item in outcomes(turn, dialect)])
    return ((role, turn, told), *history[place + 1 :])


def encode_turn(role: Role, turn: Turn, dialect: ResponsesDialect) -> bytes:
    """The items of a turn, joined by commas: for a model's, its own, then what became of its calls.

    Raises:
        PendingToolsError: a call is not resolved.
        UnsupportedPartError: this wire has no place for a part.
    """
    items = turn.encoded(dialect.turn_key, _Encoder(role, dialect))
    return b"" if items == SILENT else items


SILENT: Final = b"\0"
"""What a turn is of which nothing is sent: a byte that no JSON has, so that it can be taken out again."""


@final
class _Encoder:
    """Encodes the turns of one role. Made once per request, since the cache calls it only for turns that are new."""

    __slots__ = ("_dialect", "_role")

    def __init__(self, role: Role, dialect: ResponsesDialect) -> None:
        self._role: Role = role
        self._dialect = dialect

    def __call__(self, turn: Turn) -> bytes:
        return b",".join([dump_bytes(item) for item in self._items(turn)]) or SILENT

    def _items(self, turn: Turn) -> list[Json]:
        if self._role != "model":
            return plain_items(self._role, turn, self._dialect)
        waiting = [tool.id for tool in turn.tools if not tool.resolved]
        if waiting:
            msg = f"a request cannot be sent while calls wait ({', '.join(waiting)}): decide or cancel them first"
            raise PendingToolsError(msg, waiting)
        return [*model_items(turn, self._dialect), *outcomes(turn, self._dialect)]


# --- Everything else -----------------------------------------------------------------------------------------


def _rest(
    options: ChatOptions,
    extras: ResponsesOptions | None,
    structured_output: OutputSchema | None,
    dialect: ResponsesDialect,
    *,
    tools: bool,
) -> Json:
    """Everything but the model, what is said, and the tools."""
    options.refuse(f"the Responses wire of {dialect.provider}", "stop", "seed")
    rest: Json = {}
    for name, field in (("temperature", "temperature"), ("top_p", "top_p"), ("max_tokens", "max_output_tokens")):
        if (value := getattr(options, name)) is not None:
            rest[field] = value
    if dialect.store is not None:
        rest["store"] = dialect.store
    if reasoning := _reasoning(options, extras, dialect):
        rest["reasoning"] = reasoning
    if include := _include(options, extras, dialect):
        rest["include"] = include
    if text := _text(extras, structured_output, dialect):
        rest["text"] = text
    # A prompt that the server keeps may bring tools along.
    rest |= choice(options, extras, tools=tools or (extras is not None and extras.prompt is not None))
    if extras is not None:
        rest |= _extras(extras)
    return rest


def _reasoning(options: ChatOptions, extras: ResponsesOptions | None, dialect: ResponsesDialect) -> Json:
    asked: Json = {}
    if isinstance(options.reasoning, int):
        if not dialect.reasoning_budget:
            msg = (
                f"{dialect.provider} takes an effort, not a budget in tokens: reasoning={options.reasoning!r} cannot "
                "be sent; choose 'low', 'medium' or 'high'"
            )
            raise UnsupportedOptionError(msg)
        asked["max_tokens"] = options.reasoning
    elif options.reasoning is not None:
        asked["effort"] = options.reasoning
    if extras is not None:
        if extras.reasoning_summary is not None:
            asked["summary"] = extras.reasoning_summary
        asked = dict(extras.reasoning or {}) | asked
    return asked


def _include(options: ChatOptions, extras: ResponsesOptions | None, dialect: ResponsesDialect) -> list[str]:
    include = list(extras.include) if extras is not None else []
    wanted = dialect.encrypted_reasoning
    if wanted is None:
        reasons = options.reasoning not in {None, "none"} or REASONING_MODELS.match(dialect.model) is not None
        wanted = not dialect.stores and reasons
    if wanted and ENCRYPTED not in include:
        include.append(ENCRYPTED)
    return include


def _text(extras: ResponsesOptions | None, output: OutputSchema | None, dialect: ResponsesDialect) -> Json:
    text: Json = dict(extras.text or {}) if extras is not None else {}
    if output is not None:
        strict: Mapping[str, object] | None = None
        if dialect.strict_output:
            strict = strict_schema(output.schema) if dialect.strict_rewrite else output.schema
        text["format"] = {
            **mapping(text.get("format")),
            "type": "json_schema",
            "name": output.name,
            "schema": output.schema if strict is None else strict,
            "strict": strict is not None,
        }
    if extras is not None and extras.verbosity is not None:
        text["verbosity"] = extras.verbosity
    return text


def _extras(extras: ResponsesOptions) -> Json:
    fields: Json = {}
    for name in EXTRAS:
        if (value := getattr(extras, name)) is not None:
            fields[name] = value
    for name, value in (("metadata", extras.metadata), ("prompt", extras.prompt)):
        if value is not None:
            fields[name] = dict(value)
    return fields


def _add_further(extras: ResponsesOptions | None, head: Json, rest: Json) -> None:
    """Put the further fields of the body in, if none of them is there already."""
    for name, value in (extras.extra_body or {}).items() if extras is not None else ():
        if name in rest or name in head or name in {"model", "input", "tools", "stream"}:
            msg = f"extra_body cannot hold {name!r}, which the request already has: set it by its own option"
            raise UnsupportedOptionError(msg)
        rest[name] = value
