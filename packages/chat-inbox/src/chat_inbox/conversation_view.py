"""The view model of a conversation page: a flat, ordered list of items, each with a key and a version.

The script of an open page replaces only the items whose version has changed. A form that the user is filling in stays
untouched while other people decide neighboring calls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias, final

from chat_core.messages import (
    APPLICATION,
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
from chat_core.tools import ToolDefinition

from chat_inbox.argument_view import ArgumentView, find_request, view_arguments, view_text
from chat_inbox.forms import Field, format_json
from chat_inbox.tool_calls import (
    Path,
    compute_version,
    format_decision,
    format_status,
    format_terms,
    format_utc,
    is_expired,
    waits_for,
)
from chat_inbox.url_keys import encode_key

ItemKind: TypeAlias = Literal["text", "reasoning", "note", "call"]
_ROLES = {"user": "User", "model": "Model", "system": "Instructions"}
_AUTHORS = {"engine": "Library", APPLICATION: "Application"}
"""The labels of turns that neither a user nor a model wrote."""
DEFAULT_TURNS = 40
"""Number of turns that a page shows by default."""
REQUEST_LENGTH = 240
"""Maximum number of characters of the user's request that a call shows before the user expands it."""


@final
@dataclass(frozen=True, slots=True)
class DecisionView:
    """The template data of a decision.

    Attributes:
        text: the decision as text, such as `ana approved it`.
        at: time in ISO format, if it is known.
        when: the time as text, in UTC.
        note: note of the approver, or an empty string.
    """

    text: str
    at: str | None
    when: str
    note: str


@final
@dataclass(frozen=True, slots=True)
class CallView:
    """The template data of a tool call.

    Attributes:
        key: path of the call, as it appears in URLs and forms.
        anchor: id of the HTML element.
        version: version that a decision must repeat.
        values: read-only views of the arguments with which the call runs or has run.
        description: description of the tool; empty if the call waits for nothing or its tool is unknown.
        request: last message of the user before the call; None if there is none, or if the conversation is not shown.
        asked: the model's original arguments as JSON, if an approver replaced them.
        terms: remaining time as text.
        expires: deadline or start time in ISO format.
        expires_when: the same time as text, in UTC.
        decisions: the decisions, oldest first.
        form: form of the arguments, if the call waits for a decision.
    """

    name: str
    key: str
    anchor: str
    status: str
    waits_for: str | None
    version: str
    values: tuple[ArgumentView, ...]
    description: str
    request: ArgumentView | None
    asked: str | None
    terms: str
    expires: str | None
    expires_when: str
    expired: bool
    error: str | None
    result: str | None
    decisions: tuple[DecisionView, ...]
    form: Field | None = None


@final
@dataclass(frozen=True, slots=True)
class Item:
    """One item of a conversation page. Items with the same key and version are identical.

    Attributes:
        depth: nesting level: 0 in the conversation, 1 in a chat that is used as a tool, and so on.
        when: time of the turn as text, in UTC.
        at: time of the turn in ISO format.
    """

    key: str
    kind: ItemKind
    role: str
    depth: int
    text: str = ""
    when: str = ""
    at: str = ""
    call: CallView | None = None
    version: str = field(default="")


