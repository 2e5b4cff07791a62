"""Fast reader for ordinary turns of a stored conversation.

`read_turn_fast()` reads turns that have only common fields. It returns `None` for any other turn, valid or not. The
full reader in `codec.py` then reads that turn from its beginning, keeps unknown fields and reports errors. Both readers
return equal turns. Only the full reader reads conversations inside tools, because trying both readers at every depth
would double the work with each level.
"""

# Parsed JSON is untyped, and `cast()` is a function call, which would cost one call per field.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from chat_core.messages import _fresh as fresh
from chat_core.messages._fields import MalformedError
from chat_core.messages._metadata_codec import read_metadata
from chat_core.messages._part_codec import READERS
from chat_core.messages._tool_codec import parse_plain_arguments, read_tool
from chat_core.messages.content import FinishReason

if TYPE_CHECKING:
    from chat_core.messages.content import Part, Turn
    from chat_core.messages.tool import Tool

_TURN = frozenset({"parts", "created_at", "finish_reason", "metadata", "delivered", "view_offset"})
_TOOL = frozenset({"type", "id", "call_id", "call", "status", "idempotency_key", "attempts", "revision"})
_REASONS: dict[str, FinishReason] = {item: item for item in get_args(FinishReason)}
_MINIMAL_FIELD_COUNT = 2
"""Number of required fields, the same in a text, a call and a completed status."""
_parse_time = datetime.fromisoformat


def read_turn_fast(data: dict[str, Any]) -> Turn | None:
    """Return the turn in `data`, or `None` if the turn is unusual and the full reader must read it."""
    parts, reason, metadata = data.get("parts"), data.get("finish_reason"), data.get("metadata")
    delivered, view_offset = data.get("delivered"), data.get("view_offset", 0)
    if (
        type(parts) is not list
        or not (reason is None or type(reason) is str)
        or not (metadata is None or type(metadata) is dict)
        or not _TURN.issuperset(data)
        or not (delivered is None or type(delivered) is bool)
        or type(view_offset) is not int
        or view_offset < 0
    ):
        return None
    try:
        found = tuple([_read_part(part) for part in parts])
        at = _parse_time(data["created_at"])
        if at.tzinfo is None:
            return None
        reason = None if reason is None else _REASONS[reason]
        return fresh.new_turn(
            found,
            at,
            reason,
            None if metadata is None else read_metadata(metadata),
            delivered=delivered,
            view_offset=view_offset,
        )
    except (KeyError, TypeError, ValueError, MalformedError):
        return None


def _read_part(data: Any) -> Part:  # noqa: ANN401 - JSON
    if type(data) is not dict:
        raise MalformedError("")
    kind = data["type"]
    if kind == "text" and len(data) == _MINIMAL_FIELD_COUNT and type(data["text"]) is str:
        return fresh.new_text(data["text"])
    if kind == "tool":
        return _read_completed_tool(data) or read_tool(data, _reject_inner)
    return READERS[kind](data)


def _read_completed_tool(data: dict[str, Any]) -> Tool | None:
    id, call_id, call, status = data["id"], data.get("call_id"), data["call"], data["status"]
    key, attempts, revision = data.get("idempotency_key", ""), data.get("attempts", 0), data.get("revision", 0)
    if (
        type(id) is not str
        or not id
        or not (call_id is None or type(call_id) is str)
        or type(key) is not str
        or type(attempts) is not int
        or attempts < 0
        or type(revision) is not int
        or revision < 0
        or type(status) is not dict
        or len(status) != _MINIMAL_FIELD_COUNT
        or status["type"] != "completed"
        or type(call) is not dict
        or len(call) != _MINIMAL_FIELD_COUNT
        or not _TOOL.issuperset(data)
    ):
        return None
    name, raw, result = call["name"], call["raw"], status["result"]
    if type(name) is not str or type(raw) is not str or (arguments := parse_plain_arguments(raw)) is None:
        return None
    return fresh.new_tool(
        fresh.new_call(name, arguments, raw), id, call_id, fresh.new_completed(result), key, attempts, revision
    )


def _reject_inner(_: object) -> NoReturn:
    raise MalformedError("")
