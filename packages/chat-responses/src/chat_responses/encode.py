"""Encoder for request bodies.

The body is joined from encoded pieces. The pieces of turns and tools are cached. Only new turns and the other fields
are encoded for each request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, final

from chat_core.errors import PendingToolsError, UnsupportedOptionError
from chat_core.json import dump_bytes, dump_checked
from chat_core.messages import Messages, Role, Text, Turn, View
from chat_core.messages.content import ROLES
from chat_core.options import ChatOptions, join_instructions
from chat_core.provider import OutputSchema, ToolDeclarations, require_request
from chat_core.wire.instructions import instruction_text, instruction_turns, leading_system_turns
from chat_core.wire.parts import own_data, sole_text
from chat_core.wire.shapes import Json, mapping
from chat_core.wire.strict import strict_schema

from chat_responses.chain import Encoded, last_in_conversation, last_stored, may_chain
from chat_responses.declare import encode_tools, tool_choice_fields
from chat_responses.options import ResponsesDialect, ResponsesOptions
from chat_responses.parts import call_outputs, model_items, plain_items, wire_role

ENCRYPTED: Final = "reasoning.encrypted_content"

REASONING_MODELS: Final = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-(?:[5-9]|\d\d)(?!.*chat)|codex|gpt-oss)")
"""Names of models that are known to reason, because other models reject a request for encrypted reasoning."""

VENDOR_FIELDS: Final = (
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

COUNT_FIELDS: Final = frozenset(
    {"tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation", "conversation"}
)
"""Option fields that a token count request may contain."""


@final
@dataclass(frozen=True, slots=True)
class Composed:
    """An encoded request, with the data that is needed to refer to its response later.

    Attributes:
        body: the request body.
        history: all turns with their items, including those that are not sent. Empty if requests refer neither to
            previous responses nor to a conversation.
        dialect: the dialect after `ResponsesOptions` was applied.
        previous: the id of the previous response that the request refers to, or `None`.
        extras: the options of the Responses API, or `None`.
    """

    body: bytes
    history: tuple[Encoded, ...]
    dialect: ResponsesDialect
    previous: str | None
    extras: ResponsesOptions | None = None


def encode(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: ResponsesDialect,
    stream: bool,
) -> bytes:
    """Encode the body of a chat request.

    Args:
        messages: the conversation to send.
        tools: tools that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        dialect: settings of the provider.
        stream: whether to request a stream.

    Raises:
        PendingToolsError: a tool call in the history is not resolved.
        UnsupportedPartError: the Responses API cannot represent a part of the history.
        UnsupportedOptionError: the API, or the dialect, does not support an option.
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
    """Encode a chat request, and return it with the data that is needed to refer to its response later.

    Args:
        messages: the conversation to send.
        tools: tools that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        dialect: settings of the provider.
        stream: whether to request a stream.
        whole: whether to send the whole history even if the server has a previous response.

    Raises:
        PendingToolsError, UnsupportedPartError, UnsupportedOptionError: see `encode()`.
    """
    require_request(messages, tools, options, structured_output)
    tools = tools.declared
    extras = options.extra(ResponsesOptions, dialect.provider)
    if extras is not None and extras.store is not None and extras.store != dialect.store:
        dialect = replace(dialect, store=extras.store)
    view = messages.view()
    system = _system_text(view, options, extras, dialect)
    history: tuple[Encoded, ...] = ()
    previous: str | None = None
    conversation = extras.conversation if extras is not None else None
    if conversation is not None:
        history = _encode_history(view, system, dialect)
        items = _encode_after(history, last_in_conversation(messages, history, conversation, dialect), dialect)
    elif may_chain(dialect):
        history = _encode_history(view, system, dialect)
        index = None if whole else last_stored(history, dialect)
        items = _encode_after(history, index, dialect)
        previous = None if index is None else _response_id(history[index][1])
    else:
        items = _encode_items(view, system, dialect)
    tools_sent = encode_tools(tools, extras, dialect)
    if tools and (extras is None or not (extras.tools or extras.prompt)):
        tools.require_choice(options.tool_choice)
    rest = _option_fields(options, extras, structured_output, dialect, tools=bool(tools_sent))
    if stream and not dialect.socket:
        rest["stream"] = True
    head: Json = {"model": dialect.model} if dialect.model else {}
    if system.instructions is not None:
        head["instructions"] = system.instructions
    if previous is not None:
        head["previous_response_id"] = previous
    _add_extra_body(extras, head, rest)
    return Composed(_join_body(head, items, tools_sent, rest), history, dialect, previous, extras)


