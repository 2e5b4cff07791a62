"""A call as it is shown and told: in words for people, as JSON for programs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from chat_core.messages import Decision, Interrupted, Messages, Pending, Suspended, Tool

WaitsFor: TypeAlias = Literal["approval", "schedule", "interrupted"]
Path: TypeAlias = tuple[str, ...]

_DONE = {
    "approve": "approved {}",
    "reject": "rejected {}",
    "cancel": "cancelled {}",
    "retry": "let {} run again",
    "complete": "told what came of {}",
    "fail": "told that {} failed",
}


def waits_for(tool: Tool) -> WaitsFor | None:
    """What a call waits for, `None` where nobody can decide about it."""
    if isinstance(tool.status, Interrupted):
        return "interrupted"
    return tool.status.kind if isinstance(tool.status, Pending) else None


def walk(messages: Messages, above: Path = ()) -> Iterator[tuple[Path, Tool]]:
    """Every call of a conversation, and of the chats that its tools are, with its path."""
    for content in messages:
        for tool in content.tools:
            path = (*above, tool.id)
            yield path, tool
            if tool.inner is not None:
                yield from walk(tool.inner, path)


def waiting_in(messages: Messages) -> list[tuple[Path, Tool]]:
    """The calls that somebody can decide about."""
    return [(path, tool) for path, tool in walk(messages) if waits_for(tool) is not None]


def version_of(tool: Tool) -> str:
    """Stands for the state of a call, and for what would run: who decides says which one they have seen."""
    seen = [tool.revision, type(tool.status).__name__, dict(tool.effective_arguments)]
    told = json.dumps(seen, sort_keys=True).encode()
    return f"{tool.revision}-{hashlib.sha256(told).hexdigest()[:16]}"


def status_of(tool: Tool) -> str:
    """Where a call stands, in one or two words."""
    match waits_for(tool):
        case "approval":
            return "waits for approval"
        case "schedule":
            return "waits for its time"
        case "interrupted":
            return "was interrupted"
        case None:
            return "waits inside" if isinstance(tool.status, Suspended) else type(tool.status).__name__.lower()


def decided_by(tool: Tool) -> str:
    """What became of a call that somebody wanted to decide, and who was faster."""
    if waits_for(tool) is not None and not tool.decisions:
        return f"{tool.name} has changed since this page was made; look at it again, then decide."
    if not tool.decisions:
        return f"{tool.name} is {status_of(tool)} already; nothing was changed."
    last = tool.decisions[-1]
    who = last.by or "Somebody"
    when = f" at {last.at:%H:%M} UTC" if last.at is not None else ""
    now = "" if waits_for(tool) is None else ", and it waits again"
    return f"{who} {decision_word(last, tool.name)}{when}{now}. Nothing was changed by you; look at it again."


def decision_word(decision: Decision, what: str = "it") -> str:
    """What somebody did: `approved it`."""
    edited = " with other arguments" if decision.arguments is not None else ""
    return f"{_DONE[decision.action].format(what)}{edited}"


def is_expired(tool: Tool, now: datetime) -> bool:
    """Whether an approval would come too late."""
    status = tool.status
    return isinstance(status, Pending) and status.expires_at is not None and now >= status.expires_at


def remaining(moment: datetime, now: datetime) -> str:
    """How long until a moment: `in 23 h 59 min`."""
    left = moment - now
    minutes, days = int(abs(left).total_seconds() // 60), abs(left).days
    if minutes < 1:
        text = "less than a minute"
    elif days >= 1:
        text = f"{days} d {minutes // 60 % 24} h"
    elif minutes >= 60:  # noqa: PLR2004 - an hour
        text = f"{minutes // 60} h {minutes % 60} min"
    else:
        text = f"{minutes} min"
    return f"in {text}" if left > timedelta() else f"{text} ago"


def call_document(tool: Tool, path: Path, call: str) -> dict[str, object]:
    """A call as JSON. `call` is its name in addresses."""
    status = tool.status
    pending = status if isinstance(status, Pending) else None
    return {
        "call": call,
        "path": list(path),
        "name": tool.name,
        "status": type(status).__name__,
        "waits_for": waits_for(tool),
        "version": version_of(tool),
        "arguments": dict(tool.effective_arguments),
        "asked": dict(tool.call.arguments),
        "expires_at": _moment(pending.expires_at if pending else None),
        "at": _moment(pending.at if pending else None),
        "error": pending.error if pending else status.reason if isinstance(status, Interrupted) else None,
        "result": tool.result_text() if tool.resolved else None,
        "decisions": [_decision_document(decision) for decision in tool.decisions],
    }


def _decision_document(decision: Decision) -> dict[str, object]:
    return {
        "action": decision.action,
        "by": decision.by,
        "at": _moment(decision.at),
        "note": decision.note,
        "arguments": None if decision.arguments is None else dict(decision.arguments),
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
