"""Functions that check whether a turn can be stored and read again without changes."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Final, cast

from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.frozen import FrozenDict
from chat_core.json import find_fault
from chat_core.messages._fields import MalformedError
from chat_core.messages._tool_codec import read_tool, write_tool
from chat_core.messages._viewed_turns import ViewedTurns
from chat_core.messages.codec import MakeMessages, tool_from_dict, tool_to_dict
from chat_core.messages.content import ROLES, Content, Turn
from chat_core.messages.function_call import FunctionCall
from chat_core.messages.parts import (
    Embedding,
    File,
    Opaque,
    ProviderPart,
    Reasoning,
    Recalled,
    Rewind,
    Structured,
    Summary,
    Text,
)
from chat_core.messages.status import NEW_CALL
from chat_core.messages.tool import Tool
from chat_core.usage import NO_USAGE, Metadata, Usage

MOST_LEVELS = 254
"""Maximum nesting depth of a value: the limit of `to_json()`. Documents are parsed with a higher limit."""

_TEXT: Final = (str,)
_OPTIONAL_TEXT: Final = (str, NoneType)
_OPTIONAL_OPAQUE: Final = (Opaque, NoneType)
_NUMBERS: Final = frozenset({int, float})
_OBJECT: Final = (dict, Mapping)
_OPTIONAL_OBJECT: Final = (dict, Mapping, NoneType)

_FIELDS: Final[dict[type, tuple[tuple[str, tuple[type, ...]], ...]]] = {
    Turn: (
        ("by", _OPTIONAL_TEXT), ("client_id", _OPTIONAL_TEXT), ("metadata", (Metadata, NoneType)),
        ("extra", _OPTIONAL_OBJECT),
    ),
    Metadata: (("usage", (Usage,)), ("extra", _OBJECT), ("unread", _OPTIONAL_OBJECT)),
    Text: (("text", _TEXT), ("opaque", _OPTIONAL_OPAQUE), ("extra", _OPTIONAL_OBJECT)),
    Reasoning: (
        ("text", _TEXT), ("signature", _OPTIONAL_TEXT), ("opaque", _OPTIONAL_OPAQUE), ("extra", _OPTIONAL_OBJECT),
    ),
    Structured: (("value", (object,)), ("extra", _OPTIONAL_OBJECT)),
    File: (
        ("mime", _TEXT), ("data", (bytes, NoneType)), ("url", _OPTIONAL_TEXT), ("name", _OPTIONAL_TEXT),
        ("opaque", _OPTIONAL_OPAQUE), ("extra", _OPTIONAL_OBJECT),
    ),
    Embedding: (("vector", (tuple,)), ("extra", _OPTIONAL_OBJECT)),
    ProviderPart: (("provider", _TEXT), ("kind", _TEXT), ("data", _OBJECT), ("extra", _OPTIONAL_OBJECT)),
    Tool: (("call_id", _OPTIONAL_TEXT), ("id", _TEXT), ("call", (FunctionCall,))),
    FunctionCall: (
        ("name", _TEXT), ("id", _TEXT), ("raw", _OPTIONAL_TEXT), ("problem", _OPTIONAL_TEXT), ("arguments", _OBJECT),
        ("opaque", _OPTIONAL_OPAQUE), ("extra", _OPTIONAL_OBJECT),
    ),
    Opaque: (("provider", _TEXT), ("data", _OBJECT), ("extra", _OPTIONAL_OBJECT)),
}  # fmt: skip
"""Allowed types for each field of a turn and its parts. Objects, arrays and structured values must also be JSON."""

_PARTS: Final = frozenset({Text, Reasoning, Structured, File, Embedding, ProviderPart, Tool})
"""Types of parts that a provider may return."""

_VIEW_PARTS: Final = (Summary, Rewind, Recalled)
"""Parts that only change the view of a model. The engine and applications create them."""


def require_contents(contents: object, extra: object) -> Iterable[Content]:
    """Return the contents of a conversation.

    Args:
        contents: a list of contents, or another iterable.
        extra: unknown fields of the stored conversation.

    Raises:
        UsageError: `contents` is not an iterable, or `extra` is not a JSON object.
    """
    if extra is not None and not isinstance(extra, Mapping):
        raise argument_error("extra", "a JSON object or None", extra)
    if not isinstance(contents, (list, tuple, Iterable)):  # `list` first: the check for `Iterable` is slow
        raise argument_error("contents", "a list of contents, such as [Content.of('user', '…')]", contents)
    return cast("Iterable[Content]", contents)


def require_content(content: object, make: MakeMessages) -> None:
    """Check a content before it is added to a conversation.

    Args:
        content: the content to check.
        make: the `Messages` class or a similar callable, which creates inner conversations.

    Raises:
        UsageError: `content` is not a `Content`, or a turn is refused by `require_turn()`.
    """
    if type(content) is not Content and not isinstance(content, Content):
        hint = ": for messages in the format of OpenAI, call Messages.from_dicts()" if isinstance(content, dict) else ""
        msg = f"Messages() takes contents, such as Content.of('user', '…'), not {content!r}{hint}"
        raise UsageError(msg)
    if content.extra is not None and not isinstance(content.extra, Mapping):
        raise argument_error("extra", "a JSON object or None", content.extra)
    for turn in content.turns:
        if type(turn) is not Turn or not turn.owned:  # a history has thousands of owned turns
            require_turn(content.role, turn, make)


def require_turn(role: object, turn: object, make: MakeMessages) -> None:
    """Check a turn before it is added to a conversation.

    A turn that is in a conversation already is not checked again.

    Args:
        role: the role under which the turn is added.
        turn: the turn to check.
        make: the `Messages` class or a similar callable, which creates inner conversations.

    Raises:
        UsageError: `role` is not a role, `turn` is not a `Turn`, or it cannot be stored and read again without changes.
    """
    if role not in ROLES:
        msg = f"role must be one of {', '.join(ROLES)}, not {role!r}"
        raise UsageError(msg)
    if type(turn) is not Turn and not isinstance(turn, Turn):
        msg = f"a conversation consists of turns, such as Turn([Text('…')]), not {reprlib.repr(turn)}"
        raise UsageError(msg)
    if not turn.owned and (fault := find_turn_fault(turn, make, of_provider=False)) is not None:
        msg = f"the turn cannot be stored: {fault.where}{fault.message}"
        raise UsageError(msg)


def find_turn_fault(turn: Turn, make: MakeMessages, *, of_provider: bool = True) -> MalformedError | None:
    """Return an error that describes why a turn cannot be stored and read again without changes, or None.

    Args:
        turn: the turn to check.
        make: the `Messages` class or a similar callable, which creates inner conversations.
        of_provider: whether a provider returned the turn. Only turns of an application may contain a `Summary`, a
            `Rewind`, a `Recalled`, or tool calls with inner conversations. Their data is not checked here:
            `to_json()` refuses data that is not JSON, and writes NaN as null.
    """
    metadata = turn.metadata
    unusual = metadata is not None and (
        type(metadata) is not Metadata or metadata.extra or metadata.unread or type(metadata.usage) is not Usage
    )
    try:
        if unusual or turn.by is not None or turn.client_id is not None or turn.extra is not None:
            _require_fields(turn, data=of_provider)
        for index, part in enumerate(turn.parts):
            if type(part) is Text and type(part.text) is str and part.opaque is None and part.extra is None:
                continue  # the most frequent part
            if type(part) is Tool and _is_usual_call(part):
                continue
            try:
                if not of_provider and isinstance(part, _VIEW_PARTS):
                    _require_extra_fields(part)
                else:
                    _require_part(part, make, data=of_provider)
            except MalformedError as error:
                place = f"parts[{index}]"
                raise error.within(place) from None
    except MalformedError as error:
        return error
    return None


def _is_usual_call(tool: Tool) -> bool:
    """Return whether a tool call has only common fields with valid values. This check is fast."""
    call = tool.call
    return (
        type(call) is FunctionCall
        and type(call.arguments) is FrozenDict
        and type(tool.id) is type(call.id) is type(call.name) is str
        and (tool.call_id is None or type(tool.call_id) is str)
        and (call.raw is None or type(call.raw) is str)
        and call.problem is None
        and call.opaque is None
        and call.extra is None
        and find_fault(call.arguments, MOST_LEVELS) is None  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - JSON
        and _is_new(tool)
    )


def _require_part(part: object, make: MakeMessages, *, data: bool) -> None:
    if type(part) not in _PARTS:
        msg = f" is {reprlib.repr(part)}, but must be a part, such as Text('…')"
        raise MalformedError(msg)
    _require_fields(part, data=data)
    if isinstance(part, Embedding) and not data and not _NUMBERS.issuperset(map(type, part.vector)):
        msg = f" is {reprlib.repr(part.vector)}, but must be a tuple of numbers"
        raise MalformedError(msg, "vector")
    if isinstance(part, ProviderPart) and not part.provider:
        msg = " is empty, but must be the name in `ProviderMeta`"
        raise MalformedError(msg, "provider")
    if isinstance(part, Tool) and not _is_new(part):
        _require_readable(part, make, data=data)


def _require_fields(item: object, *, data: bool) -> None:
    for name, types in _FIELDS[type(item)]:
        value = getattr(item, name)
        if (value is None or type(value) is str) and type(value) in types:
            continue  # the most frequent case
        _require_field(item, name, types, data=data)


def _require_field(item: object, name: str, types: tuple[type, ...], *, data: bool) -> None:
    try:
        _require_value(getattr(item, name), types, data=data)
    except MalformedError as error:
        raise error.within(name) from None


def _require_value(value: object, types: tuple[type, ...], *, data: bool) -> None:
    if not isinstance(value, types):
        expected = " or ".join([kind.__name__ for kind in types if kind not in {Mapping, NoneType}])
        msg = f" is {reprlib.repr(value)}, but must be {expected}"
        raise MalformedError(msg)
    if type(value) in _FIELDS:
        _require_fields(value, data=data)
    elif data and value and not isinstance(value, (str, bytes, Usage)):
        _require_json(value)


def _require_json(value: object) -> None:
    if not isinstance(value, dict) and isinstance(value, Mapping):
        value = dict(cast("Mapping[object, object]", value))
    if fault := find_fault(cast("Any", value), MOST_LEVELS):
        msg = f"{fault}: use str, finite numbers, bool, None, lists, and dicts with str keys"
        raise MalformedError(msg)


def _require_extra_fields(part: Summary | Rewind | Recalled) -> None:
    _require_field(part, "extra", _OPTIONAL_OBJECT, data=False)
    for index, note in enumerate(part.notes if isinstance(part, Recalled) else ()):
        try:
            _require_field(note, "extra", _OPTIONAL_OBJECT, data=False)
        except MalformedError as error:
            place = f"notes[{index}]"
            raise error.within(place) from None


def _write_nothing(inner: object) -> dict[str, object]:
    if not isinstance(inner, ViewedTurns):
        msg = f"inner must be Messages, not {reprlib.repr(inner)}"
        raise TypeError(msg)
    return {}


def _is_new(tool: Tool) -> bool:
    """Return whether a tool call is new, so that the engine has not yet set its decisions, attempts or other fields."""
    status = tool.status
    return (status is NEW_CALL or status == NEW_CALL) and not (
        tool.canonical
        or tool.edited
        or tool.decisions
        or tool.idempotency_key
        or tool.attempts
        or tool.revision
        or tool.extra
        or tool.inner_usage is not NO_USAGE
    )


def _require_readable(tool: Tool, make: MakeMessages, *, data: bool) -> None:
    """Raise `MalformedError` if a tool call cannot be written to JSON and read again.

    The turns of an inner conversation that an application adds were checked when they were added to it.
    """
    try:
        if data:
            stored = tool_to_dict(tool)
            tool_from_dict(stored, make)
        else:
            stored = write_tool(tool, _write_nothing)
            read_tool(stored, lambda _: make((), extra=None))
    except MalformedError as error:
        msg = f" cannot be written and read: {error}"
        raise MalformedError(msg, *error.path) from error
    except (AttributeError, TypeError, ValueError) as error:
        msg = f" cannot be written and read: {error}"
        raise MalformedError(msg) from error
    if data:
        _require_json(stored)