def encode_count(
    messages: Messages,
    tools: ToolDeclarations,
    options: ChatOptions,
    structured_output: OutputSchema | None,
    *,
    dialect: ResponsesDialect,
) -> bytes:
    """Encode the body of a request that counts input tokens.

    Args:
        messages: the conversation to send.
        tools: tools that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        dialect: settings of the provider.

    Raises:
        PendingToolsError, UnsupportedPartError, UnsupportedOptionError: see `encode()`.
    """
    require_request(messages, tools, options, structured_output)
    tools = tools.declared
    extras = options.extra(ResponsesOptions, dialect.provider)
    view = messages.view()
    system = _system_text(view, options, extras, dialect)
    tools_sent = encode_tools(tools, extras, dialect)
    if tools and (extras is None or not (extras.tools or extras.prompt)):
        tools.require_choice(options.tool_choice)
    rest = _option_fields(options, extras, structured_output, dialect, tools=bool(tools_sent))
    rest = {name: value for name, value in rest.items() if name in COUNT_FIELDS}
    head: Json = {"model": dialect.model} if dialect.model else {}
    if system.instructions is not None:
        head["instructions"] = system.instructions
    if extras is not None and extras.conversation is not None:
        history = _encode_history(view, system, dialect)
        items = _encode_after(history, last_in_conversation(messages, history, extras.conversation, dialect), dialect)
    else:
        items = _encode_items(view, system, dialect)
    return _join_body(head, items, tools_sent, rest)


def _join_body(head: Json, items: bytes, tools: bytes, rest: Json) -> bytes:
    """Return the JSON of a request body, joined from encoded items, encoded tools and the other fields."""
    pieces = [dump_bytes(head)[:-1], b","] if head else [b"{"]
    pieces += [b'"input":[', items, b"]"]
    if tools:
        pieces += [b',"tools":[', tools, b"]"]
    pieces += [b",", dump_bytes(rest)[1:]] if rest else [b"}"]
    return b"".join(pieces)


def _response_id(turn: Turn) -> str | None:
    return turn.metadata.id if turn.metadata is not None else None


# --- The conversation ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _SystemText:
    """System text of a request, grouped by the place where it is sent.

    Attributes:
        instructions: value of the field `instructions`, or `None`.
        replaced: leading system turns whose text is sent in that field.
        stored: leading system turns after those in `replaced`. They are sent as messages.
        before: instructions that are sent as messages before `stored`.
        after: instructions that are sent as messages after `stored`.
    """

    instructions: str | None
    replaced: Sequence[Turn]
    stored: Sequence[Turn] = ()
    before: Sequence[Turn] = ()
    after: Sequence[Turn] = ()


def _system_text(
    view: View, options: ChatOptions, extras: ResponsesOptions | None, dialect: ResponsesDialect
) -> _SystemText:
    if extras is not None and extras.conversation is not None:
        # The server would add system messages to the conversation, but not repeat or replace them.
        dialect = replace(dialect, instructions=True)
    leading = leading_system_turns(view)
    replaced = [*takewhile(lambda turn: _is_plain(turn, dialect), leading)] if dialect.instructions else []
    texts = [turn.text for turn in replaced]
    if options.instructions is None:
        return _SystemText("\n\n".join(texts) if texts else None, replaced)
    stored = leading[len(replaced) :]
    if dialect.instructions and not stored:
        return _SystemText(instruction_text(options, texts) or None, replaced)
    before, after = instruction_turns(options)
    if not dialect.instructions:
        return _SystemText(None, (), stored, before, after)
    text = join_instructions([*[turn.text for turn in before], *texts])
    return _SystemText(text or None, replaced, stored, (), after)


