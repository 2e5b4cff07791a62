"""Checks of conversations, turns, descriptions and jobs before a store writes them."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, cast

from chat_core.errors import UsageError
from chat_core.json import MAX_DEPTH, dump_bytes, is_deeper, is_finite, loads
from chat_core.messages import Messages, Tool, Turn
from chat_core.messages.content import ROLES
from chat_core.messages.storable import find_turn_fault

from chat_store._arguments import require_optional_text, require_text, require_whole, type_error
from chat_store.deltas import ResponseDelta
from chat_store.jobs import Job, StoredJob
from chat_store.meta import ConversationMeta, HistoryPosition, MetaChanges

T = TypeVar("T")

_META_KEYS: Final = tuple(MetaChanges.__annotations__)


def require_messages(messages: object) -> None:
    """Raise an error unless an argument is a conversation.

    Raises:
        UsageError: the argument has another type.
    """
    if not isinstance(messages, Messages):
        raise type_error("messages", "chat_core.Messages, as in Messages.from_user('Hello.')", messages)


def require_changes(meta: MetaChanges | None, jobs: Sequence[Job], known_jobs: object = None) -> None:
    """Raise an error unless every database can store these description changes and jobs, and the known jobs are jobs.

    Raises:
        UsageError: a key or a value has the wrong type or cannot be stored, or the kind or the key of a job is empty.
    """
    if meta is not None:
        _require_meta(meta)
    for job in _require_items("jobs", jobs, "Job objects, as in [Job('index', '1')]", Job):
        require_text(kind=job.kind, key=job.key)
        if not job.kind or not job.key:
            msg = f"a job needs a kind and a key that are not empty, not {job.kind!r} and {job.key!r}"
            raise UsageError(msg)
        _require_json("payload", job.payload)
    if known_jobs is not None:
        _require_items("known_jobs", known_jobs, "StoredJob objects, as jobs() returns them", StoredJob)


def require_turns(turns: object, tools: object) -> None:
    """Raise an error unless `turns` are pairs of a role and a turn, and `tools` are tool calls, that can be stored.

    Raises:
        UsageError: an item has the wrong type, a role is unknown, or a turn cannot be stored.
    """
    expected = "pairs of a role and a Turn, as in [('user', Turn([Text('Hello.')]))]"
    for pair in _require_items("turns", turns, expected, cast("type[Sequence[object]]", Sequence)):
        role, turn = pair if len(pair) == 2 else (None, None)  # noqa: PLR2004 - a role and a turn
        if not isinstance(turn, Turn):
            raise type_error("turns", f"a list of {expected}", turn)
        if role not in ROLES:
            expected = ", ".join(map(repr, ROLES))
            raise type_error("role", expected, role)
        _require_storable_turn(turn)
    _require_items("tools", tools, "Tool objects of the snapshot, as in [snapshot.messages.tool('call_1')]", Tool)


def require_post(turn: Turn, key: str) -> None:
    """Raise an error unless this turn can be posted with this key.

    Raises:
        UsageError: the turn has tool calls or cannot be stored, or the key is empty or cannot be stored.
    """
    require_text(key=key)
    if not isinstance(cast("object", turn), Turn):
        raise type_error("turn", "a Turn, as in Turn([Text('Hello.')])", turn)
    if not key:
        msg = "post() needs a key that is not empty: pass an id of the request, so that a repeated post is recognized"
        raise UsageError(msg)
    if turn.tools:
        called = ", ".join([tool.call.name for tool in turn.tools])
        msg = f"post() needs a turn without tool calls, but this turn calls {called}"
        raise UsageError(msg)
    _require_storable_turn(turn)


def require_redaction(target: object, by: object, reason: object) -> None:
    """Raise an error unless the arguments are a valid target, author and reason of a redaction.

    Raises:
        UsageError: an argument has the wrong type, or the author or the reason is empty.
    """
    if isinstance(target, str):
        require_text(target=target)
    else:
        require_whole("target", target)
    require_text(by=by, reason=reason)
    if not by or not reason:
        msg = f"redact() needs an author in by and a reason, which are not empty, not by={by!r} and reason={reason!r}"
        raise UsageError(msg)


def require_position(position: object) -> None:
    """Raise an error unless an argument is None or a position in a history.

    Raises:
        UsageError: the argument has another type.
    """
    if position is not None and not isinstance(position, HistoryPosition):
        raise type_error("after", "the position of a HistoryEntry or None", position)


def require_deltas(deltas: object) -> None:
    """Raise an error unless an argument is a list of text deltas that every database can store.

    Raises:
        UsageError: an item has another type, or a text cannot be stored.
    """
    for delta in _require_items("deltas", deltas, "ResponseDelta objects", ResponseDelta):
        require_text(conversation=delta.conversation, kind=delta.kind, key=delta.key)
        require_whole("fence", delta.fence)
        require_whole("step", delta.step)
        require_whole("start", delta.start)
        _require_items("pieces", delta.pieces, "strings", str)


def require_positions(after: object) -> None:
    """Raise an error unless an argument maps ids of conversations to positions of deltas.

    Raises:
        UsageError: the argument is not a mapping, or an id or a position has another type.
    """
    if not isinstance(after, Mapping):
        raise type_error("after", "a mapping from ids of conversations to positions", after)
    for name, position in cast("Mapping[object, object]", after).items():
        require_text(id=name)
        require_whole("position", position)


def fork_description(source: ConversationMeta, changes: MetaChanges | None) -> MetaChanges:
    """Return the description of a forked conversation: the description of the original, with changes applied.

    Args:
        source: the description of the original.
        changes: the fields in which the copy differs. Keys in `data` are added to those of the original.
    """
    given = changes or {}
    data = {**source.data, **given.get("data", {})}
    return {"title": given.get("title", source.title), "flow": given.get("flow", source.flow), "data": data}


def _require_meta(meta: object) -> None:
    expected = "a dict with the keys 'title', 'flow' and 'data'"
    if not isinstance(meta, Mapping):
        raise type_error("meta", expected, meta)
    fields = cast("Mapping[object, object]", meta)
    if unknown := [key for key in fields if key not in _META_KEYS]:
        keys = ", ".join(map(reprlib.repr, unknown))
        msg = f"meta has the unknown keys {keys}: pass {expected}, and put keys of your application into 'data'"
        raise UsageError(msg)
    require_optional_text(title=fields.get("title"), flow=fields.get("flow"))
    _require_json("data", fields.get("data", {}))


def _require_storable_turn(turn: Turn) -> None:
    if (fault := find_turn_fault(turn)) is not None:
        msg = f"the turn cannot be stored: {fault.where}{fault.message}"
        raise UsageError(msg)


def _require_items(name: str, items: object, expected: str, kind: type[T]) -> Sequence[T]:
    """Return the sequence `items` as a list, or raise an error.

    Args:
        name: the name of the argument.
        items: the value that was passed.
        expected: a description of the items, with an example.
        kind: the type of an item.

    Raises:
        UsageError: the argument is not a sequence, or an item has another type.
    """
    if not isinstance(items, Sequence) or isinstance(items, (str, bytes)):
        raise type_error(name, f"a list of {expected}", items)
    for item in cast("Sequence[object]", items):
        if not isinstance(item, kind):
            raise type_error(name, f"a list of {expected}", item)
    return cast("Sequence[T]", items)


def _require_json(name: str, value: object) -> None:
    """Raise an error unless a value is a JSON object with finite numbers and at most `MAX_DEPTH` levels."""
    if not isinstance(value, Mapping):
        raise type_error(name, "a dict that is a JSON object", value)
    try:
        parsed = loads(dump_bytes(dict(cast("Mapping[str, object]", value))))
    except (TypeError, ValueError, RecursionError):
        parsed = None
    if parsed is None or not is_finite(parsed) or is_deeper(parsed, MAX_DEPTH):
        msg = f"{name} must be a JSON object without infinite numbers, at most {MAX_DEPTH} levels deep"
        raise UsageError(msg)
