"""Reader and writer for conversations as JSON documents.

The document is compact: it omits fields with default values and values that can be computed. Unknown fields and parts
of unknown type are kept at every level and written back. Malformed documents and documents of a later version are
rejected. The error has the path of the malformed value, such as `contents[2].turns[0].parts[1].status`.

`schema()` returns the JSON Schema of the document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Protocol, get_args

from pydantic_core import to_json

from chat_core.arguments import require_type
from chat_core.errors import InvalidDocumentError, NewerVersionError, UsageError
from chat_core.json import loads, parse
from chat_core.messages._fields import (
    Fields,
    MalformedError,
    format_time,
    merge_unknown_fields,
    read_array,
    read_boolean,
    read_choice,
    read_integer,
    read_nested,
    read_optional_choice,
    read_optional_items,
    read_optional_object,
    read_optional_string,
    read_string,
    read_time,
    require_object,
    unknown_fields,
)
from chat_core.messages._metadata_codec import read_metadata, read_usage, write_metadata
from chat_core.messages._part_codec import READERS, read_text, read_unknown, write_simple_part, write_text
from chat_core.messages._quick import read_turn_fast
from chat_core.messages._tool_codec import read_json_object, read_state, read_tool, write_tool
from chat_core.messages.content import Content, Encodings, FinishReason, Part, Role, Turn
from chat_core.messages.grants import Grant, Grants, read_grant
from chat_core.messages.parts import Extra, Text
from chat_core.messages.tool import Tool

if TYPE_CHECKING:
    from chat_core.messages._tool_codec import ReadInner
    from chat_core.messages.messages import Messages

VERSION = 1

_DOCUMENT = frozenset({"version", "contents", "state", "grants"})
_MINIMAL_FIELD_COUNT = 2
"""Number of fields of a document without optional fields."""
_CONTENT = frozenset({"role", "turns"})
_TURN = frozenset(
    {
        "parts",
        "finish_reason",
        "interrupted",
        "metadata",
        "created_at",
        "by",
        "delivered",
        "failed_usage",
        "failed_requests",
        "state",
        "view_offset",
        "client_tools",
        "client_id",
    }
)
_REQUIRED = frozenset({"parts", "created_at"})

_BATCH = 16
"""Number of contents serialized at once."""

_SPARE_LEVELS = 100
"""Number of nesting levels that a document must leave unused."""

_ROLES: dict[str, Role] = {item: item for item in get_args(Role)}
_REASONS: dict[str, FinishReason] = {item: item for item in get_args(FinishReason) if item != "interrupted"}


_Iterate = Callable[[list[object]], Iterator[object]]


class MakeMessages(Protocol):
    """Callable that creates a conversation from its contents, such as the `Messages` class."""

    def __call__(
        self, contents: Iterable[Content], *, state: Mapping[str, object] | None = None, extra: Extra
    ) -> Messages:
        """Create a conversation with these contents, initial state and unknown document fields."""
        ...


def schema() -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a stored conversation. It allows unknown fields."""
    from importlib.resources import files  # noqa: PLC0415 - only this function needs it

    text = files("chat_core.messages").joinpath("conversation.schema.json").read_text(encoding="utf-8")
    value: dict[str, object] = json.loads(text)
    return value


# --- Documents -------------------------------------------------------------------------------------------------


def write(contents: Iterable[Content], state: Mapping[str, object], grants: Grants, extra: Extra) -> str:
    """Return a conversation as the text of one JSON document.

    Args:
        contents: contents of the conversation.
        state: state before the first turn.
        grants: grants of the conversation.
        extra: unknown fields of the document that the conversation was read from.

    Raises:
        UsageError: a value in the conversation is not JSON.
    """
    items, others = [*contents], merge_unknown_fields(_write_state_and_grants(state, grants), extra, _DOCUMENT)
    try:
        return _write_in_batches(items, others)
    except ValueError:
        return _write_with_stdlib(_write_document(items, others))


def _write_in_batches(contents: Sequence[Content], others: Fields) -> str:
    # Building the objects of a whole history at once allocates megabytes, which takes as long as serializing them.
    # Each batch is nested as deep as in the document, so that the serializer's depth limit applies equally.
    batches = [
        to_json({"contents": [_write_content(content) for content in contents[i : i + _BATCH]]}, inf_nan_mode="null")
        for i in range(0, len(contents), _BATCH)
    ]
    texts = [batch[len('{"contents":[') : -len("]}")].decode() for batch in batches] or [""]
    unread = to_json(others, inf_nan_mode="null")[1:-1].decode()
    texts[0] = f'{{"version":{VERSION},"contents":[{texts[0]}'
    texts[-1] += f"]{',' if unread else ''}{unread}}}"
    return ",".join(texts)


