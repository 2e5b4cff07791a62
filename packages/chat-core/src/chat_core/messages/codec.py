"""A conversation as one JSON document, and back.

The document is compact: it leaves out what is at its default, and stores nothing that can be computed from the rest of
it. Fields that this version does not know are kept and written back, at every level; so are parts of an unknown type. A
document of a later version is refused, and so is everything that is malformed, with the way to it:
`contents[2].turns[0].parts[1].status`.

Its JSON Schema is `schema()`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Protocol, get_args

from pydantic_core import to_json

from chat_core.errors import InvalidDocumentError, NewerVersionError, UsageError
from chat_core.json import loads, parse
from chat_core.messages._fields import (
    Fields,
    MalformedError,
    array,
    fields,
    integer,
    keep,
    mapping_or_none,
    moment,
    nested,
    rest,
    string,
    string_or_none,
    word,
    word_or_none,
    written,
)
from chat_core.messages._metadata_codec import read_metadata, write_metadata
from chat_core.messages._part_codec import (
    READERS,
    read_text,
    read_unknown,
    write_embedding,
    write_file,
    write_provider,
    write_reasoning,
    write_structured,
    write_text,
)
from chat_core.messages._quick import quick_turn
from chat_core.messages._tool_codec import read_tool, write_tool
from chat_core.messages.content import Content, FinishReason, Role, Turn
from chat_core.messages.parts import Embedding, Extra, File, Part, Reasoning, Structured, Text
from chat_core.messages.tool import Tool

if TYPE_CHECKING:
    from chat_core.messages._tool_codec import ReadInner
    from chat_core.messages.messages import Messages

VERSION = 1

_DOCUMENT = frozenset({"version", "contents"})
_CONTENT = frozenset({"role", "turns"})
_TURN = frozenset({"parts", "finish_reason", "metadata", "created_at", "by"})
_ALWAYS = frozenset({"parts", "created_at"})

_BATCH = 16
"""How many contents are written at once."""

_ROLES: dict[str, Role] = {item: item for item in get_args(Role)}
_REASONS: dict[str, FinishReason] = {item: item for item in get_args(FinishReason)}


_Each = Callable[[list[object]], Iterator[object]]


class Make(Protocol):
    """Makes a conversation of its contents: `Messages`."""

    def __call__(self, contents: Iterable[Content], *, extra: Extra) -> Messages:
        """A conversation of these contents."""
        ...


def schema() -> dict[str, object]:
    """The JSON Schema (draft 2020-12) of a stored conversation. It allows fields that it does not know."""
    text = files("chat_core.messages").joinpath("conversation.schema.json").read_text(encoding="utf-8")
    value: dict[str, object] = json.loads(text)
    return value


# --- Documents -------------------------------------------------------------------------------------------------


def write(contents: Iterable[Content], extra: Extra) -> str:
    """A conversation as one JSON document.

    Raises:
        UsageError: a caller's or a provider's data in it is not JSON.
    """
    found = [*contents]
    try:
        return _write_by_batches(found, extra)
    except ValueError:
        return _write_slowly(_write_document(found, extra))


def _write_by_batches(contents: Sequence[Content], extra: Extra) -> str:
    # The objects of a whole history would be some megabytes of new memory, which costs as much as what is written into
    # them. Each batch is as deep in an object as it is in the document: a depth that is refused there is refused here.
    batches = [
        to_json({"contents": [_write_content(content) for content in contents[i : i + _BATCH]]}, inf_nan_mode="null")
        for i in range(0, len(contents), _BATCH)
    ]
    texts = [batch[len('{"contents":[') : -len("]}")].decode() for batch in batches] or [""]
    unread = to_json(keep({}, extra, _DOCUMENT), inf_nan_mode="null")[1:-1].decode()
    texts[0] = f'{{"version":{VERSION},"contents":[{texts[0]}'
    texts[-1] += f"]{',' if unread else ''}{unread}}}"
    return ",".join(texts)


def _write_slowly(document: Fields) -> str:
    # Lone surrogates have no UTF-8, only escapes; and the standard library goes deeper.
    try:
        return json.dumps(document, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"the conversation holds something that is not JSON: {error}; look at results, opaque data and metadata"
        raise UsageError(msg) from error


def read(document: str | bytes, make: Make) -> Messages:
    """Read a conversation that `write()` wrote.

    Raises:
        InvalidDocumentError: it is not one; the error says where.
        NewerVersionError: it was written by a later version of this library.
    """
    try:
        value = _parse(document)
    except (ValueError, TypeError, RecursionError) as error:
        msg = f"not a JSON document: {error}"
        raise InvalidDocumentError(msg) from error
    try:
        return _read_document(value, make, _let_go)
    except MalformedError as error:
        raise _invalid(error) from None
    except RecursionError as error:
        msg = "conversations are nested too deeply"
        raise InvalidDocumentError(msg) from error


def _parse(document: str | bytes) -> object:
    try:
        # Texts repeat far less than the names of fields do, and to look each up would cost more than it saves.
        return parse(document, cache_strings="keys")
    except (TypeError, ValueError):
        return loads(document)


class _NewerVersionError(MalformedError):
    """The version is one that this library does not know yet."""


def _invalid(error: MalformedError) -> InvalidDocumentError:
    kind = NewerVersionError if isinstance(error, _NewerVersionError) else InvalidDocumentError
    return kind(error.message, path=error.where)


def _write_document(contents: Iterable[Content], extra: Extra) -> Fields:
    data: Fields = {"version": VERSION, "contents": [_write_content(content) for content in contents]}
    return keep(data, extra, _DOCUMENT)


def _write_inner(inner: Messages) -> Fields:
    return _write_document(inner.contents, inner.extra)


def _let_go(values: list[object]) -> Iterator[object]:
    # What was parsed and what was read from it need not both be there: together they are so many objects that the
    # garbage collector, which goes through the young ones again and again, took a fifth of the time of reading.
    values.reverse()
    while values:
        yield values.pop()


def _read_document(value: object, make: Make, each: _Each = iter) -> Messages:
    data = fields(value)
    version = integer(data, "version", 0, least=VERSION)
    if version > VERSION:
        msg = f"the document is of version {version}, and this library reads up to {VERSION}: upgrade it"
        raise _NewerVersionError(msg, "version")
    contents = _read_contents(each(array(data, "contents")), partial(_read_document, make=make))
    _require_unique(contents)
    return make(contents, extra=rest(data, _DOCUMENT) if len(data) > len(_DOCUMENT) else None)


def _require_unique(contents: list[Content]) -> None:
    # An id that were minted anew at each reading would not be the one that an approver was shown.
    ids = [part.id for content in contents for turn in content.turns for part in turn.parts if isinstance(part, Tool)]
    if len(ids) == len(set(ids)):
        return
    seen: set[str] = set()
    for i, content in enumerate(contents):
        for j, turn in enumerate(content.turns):
            for k, part in enumerate(turn.parts):
                if isinstance(part, Tool):
                    if part.id in seen:
                        msg = f"{part.id!r} is the id of another tool, too"
                        raise MalformedError(msg, f"contents[{i}]", f"turns[{j}]", f"parts[{k}]", "id")
                    seen.add(part.id)


def _write_content(content: Content) -> Fields:
    data: Fields = {"role": content.role, "turns": [turn_to_dict(turn) for turn in content.turns]}
    return keep(data, content.extra, _CONTENT) if content.extra else data


def _read_contents(values: Iterable[object], read_inner: ReadInner) -> list[Content]:
    done: list[Content] = []
    try:
        for value in values:
            data = fields(value)
            turns = _read_turns(array(data, "turns"), read_inner)
            content = Content(word(data, "role", _ROLES), turns)
            if len(data) > len(_CONTENT):
                content.extra = rest(data, _CONTENT)
            done.append(content)
    except MalformedError as error:
        raise error.within("contents", f"[{len(done)}]") from None
    return done


# --- Turns -----------------------------------------------------------------------------------------------------


def turn_to_dict(turn: Turn) -> dict[str, object]:
    """A turn as a JSON object, as it stands in a document: what a store's journal writes."""
    data: Fields = {"parts": [_write_part(part) for part in turn.parts]}
    if turn.finish_reason is not None:
        data["finish_reason"] = turn.finish_reason
    if turn.metadata is not None:
        data["metadata"] = write_metadata(turn.metadata)
    data["created_at"] = written(turn.created_at)
    if turn.by is not None:
        data["by"] = turn.by
    return keep(data, turn.extra, _TURN) if turn.extra else data


