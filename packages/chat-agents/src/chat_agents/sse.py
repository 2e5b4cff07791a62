"""Encoding of agent events as server-sent events, with the same bytes as arche."""

from __future__ import annotations

import base64
import re
from typing import TypeAlias

from chat_core import File, Paused, UsageError, Wait
from chat_core.arguments import argument_error
from chat_core.clock import isoformat
from chat_core.json import dumps, find_fault

from chat_agents.events import AgentEvent, Data, Done, Error, Text, ToolStatus

_LINE_END = re.compile("\r\n|\r|\n")
_Fields: TypeAlias = dict[str, object]


def to_sse_event(event: AgentEvent[Paused], /) -> bytes:
    r"""Return an event as a server-sent event, or empty bytes for a status that front ends do not receive.

    The data of a `text` event is the raw text: each line of the text is a `data:` line, and all kinds of line ends
    arrive as `\n`. The data of the other events is JSON. The status `waiting` is not sent, because a `paused` event
    with the waiting calls follows.

    Args:
        event: event of an `AgentRun`, or one of your own.

    Raises:
        UsageError: the payload of `Data` is not JSON, such as NaN, or `event` is not an event. Payloads from tools are
            JSON.
    """
    if isinstance(event, Text):
        return _encode_event("text", event.delta) if event.delta else b""
    if isinstance(event, ToolStatus) and event.status == "waiting":
        return b""
    if isinstance(event, Data) and not isinstance(event.payload, File) and (fault := find_fault(event.payload)):
        msg = f"the payload of Data({event.type!r}, …) is not JSON: payload{fault}"
        raise UsageError(msg)
    name, data = _event_name_and_fields(event)
    return _encode_event(name, dumps(data))


def _event_name_and_fields(event: ToolStatus | Data | Error | Done | Paused) -> tuple[str, _Fields]:
    """Return the name of an event and the fields of its JSON data."""
    match event:
        case ToolStatus(tool, _, status, label):
            return "tool_status", _without_none({"tool": tool, "status": status, "label": label})
        case Data(kind, payload):
            return "data", {"type": kind, "payload": _file_fields(payload) if isinstance(payload, File) else payload}
        case Error(code, message):
            return "error", {"code": code, "message": message}
        case Paused(waiting):
            session_id = waiting[0].conversation if waiting else None
            return "paused", {"session_id": session_id, "waiting": [wait_fields(wait) for wait in waiting]}
        case Done(session_id):
            return "done", {"session_id": session_id}
        case _:
            raise argument_error("event", "an event of an AgentRun, such as Text('Hello')", event)


def wait_fields(wait: Wait, /) -> dict[str, object]:
    """Return the JSON object that describes a waiting call in a `paused` event.

    Args:
        wait: the waiting call.
    """
    fields: _Fields = {
        "id": "/".join(wait.path),
        "tool": wait.name,
        "arguments": wait.arguments,
        "kind": wait.kind,
        "revision": wait.revision,
        "expires_at": isoformat(wait.expires_at),
        "at": isoformat(wait.at),
    }
    return _without_none(fields)


def _file_fields(file: File) -> _Fields:
    data = None if file.data is None else base64.b64encode(file.data).decode()
    return _without_none({"mime": file.mime, "name": file.name, "url": file.url, "data": data})


def _without_none(fields: _Fields) -> _Fields:
    return {name: value for name, value in fields.items() if value is not None}


def _encode_event(name: str, data: str) -> bytes:
    lines = "\n".join([f"data: {line}" for line in _LINE_END.split(data)])
    return f"event: {name}\n{lines}\n\n".encode("utf-8", "replace")
