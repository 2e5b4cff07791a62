"""The quick reader: what nearly every turn of a stored history is, read without the means to say what is wrong.

It is certain, or it gives up: then the careful reader in `codec.py` reads the turn from its beginning, keeps what this
one does not know, and says where something is malformed. So nothing is refused here, and what is read here is what the
careful reader would have read. Conversations inside tools are left to the careful one: two readers at every depth would
be a number of readings that doubles with each.
"""

# What was parsed has no type until it is looked at, and a cast is a call: there would be as many as there are fields.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from chat_core.messages import _fresh as fresh
from chat_core.messages._fields import MalformedError
from chat_core.messages._metadata_codec import read_metadata
from chat_core.messages._part_codec import READERS
from chat_core.messages._tool_codec import plain_arguments, read_tool
from chat_core.messages.content import FinishReason

if TYPE_CHECKING:
    from chat_core.messages.content import Turn
    from chat_core.messages.parts import Part
    from chat_core.messages.tool import Tool

_TURN = frozenset({"parts", "created_at", "finish_reason", "metadata"})
_TOOL = frozenset({"type", "id", "call_id", "call", "status", "idempotency_key", "attempts", "revision"})
_REASONS: dict[str, FinishReason] = {item: item for item in get_args(FinishReason)}
_BARE = 2
"""How many fields a text, a call and a result have where they hold nothing unusual."""
_time = datetime.fromisoformat


def quick_turn(data: dict[str, Any]) -> Turn | None:
    """The turn that `data` is, or `None`: the careful reader must look at it."""
    parts, reason, metadata = data.get("parts"), data.get("finish_reason"), data.get("metadata")
    if (
        type(parts) is not list
        or not (reason is None or type(reason) is str)
        or not (metadata is None or type(metadata) is dict)
        or not _TURN.issuperset(data)
    ):
        return None
    try:
        found = tuple([_part(part) for part in parts])
        at = _time(data["created_at"])
        if at.tzinfo is None:
            return None
        reason = None if reason is None else _REASONS[reason]
        return fresh.turn(found, at, reason, None if metadata is None else read_metadata(metadata))
    except (KeyError, TypeError, ValueError, MalformedError):
        return None


def _part(data: Any) -> Part:  # noqa: ANN401 - JSON
    if type(data) is not dict:
        raise MalformedError("")
    kind = data["type"]
    if kind == "text" and len(data) == _BARE and type(data["text"]) is str:
        return fresh.text(data["text"])
    if kind == "tool":
        return _tool(data) or read_tool(data, _give_up)
    return READERS[kind](data)


def _tool(data: dict[str, Any]) -> Tool | None:
    id, call_id, call, status = data["id"], data.get("call_id"), data["call"], data["status"]  # noqa: A001
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
        or len(status) != _BARE
        or status["type"] != "completed"
        or type(call) is not dict
        or len(call) != _BARE
        or not _TOOL.issuperset(data)
    ):
        return None
    name, raw, result = call["name"], call["raw"], status["result"]
    if type(name) is not str or type(raw) is not str or (arguments := plain_arguments(raw)) is None:
        return None
    return fresh.tool(fresh.call(name, arguments, raw), id, call_id, fresh.completed(result), key, attempts, revision)


def _give_up(_: object) -> NoReturn:
    raise MalformedError("")