def _write_with_stdlib(document: Fields) -> str:
    # pydantic_core rejects lone surrogates, and its depth limit is lower than that of the standard library.
    # Reading may start deeper in the stack than writing, so the document must leave levels unused.
    try:
        text = json.dumps(document, separators=(",", ":"))
        json.loads("[" * _SPARE_LEVELS + text + "]" * _SPARE_LEVELS)
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"the conversation contains a value that is not JSON: {error}; check results, opaque data and metadata"
        raise UsageError(msg) from error
    return text


def read(document: str | bytes, make: MakeMessages) -> Messages:
    """Parse a document written by `write()` and return the conversation.

    Args:
        document: the JSON text.
        make: the `Messages` class or a similar callable, passed as an argument to avoid an import cycle.

    Raises:
        InvalidDocumentError: the document is malformed. Its `path` attribute shows the position.
        NewerVersionError: the document was written by a later version of this library.
    """
    require_type("document", document, (str, bytes, bytearray), "JSON as a string or bytes, as of to_json()")
    try:
        value = _parse_json(document)
    except (ValueError, RecursionError) as error:
        msg = f"the document is not JSON: {error}"
        raise InvalidDocumentError(msg) from error
    try:
        return _read_document(value, make, _pop_in_order)
    except MalformedError as error:
        raise _document_error(error) from None
    except RecursionError as error:
        msg = "the conversations in the document are nested too deeply"
        raise InvalidDocumentError(msg) from error


def _parse_json(document: str | bytes) -> object:
    try:
        return parse(document, cache_strings="keys")  # only field names repeat often enough to save time
    except (TypeError, ValueError):
        return loads(document)


class _NewerVersionError(MalformedError):
    """Error for a document whose version is newer than the versions that this library can read."""


def _document_error(error: MalformedError) -> InvalidDocumentError:
    kind = NewerVersionError if isinstance(error, _NewerVersionError) else InvalidDocumentError
    return kind(error.message, path=error.where)


def _write_document(contents: Iterable[Content], others: Fields) -> Fields:
    return {"version": VERSION, "contents": [_write_content(content) for content in contents], **others}


def _write_state_and_grants(state: Mapping[str, object], grants: Grants) -> Fields:
    data: Fields = {"state": dict(state)} if state else {}
    if grants:
        data["grants"] = [grant.to_dict() for grant in grants]
    return data


def _write_inner(inner: Messages) -> Fields:
    others = _write_state_and_grants(inner.initial_state, inner.grants)
    return _write_document(inner.contents, merge_unknown_fields(others, inner.extra, _DOCUMENT))


def _pop_in_order(values: list[object]) -> Iterator[object]:
    # Frees each parsed value as soon as it is read. Keeping all of them alive next to the result made the garbage
    # collector take a fifth of the reading time.
    values.reverse()
    while values:
        yield values.pop()


def _read_document(value: object, make: MakeMessages, iterate: _Iterate = iter) -> Messages:
    data = require_object(value)
    version = read_integer(data, "version", 0, least=VERSION)
    if version > VERSION:
        msg = f"the document has version {version}, but this library reads versions up to {VERSION}: upgrade chat-core"
        raise _NewerVersionError(msg, "version")
    contents = _read_contents(iterate(read_array(data, "contents")), partial(_read_document, make=make))
    _require_unique(contents)
    if len(data) == _MINIMAL_FIELD_COUNT:
        return make(contents, extra=None)
    messages = make(contents, state=read_state(data), extra=unknown_fields(data, _DOCUMENT))
    messages.grants.reset(read_optional_items(data, "grants", _read_grant))
    return messages


def _read_grant(value: object) -> Grant:
    return read_grant(require_object(value))


def _require_unique(contents: list[Content]) -> None:
    # Repeated ids are an error: a new id would differ at each reading, and from the id that an approver has seen.
    ids = [part.id for content in contents for turn in content.turns for part in turn.parts if isinstance(part, Tool)]
    if len(ids) == len(set(ids)):
        return
    places = (
        (part.id, f"contents[{i}]", f"turns[{j}]", f"parts[{k}]")
        for i, content in enumerate(contents)
        for j, turn in enumerate(content.turns)
        for k, part in enumerate(turn.parts)
        if isinstance(part, Tool)
    )
    seen: set[str] = set()
    for id, *place in places:
        if id in seen:
            msg = f"two tool calls have the id {id!r}: give each call a different id"
            raise MalformedError(msg, *place, "id")
        seen.add(id)


