"""Functions that convert sessions to JSON documents for clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, cast

from chat_core.clock import isoformat
from chat_core.messages import Messages, Role, Tool, Turn
from chat_store import ConversationMeta
from chat_streams.client_texts import outcome_text

from chat_service.run_events import run_of

Json: TypeAlias = dict[str, object]


def session_item(meta: ConversationMeta) -> Json:
    """Return the JSON object that describes a session in a list.

    Args:
        meta: metadata of the session.
    """
    return {
        "id": meta.id,
        "title": meta.title,
        "turn_count": meta.data.get("turn_count", 0),
        "created_at": isoformat(meta.created_at),
        "updated_at": isoformat(meta.last_active),
    }


def session_detail(meta: ConversationMeta, messages: Messages) -> Json:
    """Return a session with its turns. Each turn contains a message of the user and the response.

    Args:
        meta: metadata of the session.
        messages: the conversation.
    """
    turns: list[Json] = []
    for role, turn in messages.turns:
        if role == "user" and turn.by is None:
            turns.append(_new_turn(turn, len(turns)))
        elif role == "model" and turns:
            turns[-1]["assistant_response"] = turn.text or turns[-1]["assistant_response"]
            turns[-1]["tool_call_count"] = cast("int", turns[-1]["tool_call_count"]) + len(list(turn.tools))
            turns[-1]["completed_at"] = isoformat(turn.created_at)
    return {**session_item(meta), "metadata": meta.data.get("metadata", {}), "turns": turns}


def session_messages(session_id: str, messages: Messages) -> Json:
    """Return the messages of a session, with one item for each text, tool call and result.

    Args:
        session_id: id of the session.
        messages: the conversation.
    """
    items = [item for role, turn in messages.turns for item in _message_items(role, turn)]
    return {"session_id": session_id, "messages": items, "count": len(items)}


def _new_turn(turn: Turn, number: int) -> Json:
    return {
        "id": run_of(turn) or str(number),
        "user_message": turn.text,
        "assistant_response": None,
        "tool_call_count": 0,
        "started_at": isoformat(turn.created_at),
        "completed_at": None,
    }


def _message_items(role: Role, turn: Turn) -> Iterator[Json]:
    at = isoformat(turn.created_at)
    if role == "user" and turn.by is None:
        yield {"role": "user", "content": turn.text, "timestamp": at}
    if role == "model":
        if turn.text:
            yield {"role": "assistant", "content": turn.text, "timestamp": at}
        for tool in turn.tools:
            yield from _tool_items(tool, at)


def _tool_items(tool: Tool, at: str | None) -> Iterator[Json]:
    metadata = {"id": tool.id, "name": tool.name, "arguments": dict(tool.effective_arguments)}
    yield {"role": "tool_use", "content": tool.name, "timestamp": at, "metadata": metadata}
    if tool.resolved:
        result = {"id": tool.id, "name": tool.name, "success": not tool.failed}
        yield {"role": "tool_result", "content": outcome_text(tool), "timestamp": at, "metadata": result}
