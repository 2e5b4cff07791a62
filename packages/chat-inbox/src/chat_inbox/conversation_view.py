"""A conversation as a page shows it: a flat list of what was said and done, in order, each with a key.

A page that is open exchanges the items that are other ones by now, and leaves the rest in place: a form that somebody
is writing into stays as it is while others decide about the call beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias, final

from chat_core.messages import (
    Content,
    File,
    Interrupted,
    Messages,
    Part,
    Pending,
    ProviderPart,
    Reasoning,
    Structured,
    Text,
    Tool,
    Turn,
)

from chat_inbox.forms import Field, json_text
from chat_inbox.tool_calls import Path, decision_word, is_expired, remaining, status_of, version_of, waits_for
from chat_inbox.url_keys import key_of

ItemKind: TypeAlias = Literal["text", "reasoning", "note", "call"]
_ROLES = {"user": "User", "model": "Model", "system": "Instructions"}
SHOWN = 40
"""Turns that a page shows unless it is asked for all."""


@final
@dataclass(frozen=True, slots=True)
class CallView:
    """A call, as a page shows it. `form` is there where it can be decided."""

    name: str
    key: str
    anchor: str
    status: str
    waits_for: str | None
    version: str
    arguments: str
    asked: str | None
    terms: str
    expires: str | None
    expired: bool
    error: str | None
    result: str | None
    decisions: tuple[str, ...]
    form: Field | None = None


@final
@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was said or done. What has the same key and the same version is the same."""

    key: str
    kind: ItemKind
    role: str
    depth: int
    text: str = ""
    when: str = ""
    call: CallView | None = None
    version: str = field(default="")


@final
class View:
    """Makes the items of a page.

    Args:
        form_of: the form of a call that can be decided.
    """

    def __init__(self, now: datetime, form_of: Callable[[Path, Tool], Field | None]) -> None:
        self._now = now
        self._form_of = form_of

    def items(self, messages: Messages, shown: int | None = SHOWN) -> tuple[list[Item], int]:
        """The last so many turns, and how many there are before them. A call that waits is always among them."""
        turns = [(content, turn) for content in messages for turn in content.turns]
        first = 0 if shown is None else max(len(turns) - shown, 0)
        waiting = [number for number, (_, turn) in enumerate(turns) if not turn.settled]
        first = min([first, *waiting])
        found: list[Item] = []
        for number, (content, turn) in enumerate(turns[first:], first):
            found += self._turn(content, turn, f"t{number}", (), 0)
        return found, first

    def call(self, path: Path, tool: Tool) -> CallView:
        """One call."""
        status = tool.status
        pending = status if isinstance(status, Pending) else None
        arguments = dict(tool.effective_arguments)
        moment = (pending.at or pending.expires_at) if pending else None
        waits = waits_for(tool)
        return CallView(
            tool.name,
            key_of(*path),
            anchor_of(path),
            status_of(tool),
            waits,
            version_of(tool),
            json_text(arguments),
            None if tool.edited is None else json_text(dict(tool.call.arguments)),
            self._terms(pending),
            moment.isoformat() if moment else None,
            is_expired(tool, self._now),
            pending.error if pending else status.reason if isinstance(status, Interrupted) else None,
            tool.result_text() if tool.resolved else None,
            tuple(_decisions(tool)),
            self._form_of(path, tool) if waits else None,
        )

    def _terms(self, pending: Pending | None) -> str:
        if pending is None:
            return ""
        if pending.at is not None:
            return f"runs {remaining(pending.at, self._now)}"
        if pending.expires_at is not None:
            word = "expired" if pending.expires_at <= self._now else "expires"
            return f"{word} {remaining(pending.expires_at, self._now)}"
        return ""

    def _turn(self, content: Content, turn: Turn, key: str, above: Path, depth: int) -> Iterator[Item]:
        role = "Library" if turn.by == "engine" else _ROLES[content.role]
        for number, part in enumerate(turn.parts):
            if isinstance(part, Tool):
                yield from self._tool(part, above, depth)
                continue
            kind, text = _told(part)
            if text:
                yield Item(f"{key}.{number}", kind, role, depth, text, f"{turn.created_at:%Y-%m-%d %H:%M} UTC")

    def _tool(self, tool: Tool, above: Path, depth: int) -> Iterator[Item]:
        path = (*above, tool.id)
        view = self.call(path, tool)
        version = f"{view.version}{'x' if view.expired else ''}"
        yield Item(view.anchor, "call", "Model", depth, call=view, version=version)
        if tool.inner is None:
            return
        number = 0
        for content in tool.inner:
            for turn in content.turns:
                yield from self._turn(content, turn, f"{view.anchor}.t{number}", path, depth + 1)
                number += 1


def anchor_of(path: Path) -> str:
    """The id of a call's element: it may be in a fragment, and is the same in every page."""
    return f"call-{hashlib.sha256(json.dumps(path).encode()).hexdigest()[:12]}"


def _told(part: Part) -> tuple[ItemKind, str]:
    match part:
        case Text(text):
            return "text", text
        case Reasoning(text):
            return "reasoning", text
        case Structured(value):
            return "text", json_text(value)
        case File():
            size = f", {len(part.data)} bytes" if part.data is not None else ""
            return "note", f"File: {part.name or part.url or 'unnamed'} ({part.mime}{size})"
        case ProviderPart():
            return "note", f"{part.kind} (of {part.provider or 'nobody'})"
        case _:
            return "note", type(part).__name__


def _decisions(tool: Tool) -> Iterator[str]:
    for decision in tool.decisions:
        when = f" on {decision.at:%Y-%m-%d} at {decision.at:%H:%M} UTC" if decision.at is not None else ""
        note = f": {decision.note}" if decision.note else ""
        yield f"{decision.by or 'Somebody'} {decision_word(decision)}{when}{note}"