def _write_content(content: Content) -> Fields:
    data: Fields = {"role": content.role, "turns": [turn_to_dict(turn) for turn in content.turns]}
    return merge_unknown_fields(data, content.extra, _CONTENT) if content.extra else data


def _read_contents(values: Iterable[object], read_inner: ReadInner) -> list[Content]:
    contents: list[Content] = []
    try:
        for value in values:
            data = require_object(value)
            turns = _read_turns(read_array(data, "turns"), read_inner)
            content = Content(read_choice(data, "role", _ROLES), turns)
            if len(data) > len(_CONTENT):
                content.extra = unknown_fields(data, _CONTENT)
            contents.append(content)
    except MalformedError as error:
        raise error.within("contents", f"[{len(contents)}]") from None
    return contents


# --- Turns -----------------------------------------------------------------------------------------------------


def turn_to_dict(turn: Turn) -> dict[str, object]:
    """Return a turn as a JSON object in the format of stored documents. Stores also write it to their journals.

    Raises:
        UsageError: `turn` is not a `Turn`.
    """
    require_type("turn", turn, Turn, "a Turn")
    data: Fields = {"parts": [_write_part(part) for part in turn.parts]}
    if turn.finish_reason is not None:
        data["finish_reason"] = turn.finish_reason
        if turn.finish_reason == "interrupted":
            # Earlier releases read a document with an additional field, but not one with an unknown finish reason.
            data |= {"finish_reason": "other", "interrupted": True}
    if turn.metadata is not None:
        data["metadata"] = write_metadata(turn.metadata)
    data["created_at"] = format_time(turn.created_at)
    if turn.by is not None:
        data["by"] = turn.by
    if turn.view_offset:
        data["view_offset"] = turn.view_offset
    if turn.delivered is not None or turn.failed_usage is not None or turn.failed_requests:
        data |= turn_marks(turn)
    if turn.state is not None:
        data["state"] = turn.state
    if turn.client_tools:
        data["client_tools"] = list(turn.client_tools)
    if turn.client_id is not None:
        data["client_id"] = turn.client_id
    return merge_unknown_fields(data, turn.extra, _TURN) if turn.extra else data


def turn_marks(turn: Turn) -> dict[str, object]:
    """Return a JSON object with the fields of a turn that can change later: `delivered` and `failed_…`."""
    data: Fields = {} if turn.delivered is None else {"delivered": turn.delivered}
    if turn.failed_usage is not None:
        data["failed_usage"] = turn.failed_usage.to_dict()
    if turn.failed_requests:
        data["failed_requests"] = turn.failed_requests
    return data


def set_turn_marks(turn: Turn, data: dict[str, object]) -> None:
    """Set `delivered` and `failed_…` of a turn to the values in an object made by `turn_marks()`.

    Args:
        turn: the turn to change.
        data: the parsed JSON object.

    Raises:
        InvalidDocumentError: a field is malformed.
    """
    try:
        _set_turn_marks(turn, data)
    except MalformedError as error:
        raise _document_error(error) from None


def _set_turn_marks(turn: Turn, data: Fields) -> None:
    usage = read_optional_object(data, "failed_usage")
    turn.failed_usage = None if usage is None else read_nested(usage, "failed_usage", read_usage)
    turn.failed_requests = read_integer(data, "failed_requests", 0)
    if data.get("delivered") is not None:
        turn.delivered = read_boolean(data, "delivered")


def turn_from_dict(data: object, make: MakeMessages) -> Turn:
    """Return a turn, read from an object made by `turn_to_dict()`.

    Args:
        data: the parsed JSON object.
        make: the `Messages` class or a similar callable, which creates inner conversations.

    Raises:
        InvalidDocumentError: the turn is malformed. Its `path` attribute shows the position.
        NewerVersionError: an inner conversation was written by a later version of this library.
    """
    try:
        items = require_object(data)
        return read_turn_fast(items) or _read_turn(items, partial(_read_document, make=make))
    except MalformedError as error:
        raise _document_error(error) from None


def grant_from_dict(data: object) -> Grant:
    """Return a grant, read from an object made by `Grant.to_dict()`.

    Raises:
        InvalidDocumentError: the grant is malformed. Its `path` attribute shows the position.
    """
    try:
        return _read_grant(data)
    except MalformedError as error:
        raise _document_error(error) from None