def _is_plain(turn: Turn, dialect: ResponsesDialect) -> bool:
    """Return whether a turn contains only texts without opaque data for this provider."""
    return all(isinstance(part, Text) and not own_data(part.opaque, dialect.provider) for part in turn.parts)


def _encode_items(view: View, system: _SystemText, dialect: ResponsesDialect) -> bytes:
    """Return the conversation as JSON items joined by commas, including system text that is sent as messages."""
    encoders: dict[Role, Callable[[Turn], bytes]] = {role: _Encoder(role, dialect) for role in ROLES}
    items = view.encoded(dialect.turn_key, encoders)
    encode_system = encoders["system"]
    if system.replaced:
        skipped = b",".join([turn.encoded(dialect.turn_key, encode_system) for turn in system.replaced])
        items = items[len(skipped) + 1 :]
    if system.before or system.after:
        stored = b",".join([turn.encoded(dialect.turn_key, encode_system) for turn in system.stored])
        rest = items[len(stored) + 1 :] if stored else items
        pieces = [*map(encode_system, system.before), stored, *map(encode_system, system.after), rest]
        items = b",".join([piece for piece in pieces if piece])
    if EMPTY_TURN in items:
        items = items.replace(EMPTY_TURN + b",", b"").removesuffix(EMPTY_TURN).removesuffix(b",")
    return items


def _encode_history(view: View, system: _SystemText, dialect: ResponsesDialect) -> tuple[Encoded, ...]:
    """Return the turns that are sent as messages, including instructions, each with its role and encoded items."""
    first, last = len(system.replaced), len(system.replaced) + len(system.stored)
    before: list[tuple[Role, Turn]] = [("system", turn) for turn in system.before]
    after: list[tuple[Role, Turn]] = [("system", turn) for turn in system.after]
    turns = [*before, *view.turns[first:last], *after, *view.turns[last:]]
    return tuple([(role, turn, encode_turn(role, turn, dialect)) for role, turn in turns])


def _encode_after(history: tuple[Encoded, ...], index: int | None, dialect: ResponsesDialect) -> bytes:
    """Return the items after the response whose index in the history is `index`, joined by commas.

    They begin with the outputs of that response's calls. If `index` is `None`, all items are returned.
    """
    if index is None:
        return b",".join([items for _, _, items in history if items])
    outputs = [dump_checked(item) for item in call_outputs(history[index][1], dialect, stored=True)]
    return b",".join([*outputs, *[items for _, _, items in history[index + 1 :] if items]])


def encode_turn(role: Role, turn: Turn, dialect: ResponsesDialect) -> bytes:
    """Return the items of a turn as JSON objects joined by commas, including the outputs of its tool calls.

    Args:
        role: role of the turn.
        turn: the turn to encode.
        dialect: settings of the provider.

    Raises:
        PendingToolsError: a tool call is not resolved.
        UnsupportedPartError: the Responses API cannot represent a part.
    """
    items = turn.encoded(dialect.turn_key, _Encoder(role, dialect))
    return b"" if items == EMPTY_TURN else items


EMPTY_TURN: Final = b"\0"
"""Encoding of a turn without items. JSON never contains this byte, so it can be removed from the joined items."""


@final
class _Encoder:
    """Callable that encodes turns of one role, and is called only for turns that are not in the cache."""

    __slots__ = ("_dialect", "_role")

    def __init__(self, role: Role, dialect: ResponsesDialect) -> None:
        self._role: Role = role
        self._dialect = dialect

    def __call__(self, turn: Turn) -> bytes:
        if (text := sole_text(turn)) is not None:
            return dump_checked({"role": wire_role(self._role, self._dialect), "content": text})
        return b",".join([dump_checked(item) for item in self._encode_items(turn)]) or EMPTY_TURN

    def _encode_items(self, turn: Turn) -> list[Json]:
        if self._role != "model":
            return plain_items(self._role, turn, self._dialect)
        if not turn.settled:
            waiting = [tool.id for tool in turn.tools if not tool.resolved]
            msg = f"the request contains unresolved tool calls ({', '.join(waiting)}): decide or cancel them first"
            raise PendingToolsError(msg, waiting)
        return [*model_items(turn, self._dialect), *call_outputs(turn, self._dialect)]


