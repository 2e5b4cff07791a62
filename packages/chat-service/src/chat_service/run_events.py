"""The durable events of a run, which are derived from the history of its session and not stored separately.

The position of an event consists of the number of the history entry that caused the event, and the index of the event
among the events of this entry. A history only grows, so a position names the same event at any time and in every
process. A redaction replaces the history with a new one, so a place in the stream of a run also contains the name of
the history.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, final

from chat_core.messages import Messages, Tool, Turn
from chat_store import HistoryEntry, HistoryPosition
from chat_streams.client_texts import outcome_text

from chat_service.run_records import Run

LOG_NAME: Final = 8
"""Length of the shortened history name in a place, in characters."""
_PLACE: Final = re.compile(r"(\w{1,8})-(\d{1,12})-(\d{1,6})(?:\.(\d{1,9})\.(\d{1,9})\.(\d{1,9}))?", re.ASCII)


class Position(NamedTuple):
    """Position of a durable event.

    Attributes:
        entry: number of the history entry that caused the event.
        order: index among the events of the entry.
    """

    entry: int
    order: int

    def __str__(self) -> str:
        return f"{self.entry}-{self.order}"


START: Final = Position(0, 0)
"""The position before the first event."""


class Writer(NamedTuple):
    """One attempt of a worker to execute a part of a run. Only pieces of text from the same attempt can be joined.

    Attributes:
        part: number of the part, counted from 1.
        fence: fencing number of the part's job. It grows each time that another worker takes over the job.
    """

    part: int
    fence: int


class Place(NamedTuple):
    """A place in the stream of a run, after a durable event and pieces of the open response that follows.

    Attributes:
        log: short name of the history.
        position: position of the last durable event.
        writer: the attempt that wrote the text.
        pieces: number of pieces of text after the durable event.
    """

    log: str
    position: Position
    writer: Writer = Writer(0, 0)
    pieces: int = 0

    def __str__(self) -> str:
        part, fence = self.writer
        pieces = f".{part}.{fence}.{self.pieces}" if self.pieces else ""
        return f"{self.log}-{self.position}{pieces}"

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """Parse an event id that a client sent. Return `None` if the id is malformed.

        Args:
            text: the id.
        """
        found = _PLACE.fullmatch(text)
        if found is None:
            return None
        entry, index, part, fence, pieces = [int(group or 0) for group in found.groups()[1:]]
        return cls(found[1], Position(entry, index), Writer(part, fence), pieces)


@final
@dataclass(frozen=True, slots=True)
class RunEvent:
    """A durable event of a run.

    Attributes:
        position: position of the event.
        name: `text` (the whole text of a response), `tool_start`, `tool_output` or `tool_end`.
        data: JSON values of the event.
    """

    position: Position
    name: str
    data: dict[str, object] = field(default_factory=dict[str, object])


@final
@dataclass(frozen=True)
class ClientEvent:
    """An event that a client receives.

    Attributes:
        name: `session`, `text`, `reset`, `tool_start`, `tool_output`, `tool_end`, `done`, `paused` or `error`.
        data: JSON values of the event.
        id: value for `Last-Event-ID`, or `None` if the client cannot continue after this event.
    """

    name: str
    data: dict[str, object]
    id: str | None = None

    @cached_property
    def frame(self) -> bytes:
        """The event as a server-sent event. Followers of the same run share the bytes."""
        place = "" if self.id is None else f"id: {self.id}\n"
        return f"{place}event: {self.name}\ndata: {json.dumps(self.data)}\n\n".encode()


def mark_turn(turn: Turn, run_id: str) -> None:
    """Store the id of a run in the user turn that it answers. The id remains if the turn is redacted.

    Args:
        turn: the turn of the user.
        run_id: id of the run.
    """
    turn.client_id = run_id


def run_of(turn: Turn) -> str | None:
    """Return the id of the run that answers a user turn, or the id that a front end assigned, or `None`.

    Args:
        turn: the turn.
    """
    return turn.client_id


def message_run_name(message_id: str) -> str:
    """Return the name of the run for a message whose id a front end assigned.

    If the front end sends the message again, it receives the same run.

    Args:
        message_id: id of the message.
    """
    return hashlib.sha256(message_id.encode(errors="surrogatepass")).hexdigest()[:32]


def is_answered_by(turn: Turn, run_id: str) -> bool:
    """Return whether a run answers a user turn.

    Args:
        turn: the turn, which contains the id of the run, or the id that a front end assigned to the message.
        run_id: id of the run.
    """
    marked = run_of(turn)
    return marked is not None and (marked == run_id or run_id.endswith(f".{message_run_name(marked)}"))


def count_responses(messages: Messages, run_id: str) -> int:
    """Return the number of responses of the model since the user message of a run.

    Args:
        messages: the conversation.
        run_id: id of the run.
    """
    count = 0
    for content in reversed(messages.contents):
        for turn in reversed(content.turns):
            if content.role == "user" and is_answered_by(turn, run_id):
                return count
            count += content.role == "model"
    return count


def count_steps(events: Sequence[RunEvent]) -> int:
    """Return the number of responses of the model among the events.

    Args:
        events: events of one run.
    """
    return sum([event.name == "text" for event in events])


@final
class RunHistory:
    """The durable events of a run, derived one by one from the history entries of its session.

    Args:
        run_id: id of the run.
        after: a position before the message of the run. Default: the beginning.

    Attributes:
        events: events derived so far.
        position: the position after the last entry, or `None` before the first entry.
    """

    def __init__(self, run_id: str, after: HistoryPosition | None = None) -> None:
        self._run_id = run_id
        self.position: HistoryPosition | None = after
        self._begin()

    def _begin(self) -> None:
        self.events: list[RunEvent] = []
        self._resolved: set[str] = set()
        self._is_open = False
        self._last_entry = 1

    @property
    def log(self) -> str:
        """Short name of the history, as contained in places."""
        return (self.position.log if self.position is not None else "")[:LOG_NAME] or "0"

    def add(self, entries: Sequence[HistoryEntry]) -> None:
        """Add the events of further entries. Entries that begin with `created` replace all earlier entries.

        Args:
            entries: the entries after `position`.
        """
        for item in entries:
            self.position = item.position
            if item.event == "created":
                self._begin()
                for role, turn in item.turns:
                    self._add_turn(item.number, role, turn)
            elif item.event == "turn" and item.turn is not None and not item.path:
                self._add_turn(item.number, item.role, item.turn)
            elif item.event == "tool" and item.tool is not None and len(item.path) == 1 and self._is_open:
                self._add_tool(item.number, item.tool)

    def until_end(self, run: Run) -> tuple[list[RunEvent], Position | None]:
        """Return the events up to the end of a run, and the position of the end, or `None` if the run is active.

        Args:
            run: the run. Its state must have been read before the last entries.
        """
        if run.is_active:
            return self.events, None
        end, last = run.parts[-1].end, self._last_entry
        if end is not None and self.position is not None and end.log == self.position.log:
            last = end.entry
        shown = [event for event in self.events if event.position.entry <= last]
        return shown, Position(last, sum([event.position.entry == last for event in shown]))

    def _add_turn(self, number: int, role: str | None, turn: Turn) -> None:
        if role == "user" and run_of(turn) is not None:
            self._is_open = is_answered_by(turn, self._run_id)
        elif role == "model" and self._is_open:
            self._add(number, "text", {"content": turn.text})
            for call in turn.tools:
                self._resolved.discard(call.id)
                self._add(number, "tool_start", {"id": call.id, "name": call.name})
            for call in turn.tools:
                self._add_tool(number, call)

    def _add_tool(self, number: int, tool: Tool) -> None:
        self._last_entry = number
        if tool.resolved and tool.id not in self._resolved:
            self._resolved.add(tool.id)
            content = outcome_text(tool)
            if content:
                self._add(number, "tool_output", {"id": tool.id, "content": content})
            self._add(number, "tool_end", {"id": tool.id, "success": not tool.failed, "content": content})

    def _add(self, number: int, name: str, data: dict[str, object]) -> None:
        self._last_entry = number
        last = self.events[-1].position if self.events else START
        order = last.order + 1 if last.entry == number else 0
        self.events.append(RunEvent(Position(number, order), name, data))