def tool_to_dict(tool: Tool) -> dict[str, object]:
    """Return a tool call as a JSON object in the format of stored documents. Stores also write it to their journals.

    Raises:
        UsageError: `tool` is not a tool call.
    """
    require_type("tool", tool, Tool, "a tool call")
    return write_tool(tool, _write_inner)


def tool_from_dict(data: object, make: MakeMessages) -> Tool:
    """Return a tool call, read from an object made by `tool_to_dict()`.

    Args:
        data: the parsed JSON object.
        make: the `Messages` class or a similar callable, which creates inner conversations.

    Raises:
        InvalidDocumentError: the tool call is malformed. Its `path` attribute shows the position.
        NewerVersionError: an inner conversation was written by a later version of this library.
    """
    try:
        return read_tool(require_object(data), partial(_read_document, make=make))
    except MalformedError as error:
        raise _document_error(error) from None


def copy_tool(tool: Tool, make: MakeMessages) -> Tool:
    """Return an independent copy of a tool call with the same status, arguments and decisions.

    Args:
        tool: the tool call, which is not changed.
        make: the `Messages` class or a similar callable, which creates the copies of inner conversations.
    """
    if tool.inner is not None:
        return tool_from_dict(tool_to_dict(tool), make)
    copied = Tool(tool.call, id=tool.id, call_id=tool.call_id)
    copied.adopt(tool)
    return copied


def copy_turn(turn: Turn, make: MakeMessages) -> Turn:
    """Return a copy of a turn in which tool calls are copied and all other parts are shared.

    Args:
        turn: the turn, which is not changed.
        make: the `Messages` class or a similar callable, which creates the copies of inner conversations.
    """
    copied = copy(turn)
    copied.parts = tuple([copy_tool(part, make) if isinstance(part, Tool) else part for part in turn.parts])
    if turn.settled and turn.encodings is None:
        turn.encodings = Encodings()
    copied.encodings = turn.encodings  # shared, so that each turn is encoded once
    copied.owned = False
    return copied


def _read_turns(values: list[object], read_inner: ReadInner) -> list[Turn]:
    turns: list[Turn] = []
    try:
        for value in values:
            data = require_object(value)
            turns.append(read_turn_fast(data) or _read_turn(data, read_inner))
    except MalformedError as error:
        raise error.within("turns", f"[{len(turns)}]") from None
    return turns


def _read_turn(data: Fields, read_inner: ReadInner) -> Turn:
    turn = Turn(_read_parts(data, read_inner), created_at=read_time(data, "created_at"))
    if len(data) > len(_REQUIRED):
        metadata = read_optional_object(data, "metadata")
        turn.finish_reason = read_optional_choice(data, "finish_reason", _REASONS)
        if data.get("interrupted"):
            turn.finish_reason = "interrupted"
        turn.metadata = None if metadata is None else read_nested(metadata, "metadata", read_metadata)
        turn.by = read_optional_string(data, "by")
        turn.state = read_state(data)
        turn.client_tools = tuple(read_optional_items(data, "client_tools", read_json_object))
        turn.client_id = read_optional_string(data, "client_id")
        turn.view_offset = read_integer(data, "view_offset", 0)
        _set_turn_marks(turn, data)
        turn.extra = unknown_fields(data, _TURN)
    return turn


def _read_parts(data: Fields, read_inner: ReadInner) -> list[Part]:
    # Repeats the loop of `read_items()`, to avoid creating a closure for every turn.
    values = read_array(data, "parts")
    parts: list[Part] = []
    try:
        for value in values:
            parts.append(_read_part(value, read_inner))  # noqa: PERF401 - its length is the index of a malformed part
    except MalformedError as error:
        raise error.within("parts", f"[{len(parts)}]") from None
    return parts


def _write_part(part: Part) -> Fields:
    # The most frequent types come first; a `match` on classes costs a call for each case.
    if type(part) is Text:
        return write_text(part)
    if isinstance(part, Tool):
        return write_tool(part, _write_inner)
    return write_simple_part(part)


def _read_part(value: object, read_inner: ReadInner) -> Part:
    data = require_object(value)
    kind = data.get("type")
    if kind == "text":
        return read_text(data)
    if kind == "tool":
        return read_tool(data, read_inner)
    kind = read_string(data, "type")
    reader = READERS.get(kind)
    return read_unknown(data, kind) if reader is None else reader(data)
