"""Import and export of the session documents of arche and senno.

Such a document has four kinds of messages: `user`, `assistant`, `tool_call` and `tool_result`. Documents written by
arche are imported without loss, apart from nanoseconds. A call is stored with its result, so models receive results in
the order of the calls. The position of a result that follows later, and fields that this library does not know, are
stored in the parts, and the export restores them. Exporting a session raises an error if the document format
cannot express a part of the session.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, cast

from chat_core import (
    Completed,
    FunctionCall,
    InvalidDocumentError,
    Messages,
    Opaque,
    Reasoning,
    Rewind,
    Role,
    Summary,
    Text,
    Tool,
    Turn,
    UsageError,
)
from chat_core.arguments import require_type
from chat_core.json import dumps, loads

from chat_agents.session import AgentSession, read_object, read_text, read_time
from chat_agents.usage import RESULT, SessionUsage

_FIELDS: Final = frozenset({"id", "flow", "messages", "metadata", "usage", "created_at", "last_active"})
_GEMINI: Final = "gemini"
_SIGNATURE: Final = "thoughtSignature"
_ARCHE: Final = "arche"
"""Name of the stored field of a part that contains what only arche's document has: unknown fields and the order."""
_TEXT_FIELDS: Final = frozenset({"kind", "content"})
_CALL_FIELDS: Final = frozenset({"kind", "id", "name", "args"})
_RESULT_FIELDS: Final = frozenset({"kind", "tool_call_id", "content"})
_NOT_SENT: Final = (Reasoning, Summary, Rewind)
"""Parts that are omitted on export: reasoning, and records that change which turns a model receives."""


def import_arche(document: str | bytes) -> AgentSession:
    """Parse a session document of arche or senno, and return it as a session in memory.

    The `metadata` of the document becomes the state of the conversation.

    To store the session, call `await import_arche(document).copy_to(store)`.

    Args:
        document: the session as JSON.

    Raises:
        InvalidDocumentError: the document is malformed, or a call has no result. `path` names the field.
    """
    fields = read_object(document)
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict):
        msg = f"metadata must be a JSON object, not {metadata!r}"
        raise InvalidDocumentError(msg, path="metadata")
    messages = Messages(state=cast("dict[str, object]", metadata))
    for role, turn in _read_messages(fields.get("messages")):
        messages.append(role, turn)
    if missing := messages.pending():
        msg = f"the document contains no result of the calls {', '.join([tool.id for tool in missing])}"
        raise InvalidDocumentError(msg, path="messages")
    session = AgentSession(read_text(fields, "id"), flow=read_text(fields, "flow"), messages=messages)
    session.created_at = read_time(fields, "created_at")
    session.last_active = read_time(fields, "last_active")
    session.extra = {name: value for name, value in fields.items() if name not in _FIELDS}
    session.set_imported_usage(SessionUsage.from_dict(fields.get("usage", {})))
    return session


def _read_messages(value: object) -> Iterator[tuple[Role, Turn]]:
    if not isinstance(value, list):
        msg = f"messages must be a JSON array, not {value!r}"
        raise InvalidDocumentError(msg, path="messages")
    results = _Results(cast("list[object]", value))
    for index, item in enumerate(results.items):
        path = f"messages[{index}]"
        match item.get("kind"):
            case "user":
                yield "user", Turn([_read_message(item, path)])
            case "assistant":
                yield "model", Turn([_read_message(item, path)], finish_reason="stop")
            case "tool_call":
                yield "model", Turn([_read_call(results, index, path)], finish_reason="tool_calls")
            case "tool_result":
                results.require_call(index)
            case kind:
                msg = f"the kind {kind!r} is unknown: use user, assistant, tool_call or tool_result"
                raise InvalidDocumentError(msg, path=f"{path}.kind")


class _Results:
    """The messages of a document, with functions that match calls to their results."""

    def __init__(self, items: list[object]) -> None:
        self.items: list[Mapping[str, object]] = [
            cast("dict[str, object]", item) if isinstance(item, dict) else {} for item in items
        ]
        self._taken: set[int] = set()

    def take(self, index: int) -> int:
        """Return the index of the first unused result after the call at `index`."""
        call_id = read_text(self.items[index], "id", f"messages[{index}]", empty=True)
        for later in range(index + 1, len(self.items)):
            item = self.items[later]
            if item.get("kind") == "tool_result" and item.get("tool_call_id") == call_id and later not in self._taken:
                self._taken.add(later)
                return later
        msg = f"the document contains no result of the call {call_id!r}"
        raise InvalidDocumentError(msg, path=f"messages[{index}]")

    def require_call(self, index: int) -> None:
        """Check that the result at `index` belongs to an earlier call.

        Raises:
            InvalidDocumentError: no earlier call has the id of the result.
        """
        if index not in self._taken:
            msg = f"no tool_call before this result has the id {self.items[index].get('tool_call_id')!r}"
            raise InvalidDocumentError(msg, path=f"messages[{index}]")


def _read_message(item: Mapping[str, object], path: str) -> Text:
    kept = _fields_except(item, _TEXT_FIELDS)
    return Text(read_text(item, "content", path, empty=True), extra={_ARCHE: kept} if kept else None)


