"""Check that a turn of a provider can be stored and read again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic_core import to_json

from chat_core.errors import InvalidResponseError
from chat_core.json import is_deeper
from chat_core.messages.content import Part, Turn
from chat_core.messages.parts import File, ProviderPart, Reasoning, Structured, Text
from chat_core.messages.tool import Tool

MOST_LEVELS = 254
"""Maximum nesting depth of a value: the limit of `to_json()`. Documents are parsed with a higher limit."""


def require_storable(turn: Turn) -> Turn:
    """Return a turn whose data is JSON of a limited depth.

    Providers are not trusted to check this: a turn that could not be read again would make the whole conversation
    unreadable.

    Args:
        turn: turn that a provider returned.

    Raises:
        InvalidResponseError: metadata, opaque data, arguments or another value is not JSON, or it is nested more deeply
            than `MOST_LEVELS`.
    """
    for path, value in _values(turn):
        if value and not _is_storable(value):
            msg = f"{path} of the response is not JSON, or it is nested more than {MOST_LEVELS} levels deep"
            raise InvalidResponseError(msg, path=path, partial=turn)
    return turn


def _values(turn: Turn) -> Iterator[tuple[str, object]]:
    if turn.metadata is not None:
        yield "metadata.extra", turn.metadata.extra
    for index, part in enumerate(turn.parts):
        for name, value in _part_values(part):
            yield f"parts[{index}].{name}", value


def _part_values(part: Part) -> Iterator[tuple[str, object]]:
    if isinstance(part, (Text, Reasoning, File)):
        if part.opaque is not None:
            yield "opaque", part.opaque.data
    elif isinstance(part, Tool):
        if part.call.raw is None:
            yield "arguments", part.call.arguments
        if part.call.opaque is not None:
            yield "opaque", part.call.opaque.data
    elif isinstance(part, ProviderPart):
        yield "data", part.data
    elif isinstance(part, Structured):
        yield "value", part.value


def _is_storable(value: object) -> bool:
    if isinstance(value, Mapping):
        value = dict(cast("Mapping[str, object]", value))
    try:
        to_json(value, inf_nan_mode="null")
    except ValueError:
        # Too deep for this serializer, or with lone surrogates, which it rejects.
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return False
        return not is_deeper(value, MOST_LEVELS)
    return True
