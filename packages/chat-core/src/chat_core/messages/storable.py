"""Check that a turn returned by a provider can be stored and read again without changes."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from itertools import product
from operator import attrgetter
from types import NoneType
from typing import Any, Final, cast

from chat_core.errors import InvalidResponseError
from chat_core.frozen import FrozenDict
from chat_core.json import find_fault
from chat_core.messages._fields import MalformedError
from chat_core.messages.codec import tool_from_dict, tool_to_dict
from chat_core.messages.content import Turn
from chat_core.messages.function_call import FunctionCall
from chat_core.messages.messages import Messages
from chat_core.messages.parts import Embedding, File, Opaque, ProviderPart, Reasoning, Structured, Text
from chat_core.messages.status import NEW_CALL
from chat_core.messages.tool import Tool
from chat_core.usage import NO_USAGE, Metadata, Usage

MOST_LEVELS = 254
"""Maximum nesting depth of a value: the limit of `to_json()`. Documents are parsed with a higher limit."""

_TEXT: Final = (str,)
_OPTIONAL_TEXT: Final = (str, NoneType)
_OPTIONAL_OPAQUE: Final = (Opaque, NoneType)
_OBJECT: Final = (dict, Mapping)
_OPTIONAL_OBJECT: Final = (dict, Mapping, NoneType)

_call_fields = attrgetter(
    "id", "call.id", "call.name", "call.arguments", "call.problem", "call.opaque", "call.extra", "call_id", "call.raw"
)
_USUAL_CALLS: Final = frozenset(
    (str, str, str, FrozenDict, NoneType, NoneType, NoneType, *others) for others in product(_OPTIONAL_TEXT, repeat=2)
)
"""Types of `_call_fields()` in most tool calls."""
_engine_fields = attrgetter("canonical", "edited", "decisions", "idempotency_key", "attempts", "revision", "extra")
"""Fields of a tool call that are empty until the engine sets them."""

_FIELDS: Final[dict[type, tuple[tuple[str, tuple[type, ...]], ...]]] = {
    Turn: (("by", _OPTIONAL_TEXT), ("metadata", (Metadata, NoneType)), ("extra", _OPTIONAL_OBJECT)),
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


def require_storable(turn: Turn) -> Turn:
    """Return `turn` if it can be stored: its fields have the right types, and its data is JSON of limited depth.

    Providers are not trusted to check this: a turn that could not be read again would make the whole conversation
    unreadable, and a value such as a date would be read as text.

    Args:
        turn: turn that a provider returned.

    Raises:
        InvalidResponseError: a field has another type, or metadata, opaque data, arguments or another value is not
            JSON, or it is nested more deeply than `MOST_LEVELS`. `path` names the field.
    """
    if (fault := find_turn_fault(turn)) is not None:
        msg = f"the provider returned a turn that cannot be stored: {fault.where}{fault.message}"
        # The usage of `partial` is reported as the usage of the failed call, so invalid metadata is left out.
        partial = Turn(turn.parts) if fault.where in {"metadata", "metadata.usage"} else turn
        raise InvalidResponseError(msg, path=fault.where, partial=partial)
    return turn


def find_turn_fault(turn: Turn) -> MalformedError | None:
    """Return an error that describes why a turn cannot be stored and read again without changes, or None."""
    try:
        metadata = turn.metadata
        if type(metadata) is not Metadata or metadata.extra or metadata.unread or type(metadata.usage) is not Usage:
            _require_fields(turn)
        for index, part in enumerate(turn.parts):
            if type(part) is Text and type(part.text) is str and part.opaque is None and part.extra is None:
                continue  # the most frequent part
            if type(part) is Tool and _is_usual_call(part):
                continue
            try:
                _require_part(part)
            except MalformedError as error:
                place = f"parts[{index}]"
                raise error.within(place) from None
    except MalformedError as error:
        return error
    return None


def _is_usual_call(tool: Tool) -> bool:
    """Return whether a tool call has only the fields of most calls, all of them valid. Fast."""
    return (
        type(tool.call) is FunctionCall
        and tuple(map(type, _call_fields(tool))) in _USUAL_CALLS
        and find_fault(tool.call.arguments, MOST_LEVELS) is None
        and _is_new(tool)
    )


def _require_part(part: object) -> None:
    if type(part) not in _FIELDS:
        msg = f" is {reprlib.repr(part)}, but must be a part, such as Text('…')"
        raise MalformedError(msg)
    _require_fields(part)
    if isinstance(part, ProviderPart) and not part.provider:
        msg = " is empty, but must be the name in `ProviderMeta`"
        raise MalformedError(msg, "provider")
    if isinstance(part, Tool) and not _is_new(part):
        _require_readable(part)


def _require_fields(item: object) -> None:
    for name, types in _FIELDS[type(item)]:
        value = getattr(item, name)
        if (value is None or type(value) is str) and type(value) in types:
            continue  # the most frequent case
        try:
            _require_value(value, types)
        except MalformedError as error:
            raise error.within(name) from None


def _require_value(value: object, types: tuple[type, ...]) -> None:
    if not isinstance(value, types):
        expected = " or ".join([kind.__name__ for kind in types if kind not in {Mapping, NoneType}])
        msg = f" is {reprlib.repr(value)}, but must be {expected}"
        raise MalformedError(msg)
    if type(value) in _FIELDS:
        _require_fields(value)
    elif value and not isinstance(value, (str, bytes, Usage)):
        _require_json(value)


def _require_json(value: object) -> None:
    if not isinstance(value, dict) and isinstance(value, Mapping):
        value = dict(cast("Mapping[object, object]", value))
    if fault := find_fault(cast("Any", value), MOST_LEVELS):
        msg = f"{fault}: use str, finite numbers, bool, None, lists, and dicts with str keys"
        raise MalformedError(msg)


def _is_new(tool: Tool) -> bool:
    """Return whether a tool call is new, so that the engine has not yet set its decisions, attempts or other fields."""
    return (
        not any(_engine_fields(tool))
        and (tool.status is NEW_CALL or tool.status == NEW_CALL)
        and tool.inner_usage is NO_USAGE
    )


def _require_readable(tool: Tool) -> None:
    """Raise `MalformedError` if a tool call cannot be written to JSON and read again."""
    try:
        data = tool_to_dict(tool)
        tool_from_dict(data, Messages)
    except (AttributeError, TypeError, ValueError) as error:
        msg = f" cannot be written and read: {error}"
        raise MalformedError(msg) from error
    _require_json(data)