def _read_call(results: _Results, index: int, path: str) -> Tool:
    call_item, result_index = results.items[index], results.take(index)
    result_item = results.items[result_index]
    signature = call_item.get("thought_signature")
    opaque = Opaque(_GEMINI, {_SIGNATURE: signature}) if isinstance(signature, str) else None
    name = read_text(call_item, "name", path)
    call = FunctionCall.parse(name, dumps(call_item.get("args")), opaque=opaque)
    kept: dict[str, object] = {
        "call": _fields_except(call_item, _CALL_FIELDS if opaque is None else {*_CALL_FIELDS, "thought_signature"}),
        "result": _fields_except(
            result_item, {*_RESULT_FIELDS, "name"} if result_item.get("name") == name else _RESULT_FIELDS
        ),
        "later": result_index - index - 1,
    }
    return Tool(
        call,
        call_id=read_text(call_item, "id", path, empty=True) or None,
        status=Completed(read_text(result_item, "content", f"messages[{result_index}]", empty=True)),
        extra={_ARCHE: {key: value for key, value in kept.items() if value}} if any(kept.values()) else None,
    )


def _fields_except(item: Mapping[str, object], known: Collection[str]) -> dict[str, object]:
    return {key: value for key, value in item.items() if key not in known}


def export_arche(session: AgentSession) -> str:
    """Return a session as JSON in the document format of arche.

    The document omits reasoning and includes the turns that a summary replaces.

    Args:
        session: the session. Its calls must be resolved.

    Raises:
        UsageError: a call has no result, or the conversation has a part that such a document cannot express, such as a
            file or the result of a background agent.
    """
    require_type("session", session, AgentSession, "an AgentSession")
    messages = session.messages
    if waiting := [tool.id for tool in messages.pending()]:
        msg = (
            f"cannot export calls without results: {', '.join(waiting)}; resolve them first, "
            "such as with cancel_pending() in a block of session.edit()"
        )
        raise UsageError(msg)
    fields = {
        "id": session.id,
        "flow": session.flow,
        "messages": _in_order([item for role, turn in messages.live_turns for item in _write_turn(role, turn)]),
        "metadata": dict(session.state),
        "usage": session.usage.to_dict(),
        "created_at": session.created_at.isoformat(),
        "last_active": session.last_active.isoformat(),
        **session.extra,
    }
    return dumps(fields)


def _in_order(items: Sequence[tuple[dict[str, object], int | None]]) -> list[dict[str, object]]:
    """Return messages in the order of the document.

    Args:
        items: the messages. Each result follows its call, with the number of messages between them in the document.
            Other messages have `None`.
    """
    ordered: list[dict[str, object]] = []
    results: list[tuple[int, dict[str, object]]] = []
    place = 0
    for item, later in items:
        if later is None:
            place = len(ordered)
            ordered.append(item)
        else:
            results.append((place + 1 + later, item))
        while due := [entry for entry in results if entry[0] <= len(ordered)]:
            results.remove(due[0])
            ordered.append(due[0][1])
    return ordered + [item for _, item in results]


def _write_turn(role: Role, turn: Turn) -> Iterator[tuple[dict[str, object], int | None]]:
    if turn.extra and RESULT in turn.extra:
        msg = "arche's document cannot express the result of a background agent: it would become a message of the user"
        raise UsageError(msg)
    for part in turn.parts:
        match part:
            case Text(text) if role != "system":
                kind = "user" if role == "user" else "assistant"
                yield {"kind": kind, "content": text, **_kept_fields(part.extra, _TEXT_FIELDS)}, None
            case Tool():
                yield from _write_call(part)
            case _ if not isinstance(part, _NOT_SENT):
                name = type(part).__name__
                msg = f"{name} parts of {role} turns cannot be exported to arche's document: remove them first"
                raise UsageError(msg)
            case _:
                pass


def _write_call(tool: Tool) -> Iterator[tuple[dict[str, object], int | None]]:
    if tool.result_files:
        msg = f"arche's document cannot express the files of the call {tool.id!r}: remove them first"
        raise UsageError(msg)
    id = tool.call_id or tool.id
    call: dict[str, object] = {"kind": "tool_call", "id": id, "name": tool.name, "args": _arguments_or_text(tool.call)}
    opaque = tool.call.opaque
    if opaque is not None and opaque.provider == _GEMINI and _SIGNATURE in opaque.data:
        call["thought_signature"] = opaque.data[_SIGNATURE]
    kept = _kept_fields(tool.extra)
    yield {**call, **_kept_fields(kept, _CALL_FIELDS, "call")}, None
    result = {"kind": "tool_result", "tool_call_id": id, "name": tool.name, "content": tool.result_text()}
    later = kept.get("later")
    yield {**result, **_kept_fields(kept, _RESULT_FIELDS, "result")}, later if isinstance(later, int) else 0


def _kept_fields(
    extra: Mapping[str, object] | None, known: Collection[str] = (), name: str = _ARCHE
) -> dict[str, object]:
    """Return the fields that the import kept under a name, without fields that a message has anyway."""
    kept = (extra or {}).get(name)
    return _fields_except(cast("Mapping[str, object]", kept), known) if isinstance(kept, Mapping) else {}


def _arguments_or_text(call: FunctionCall) -> object:
    try:
        return loads(call.text)
    except ValueError:
        return call.text
