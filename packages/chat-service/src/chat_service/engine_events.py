"""`EngineEvents`, which recreates the events of a run for the encoders of chat-streams, in any process.

The engine works in the process of the worker. The stored turns, the outcomes of their calls and the text of the open
response contain everything that a front end shows, so another process can recreate the events from them. Reasoning is
sent when its response has ended, because only the text of an open response is shared.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final, final

from chat_core import (
    AttemptReset,
    ChatResponse,
    Done,
    Messages,
    Paused,
    StepFinished,
    TextDelta,
    ToolCall,
    ToolData,
    ToolResult,
    ToolStarted,
    Usage,
)
from chat_core.messages import Role, Tool, Turn
from chat_core.middleware import turn_deltas
from chat_store import HistoryEntry, HistoryPosition, Snapshot, UnknownConversationError
from chat_streams import ErrorCode, RunFailedError
from chat_streams.open_waits import all_waits

from chat_service.client_runs import list_turns
from chat_service.context import ServiceContext
from chat_service.following import failure_text
from chat_service.live_text import OpenStep
from chat_service.run_events import Writer, count_responses, is_answered_by, run_of
from chat_service.run_reader import RunReaders
from chat_service.run_records import Run
from chat_service.runs import Runs

_CODES: Final[dict[str, ErrorCode]] = {
    "cancelled": "cancelled",
    "timeout": "timeout",
    "llm_error": "llm_error",
    "stream_error": "stream_error",
}


@final
class EngineEvents:
    """A source of the events of runs, as the engine would yield them.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
    """

    def __init__(self, context: ServiceContext, runs: Runs) -> None:
        self._store = context.store
        self._signals = context.signals
        self._live = context.live
        self._readers = RunReaders(context, runs)

    async def follow(self, run: Run, view: Snapshot, ended: Sequence[Tool] = ()) -> AsyncGenerator[object]:
        """Yield the events of a run that follow the state of `view`, up to `Done` or `Paused`.

        Args:
            run: the run.
            view: the conversation as the client knows it. Each new turn is appended to its messages when the engine
                would append it.
            ended: calls of `view` that the request of the client has resolved. Their results are yielded first.

        Raises:
            RunFailedError: the run has failed or was cancelled.
        """
        reader = self._readers.reader(run)
        signal = self._signals.session(run.session_id)
        replay = _Replay(run, view.messages, ended)
        first_part, read = len(run.parts) - 1, -1
        with self._live.following(run.id):
            while True:
                seen = signal.changes
                try:
                    status = await reader.read()
                    is_new = status.end is not None or len(status.events) != read
                    entries = await self._store.history(run.session_id, after=replay.position) if is_new else None
                    stored = await self._store.load(run.session_id) if status.run.state == "paused" else None
                except UnknownConversationError:  # the session was deleted
                    raise _failure("cancelled") from None
                read = len(status.events)
                if entries is not None:
                    for event in replay.add_entries(entries):
                        yield event
                if stored is not None:
                    replay.update_waits(stored.messages)
                if status.end is not None:
                    for event in replay.repeat_answer(status.run):
                        yield event
                    yield _end_event(status.run, view, first_part)
                    return
                while signal.changes == seen:
                    number = signal.number
                    for event in replay.add_open(self._live.step(run.id)):
                        yield event
                    await signal.wait(number)


def _end_event(run: Run, view: Snapshot, first_part: int) -> object:
    """Return the last event of a run, with the usage of the parts that the client has followed."""
    ends = [part.end for part in run.parts[first_part:] if part.end is not None]
    usage = Usage(
        input_tokens=sum([end.input_tokens for end in ends]), output_tokens=sum([end.output_tokens for end in ends])
    )
    if run.state == "paused":
        return Paused(tuple(all_waits(view)), usage)
    last = view.messages.last_turn
    if run.state != "answered" or last is None:
        raise _failure("cancelled" if run.state == "cancelled" else run.code or "internal")
    return Done(ChatResponse(last[1], usage))


def _failure(code: str) -> RunFailedError:
    return RunFailedError(_CODES.get(code, "internal"), failure_text(code))


@final
class _Replay:
    """A replay of a run for one client, which records the events that the client has received.

    Args:
        run: the run.
        view: messages that the client knows. Turns are appended as events are sent.
        ended: calls whose results the client does not have.

    Attributes:
        position: the position in the history of the session after which entries must be read, or `None` for all.
    """

    def __init__(self, run: Run, view: Messages, ended: Sequence[Tool]) -> None:
        self._run_id = run.id
        self._view = view
        turns = list_turns(view)
        self._known = len(turns)
        asked = [number for number, (role, turn) in enumerate(turns) if role == "user" and self._is_asked_in(turn)]
        self._asked = asked[-1] if asked else None
        self.position: HistoryPosition | None = None if self._asked is None else run.after
        self._next: int | None = None  # index of the next turn, which is not known before the first one is recognized
        self._is_past = False
        self._steps = count_responses(view, run.id)
        self._first_step = self._steps
        self._open: list[Tool] = [*ended, *view.pending()]
        self._is_silent = True
        self._writer: Writer = Writer(0, 0)
        self._pieces = 0
        self._sent = ""

    def _is_asked_in(self, turn: Turn) -> bool:
        return is_answered_by(turn, self._run_id)

    def add_entries(self, entries: Sequence[HistoryEntry]) -> Iterator[object]:
        """Yield the events of turns and outcomes that the client does not have.

        Args:
            entries: the entries of the history after `position`.
        """
        yield from self._end_calls()
        for item in entries:
            self.position = item.position
            if item.event == "created":
                self._next = 0
                for role, turn in item.turns:
                    yield from self._add_turn(role, turn)
            elif item.event == "turn" and item.turn is not None and item.role is not None and not item.path:
                yield from self._add_turn(item.role, item.turn)
            elif item.event == "tool" and item.tool is not None and len(item.path) == 1:
                yield from self._update_call(item.tool)

    def update_waits(self, stored: Messages) -> None:
        """Update the waiting calls and the calls in their inner conversations.

        Args:
            stored: the messages of the session.
        """
        for tool in self._open:
            self._view.adopt((tool.id,), stored.tool(tool.id))

    def _add_turn(self, role: Role, turn: Turn) -> Iterator[object]:
        if self._next is None and role == "user" and self._is_asked_in(turn):
            self._next = self._asked
        if self._next is None or self._is_past:
            return
        self._next += 1
        if self._next <= self._known:
            for tool in turn.tools:
                yield from self._update_call(tool)
        elif role == "user" and run_of(turn) is not None and not self._is_asked_in(turn):
            self._is_past = True  # the message of a later run
        else:
            self._is_silent = False
            if role == "model":
                yield from self._end_response(turn)
            else:
                self._append(role, turn)

    def _update_call(self, stored: Tool) -> Iterator[object]:
        for tool in self._open:
            if tool.id == stored.id and tool.revision <= stored.revision:
                self._view.adopt((tool.id,), stored)
                yield from self._end_calls()
                return

    def _end_calls(self) -> Iterator[object]:
        ended = [tool for tool in self._open if tool.resolved]
        self._open = [tool for tool in self._open if not tool.resolved]
        for tool in ended:
            self._is_silent = False
            if tool.edited is not None:
                yield ToolStarted(tool)
            for data in tool.data:
                yield ToolData(tool, data)
            yield ToolResult(tool)

    def _end_response(self, turn: Turn) -> Iterator[object]:
        """Yield the parts of a stored response that the client lacks, then its calls and the end of the step."""
        if not turn.text.startswith(self._sent):
            yield AttemptReset(1, "another worker has taken over the run")
            self._sent = ""
        deltas = turn_deltas(turn)
        if self._sent:
            missing = turn.text[len(self._sent) :]
            deltas = [delta for delta in deltas if not isinstance(delta, TextDelta)]
            if missing:
                yield TextDelta(missing)
        yield from deltas
        self._append("model", turn)
        yield from [ToolCall(tool) for tool in turn.tools]
        self._steps += 1
        self._sent, self._pieces = "", 0
        usage = Usage() if turn.metadata is None else turn.usage
        yield StepFinished(self._steps - self._first_step, usage)
        self._open += turn.tools
        yield from self._end_calls()

    def _append(self, role: Role, turn: Turn) -> None:
        self._view.append(role, turn)
        self._known += 1

    def add_open(self, step: OpenStep | None) -> Iterator[object]:
        """Yield the new text of the open response.

        Yield nothing until the client has received the ends of earlier calls.

        Args:
            step: the open response, or `None` if its text is not known.
        """
        if step is None or step.step != self._steps or self._open or step.writer < self._writer:
            return
        if step.writer != self._writer:
            if self._sent:
                yield AttemptReset(1, "another worker has taken over the run")
            self._writer, self._sent, self._pieces = step.writer, "", 0
        text = "".join(step.pieces[self._pieces :])
        if text:
            self._is_silent = False
            self._sent += text
            self._pieces = len(step.pieces)
            yield TextDelta(text)

    def repeat_answer(self, run: Run) -> Iterator[object]:
        """Yield a stored answer again, as the engine does, if the client has received nothing.

        Args:
            run: the run, which has ended.
        """
        last = self._view.last_turn
        if self._is_silent and run.state == "answered" and last is not None and last[0] == "model":
            yield from turn_deltas(last[1])