@final
class ConversationView:
    """A builder for the items of a conversation page.

    Args:
        now: current time, as an aware datetime.
        find_form: returns the form of a call that waits for a decision.
        find_definition: returns the definition of the tool of a call, or None if it is unknown.
    """

    def __init__(
        self,
        now: datetime,
        find_form: Callable[[Path, Tool], Field | None],
        find_definition: Callable[[Path], ToolDefinition | None],
    ) -> None:
        self._now = now
        self._find_form = find_form
        self._find_definition = find_definition

    def build_items(self, messages: Messages, max_turns: int | None = DEFAULT_TURNS) -> tuple[list[Item], int]:
        """Return the items for the last turns of a conversation, and the number of earlier turns that are left out.

        Args:
            messages: history to show.
            max_turns: number of turns to show; None shows all. Turns with a waiting call are never left out.
        """
        turns = [(content, turn) for content in messages for turn in content.turns]
        first = 0 if max_turns is None else max(len(turns) - max_turns, 0)
        waiting = [number for number, (_, turn) in enumerate(turns) if not turn.settled]
        first = min([first, *waiting])
        items: list[Item] = []
        for number, (content, turn) in enumerate(turns[first:], first):
            request = "" if turn.settled or not turn.tools else find_request(messages, turn.tools[0].id)
            items += self._turn_items(content, turn, f"t{number}", (), request)
        return items, first

    def build_call(self, path: Path, tool: Tool, request: str = "") -> CallView:
        """Return the template data of one call.

        Args:
            path: call ids, from the outermost call to this one.
            tool: call to show.
            request: last message of the user before the call.
        """
        status = tool.status
        pending = status if isinstance(status, Pending) else None
        arguments = dict(tool.effective_arguments)
        moment = (pending.at or pending.expires_at) if pending else None
        waiting_for = waits_for(tool)
        declaration = definition.declaration if waiting_for and (definition := self._find_definition(path)) else None
        return CallView(
            tool.name,
            encode_key(*path),
            call_anchor(path),
            format_status(tool),
            waiting_for,
            compute_version(tool),
            view_arguments(arguments, declaration.parameters if declaration else None),
            declaration.description if declaration else "",
            view_text(request, limit=REQUEST_LENGTH) if waiting_for and request else None,
            None if tool.edited is None else format_json(dict(tool.call.arguments)),
            format_terms(pending.at, pending.expires_at, self._now) if pending else "",
            moment.isoformat() if moment else None,
            format_utc(moment) if moment else "",
            is_expired(tool, self._now),
            pending.error if pending else status.reason if isinstance(status, Interrupted) else None,
            tool.result_text() if tool.resolved else None,
            tuple(_view_decisions(tool)),
            self._find_form(path, tool) if waiting_for else None,
        )

    def _turn_items(self, content: Content, turn: Turn, key: str, parent_path: Path, request: str) -> Iterator[Item]:
        """Yield the page items for the parts of a turn, including the inner conversations of calls."""
        depth = len(parent_path)
        role = _AUTHORS.get(turn.by or "", _ROLES[content.role])
        for number, part in enumerate(turn.parts):
            if isinstance(part, Tool):
                yield from self._call_items(part, parent_path, request)
                continue
            kind, text = _describe_part(part)
            if text:
                yield Item(
                    f"{key}.{number}", kind, role, depth, text, format_utc(turn.created_at), turn.created_at.isoformat()
                )

    def _call_items(self, tool: Tool, parent_path: Path, request: str) -> Iterator[Item]:
        """Yield the page item for a call, then the items for its inner conversation."""
        path = (*parent_path, tool.id)
        view = self.build_call(path, tool, request)
        version = f"{view.version}{'x' if view.expired else ''}"
        yield Item(view.anchor, "call", "Model", len(parent_path), call=view, version=version)
        if tool.inner is None:
            return
        number = 0
        for content in tool.inner:
            for turn in content.turns:
                yield from self._turn_items(content, turn, f"{view.anchor}.t{number}", path, request)
                number += 1


def call_anchor(path: Path) -> str:
    """Return the id of a call's HTML element, which is valid in a URL fragment and the same on every page."""
    return f"call-{hashlib.sha256(json.dumps(path).encode()).hexdigest()[:12]}"


def _describe_part(part: Part) -> tuple[ItemKind, str]:
    """Return the item kind and the text with which a page shows a part that is not a call."""
    match part:
        case Text(text):
            return "text", text
        case Reasoning(text):
            return "reasoning", text
        case Structured(value):
            return "text", format_json(value)
        case File():
            size = f", {len(part.data)} bytes" if part.data is not None else ""
            return "note", f"File: {part.name or part.url or 'unnamed'} ({part.mime}{size})"
        case ProviderPart():
            return "note", f"{part.kind} (from {part.provider or 'an unknown provider'})"
        case _:
            return "note", type(part).__name__


def _view_decisions(tool: Tool) -> Iterator[DecisionView]:
    """Yield a view of each decision on a call, such as who approved it and when."""
    for decision in tool.decisions:
        text = f"{decision.by or 'Somebody'} {format_decision(decision)}"
        at = decision.at
        yield DecisionView(text, at.isoformat() if at else None, format_utc(at) if at else "", decision.note or "")