# --- Options -------------------------------------------------------------------------------------------------


def _option_fields(
    options: ChatOptions,
    extras: ResponsesOptions | None,
    structured_output: OutputSchema | None,
    dialect: ResponsesDialect,
    *,
    tools: bool,
) -> Json:
    """Return the request fields for options, output format and tool choice."""
    options.refuse(f"the Responses API (provider {dialect.provider!r})", "stop", "seed", "top_k")
    if dialect.socket and extras is not None and extras.resume is not None:
        msg = "a WebSocket supports no background responses: remove resume, or send the request over HTTP"
        raise UnsupportedOptionError(msg)
    rest: Json = {}
    for name, field in (("temperature", "temperature"), ("top_p", "top_p"), ("max_tokens", "max_output_tokens")):
        if (value := getattr(options, name)) is not None:
            rest[field] = value
    if dialect.store is not None:
        rest["store"] = dialect.store
    if reasoning := _reasoning_fields(options, extras, dialect):
        rest["reasoning"] = reasoning
    if include := _include_values(options, extras, dialect):
        rest["include"] = include
    if text := _text_field(extras, structured_output, dialect):
        rest["text"] = text
    # A prompt stored on the server may declare tools.
    rest |= tool_choice_fields(options, extras, tools=tools or (extras is not None and extras.prompt is not None))
    if extras is not None:
        rest |= _vendor_fields(extras)
    return rest


def _reasoning_fields(options: ChatOptions, extras: ResponsesOptions | None, dialect: ResponsesDialect) -> Json:
    """Return the value of the request field `reasoning`, which is empty if nothing is set."""
    fields: Json = {}
    if isinstance(options.reasoning, int):
        if not dialect.reasoning_budget:
            msg = (
                f"{dialect.provider} does not support reasoning={options.reasoning!r}, a budget in tokens: "
                "use 'low', 'medium' or 'high'"
            )
            raise UnsupportedOptionError(msg)
        fields["max_tokens"] = options.reasoning
    elif options.reasoning is not None:
        fields["effort"] = options.reasoning
    if extras is not None:
        if extras.reasoning_summary is not None:
            fields["summary"] = extras.reasoning_summary
        fields = dict(extras.reasoning or {}) | fields
    return fields


def _include_values(options: ChatOptions, extras: ResponsesOptions | None, dialect: ResponsesDialect) -> list[str]:
    """Return the values of the request field `include`, with encrypted reasoning if it is needed."""
    include = list(extras.include) if extras is not None else []
    encrypted = dialect.encrypted_reasoning
    if encrypted is None:
        reasons = options.reasoning not in {None, "none"} or REASONING_MODELS.match(dialect.model) is not None
        encrypted = not dialect.stores and reasons
    if encrypted and ENCRYPTED not in include:
        include.append(ENCRYPTED)
    return include


def _text_field(extras: ResponsesOptions | None, output: OutputSchema | None, dialect: ResponsesDialect) -> Json:
    """Return the value of the request field `text`, which contains the output format and the verbosity."""
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


def _vendor_fields(extras: ResponsesOptions) -> Json:
    """Return the request fields for those values of `ResponsesOptions` that are sent unchanged."""
    fields: Json = {}
    for name in VENDOR_FIELDS:
        if (value := getattr(extras, name)) is not None:
            fields[name] = value
    for name, value in (("metadata", extras.metadata), ("prompt", extras.prompt)):
        if value is not None:
            fields[name] = dict(value)
    return fields


def _add_extra_body(extras: ResponsesOptions | None, head: Json, rest: Json) -> None:
    """Add the fields of `extra_body` to `rest`, in place.

    Raises:
        UnsupportedOptionError: the request already has one of the fields, or the option `background` is needed.
    """
    for name, value in (extras.extra_body or {}).items() if extras is not None else ():
        if name in rest or name in head or name in {"model", "input", "tools", "stream"}:
            msg = f"extra_body cannot set {name!r}, because the request already has it: use the option for this field"
            raise UnsupportedOptionError(msg)
        if name == "background" and value:
            msg = "extra_body cannot set 'background': use ResponsesOptions(background=True)"
            raise UnsupportedOptionError(msg)
        rest[name] = value