def turn_from_dict(data: object, make: Make) -> Turn:
    """Read what `turn_to_dict()` wrote.

    Raises:
        InvalidDocumentError: it is not a turn; the error says where.
        NewerVersionError: a conversation inside was written by a later version of this library.
    """
    try:
        found = fields(data)
        return quick_turn(found) or _read_turn(found, partial(_read_document, make=make))
    except MalformedError as error:
        raise _invalid(error) from None


def tool_to_dict(tool: Tool) -> dict[str, object]:
    """A tool as a JSON object, as it stands in a document: what a store's journal writes."""
    return write_tool(tool, _write_inner)


def tool_from_dict(data: object, make: Make) -> Tool:
    """Read what `tool_to_dict()` wrote.

    Raises:
        InvalidDocumentError: it is not a tool; the error says where.
        NewerVersionError: a conversation inside was written by a later version of this library.
    """
    try:
        return read_tool(fields(data), partial(_read_document, make=make))
    except MalformedError as error:
        raise _invalid(error) from None


def copy_tool(tool: Tool, make: Make) -> Tool:
    """Return a copy of a tool in the same state that shares nothing mutable with it.

    Args:
        tool: the tool, which is not changed.
        make: `Messages`, which inner conversations are copied into.
    """
    if tool.inner is not None:
        return tool_from_dict(tool_to_dict(tool), make)
    copy = Tool(tool.call, id=tool.id, call_id=tool.call_id)
    copy.adopt(tool)
    return copy


