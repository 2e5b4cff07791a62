"""Descriptions of tool calls: status texts for users, and JSON for programs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from chat_core.clock import isoformat
from chat_core.messages import Decision, Interrupted, Messages, Pending, Suspended, Tool

WaitsFor: TypeAlias = Literal["approval", "schedule", "result", "interrupted"]
Path: TypeAlias = tuple[str, ...]

_ACTION_TEXTS = {
    "approve": "approved {}",
    "reject": "rejected {}",
    "cancel": "cancelled {}",
    "retry": "let {} run again",
    "complete": "recorded the result of {}",
    "fail": "recorded that {} failed",
}


def waits_for(tool: Tool) -> WaitsFor | None:
    """Return the kind of decision that a call waits for, or None if it does not wait for a decision."""
    if isinstance(tool.status, Interrupted):
        return "interrupted"
    return tool.status.kind if isinstance(tool.status, Pending) else None


def possible_actions(tool: Tool) -> tuple[str, ...]:
    """Return the names of the actions that an approver can choose for a call in its current status."""
    match waits_for(tool):
        case "result":
            return ("complete", "fail", "reject")
        case "interrupted":
            return ("approve", "reject", "complete", "retry", "fail")
        case _:
            return ("approve", "reject")


def walk_calls(messages: Messages, parent_path: Path = ()) -> Iterator[tuple[Path, Tool]]:
    """Yield every call of a history with its path, including the calls in inner conversations.

    Args:
        messages: history to search.
        parent_path: path of the call that contains `messages`.
    """
    for content in messages:
        for tool in content.tools:
            path = (*parent_path, tool.id)
            yield path, tool
            if tool.inner is not None:
                yield from walk_calls(tool.inner, path)


def waiting_calls(messages: Messages) -> list[tuple[Path, Tool]]:
    """Return the calls of a history that wait for a decision, with their paths."""
    return [(path, tool) for path, tool in walk_calls(messages) if waits_for(tool) is not None]


def compute_version(tool: Tool) -> str:
    """Return a version identifier of a call's status and arguments. A decision must contain it.

    The identifier changes whenever the call changes, so a decision cannot apply to a state that the approver did not
    see.
    """
    state = [tool.revision, type(tool.status).__name__, dict(tool.effective_arguments)]
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return f"{tool.revision}-{digest[:16]}"


def format_status(tool: Tool) -> str:
    """Return the status of a call in a few words, such as `waits for approval`."""
    match waits_for(tool):
        case "approval":
            return "waits for approval"
        case "schedule":
            return "waits for its scheduled time"
        case "result":
            return "waits for its result"
        case "interrupted":
            return "was interrupted"
        case None:
            return "waits inside" if isinstance(tool.status, Suspended) else type(tool.status).__name__.lower()


def format_conflict(tool: Tool) -> str:
    """Return the message for an approver whose decision was too late. It names the person who decided the call."""
    if waits_for(tool) is not None and not tool.decisions:
        return f"{tool.name} has changed since this page was made; review the call again, then decide."
    if not tool.decisions:
        return f"{tool.name} is {format_status(tool)} already; nothing was changed."
    last = tool.decisions[-1]
    decider = last.by or "Somebody"
    when = f" at {format_utc(last.at)}" if last.at is not None else ""
    now = "" if waits_for(tool) is None else ", and it waits again"
    return f"{decider} {format_decision(last, tool.name)}{when}{now}. Nothing else was stored; review the call."


def format_decision(decision: Decision, what: str = "it") -> str:
    """Return a text that describes a decision, such as `approved it`.

    Args:
        decision: decision to describe.
        what: object of the sentence, such as `it`.
    """
    edited = " with other arguments" if decision.arguments is not None else ""
    return f"{_ACTION_TEXTS[decision.action].format(what)}{edited}"


def own_decision(messages: Messages, path: Path, person: str) -> str | None:
    """Return the latest decision on a call if this person made it, otherwise None, also if the call waits again.

    Args:
        messages: history that may contain the call.
        path: call ids, from the outermost call to this one.
        person: name of the person.
    """
    try:
        tool = messages.tool(*path)
    except KeyError:
        return None
    if waits_for(tool) is not None or not tool.decisions or tool.decisions[-1].by != person:
        return None
    return tool.decisions[-1].action


def is_expired(tool: Tool, now: datetime) -> bool:
    """Return whether the approval deadline of a call has passed.

    Args:
        tool: call to check.
        now: current time, as an aware datetime.
    """
    status = tool.status
    return isinstance(status, Pending) and status.expires_at is not None and now >= status.expires_at


def format_utc(moment: datetime) -> str:
    """Return a time as text in UTC, such as `2030-01-31 09:40 UTC`.

    Args:
        moment: time to format, as an aware datetime.
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def format_relative_time(moment: datetime, now: datetime) -> str:
    """Return a time relative to now as text, such as `in 23 h 59 min` or `5 min ago`.

    Args:
        moment: time to format, as an aware datetime.
        now: current time, as an aware datetime.
    """
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


def format_terms(at: datetime | None, expires_at: datetime | None, now: datetime) -> str:
    """Return the start time or the deadline of a call relative to now, such as `expires in 5 min`.

    Args:
        at: time from which a scheduled call may run.
        expires_at: deadline of an approval, which is shown only if there is no start time.
        now: current time, as an aware datetime.

    Returns:
        An empty string if the call has neither.
    """
    moment = at or expires_at
    if moment is None:
        return ""
    verb = "runs" if at else "expired" if moment <= now else "expires"
    return f"{verb} {format_relative_time(moment, now)}"


def build_call_document(tool: Tool, path: Path, call: str, *, may_decide: bool) -> dict[str, object]:
    """Return a call as JSON for the API.

    Args:
        tool: call to convert.
        path: call ids, from the outermost call to this one.
        call: the path as it appears in URLs.
        may_decide: whether the requesting person may decide the call.
    """
    status = tool.status
    pending = status if isinstance(status, Pending) else None
    return {
        "call": call,
        "path": list(path),
        "name": tool.name,
        "status": type(status).__name__,
        "waits_for": waits_for(tool),
        "may_decide": may_decide,
        "version": compute_version(tool),
        "arguments": dict(tool.effective_arguments),
        "asked": dict(tool.call.arguments),
        "expires_at": isoformat(pending.expires_at if pending else None),
        "at": isoformat(pending.at if pending else None),
        "error": pending.error if pending else status.reason if isinstance(status, Interrupted) else None,
        "result": tool.result_text() if tool.resolved else None,
        "decisions": [_build_decision_document(decision) for decision in tool.decisions],
    }


def _build_decision_document(decision: Decision) -> dict[str, object]:
    """Return a decision as JSON for the API."""
    return {
        "action": decision.action,
        "by": decision.by,
        "at": isoformat(decision.at),
        "note": decision.note,
        "arguments": None if decision.arguments is None else dict(decision.arguments),
    }