def _read_turns(values: list[object], read_inner: ReadInner) -> list[Turn]:
    done: list[Turn] = []
    try:
        for value in values:
            data = fields(value)
            done.append(quick_turn(data) or _read_turn(data, read_inner))
    except MalformedError as error:
        raise error.within("turns", f"[{len(done)}]") from None
    return done


def _read_turn(data: Fields, read_inner: ReadInner) -> Turn:
    turn = Turn(_read_parts(data, read_inner), created_at=moment(data, "created_at"))
    if len(data) > len(_ALWAYS):
        metadata = mapping_or_none(data, "metadata")
        turn.finish_reason = word_or_none(data, "finish_reason", _REASONS)
        turn.metadata = None if metadata is None else nested(metadata, "metadata", read_metadata)
        turn.by = string_or_none(data, "by")
        turn.extra = rest(data, _TURN)
    return turn


def _read_parts(data: Fields, read_inner: ReadInner) -> list[Part]:
    # As `items()` does, without a function of its own for every turn.
    values = array(data, "parts")
    done: list[Part] = []
    try:
        for value in values:
            done.append(_read_part(value, read_inner))  # noqa: PERF401 - `done` tells which part was wrong
    except MalformedError as error:
        raise error.within("parts", f"[{len(done)}]") from None
    return done


def _write_part(part: Part) -> Fields:  # noqa: PLR0911 - one case for each part
    # The commonest first; `match` on classes costs a call for each case.
    if type(part) is Text:
        return write_text(part)
    if isinstance(part, Tool):
        return write_tool(part, _write_inner)
    match part:
        case Reasoning():
            return write_reasoning(part)
        case Structured():
            return write_structured(part)
        case File():
            return write_file(part)
        case Embedding():
            return write_embedding(part)
        case _:
            return write_provider(part)


def _read_part(value: object, read_inner: ReadInner) -> Part:
    data = fields(value)
    kind = data.get("type")
    if kind == "text":
        return read_text(data)
    if kind == "tool":
        return read_tool(data, read_inner)
    kind = string(data, "type")
    reader = READERS.get(kind)
    return read_unknown(data, kind) if reader is None else reader(data)
