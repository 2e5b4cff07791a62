"""`Follower`, which streams the events of a run to a client, from the beginning or after any event.

Durable events are derived from the history of the session. The text of an open response is sent in pieces while the
model writes it. When the response is stored, the follower sends the rest of the text, so that all pieces together are
equal to the stored turn.

The pieces that a client has received may not match the stored turn, because another worker has taken over the run. They
may also be unknown to this process. In both cases, the client receives a `reset` event, discards the pieces of the
response, and receives the response again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Final, final

from chat_agents.events import TEXTS
from chat_agents.sse import wait_fields
from chat_core.approvals import Principal, is_allowed
from chat_core.response import iter_waits
from chat_store import UnknownConversationError

from chat_service.context import ServiceContext
from chat_service.live_text import OpenStep
from chat_service.run_events import START, ClientEvent, Place, RunEvent, Writer, count_steps
from chat_service.run_reader import RunReaders, RunStatus
from chat_service.run_records import Run
from chat_service.runs import Runs

TERMINAL: Final = frozenset({"done", "paused", "error"})
"""Names of the events that end a stream."""
_FAILURES: Final[dict[str, str]] = {
    "cancelled": "The run was cancelled.",
    "timeout": "The run took too long.",
    "worker_lost": "The run could not be completed.",
    **{str(code): text for code, text in TEXTS.items()},
}


@final
class Follower:
    """A source of the events that clients receive.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
    """

    def __init__(self, context: ServiceContext, runs: Runs) -> None:
        self._store = context.store
        self._may_decide = context.may_decide
        self._signals = context.signals
        self._live = context.live
        self._readers = RunReaders(context, runs)

    async def follow(self, principal: Principal, run: Run, after: Place | None = None) -> AsyncGenerator[ClientEvent]:
        """Yield the events of a run after a place, up to the event that ends the stream.

        Args:
            principal: the user. A `paused` event contains only the calls that the user may decide on.
            run: the run.
            after: place in the stream. Only later events are yielded. Default: the beginning.
        """
        if after is None:
            yield _session_event(run)
        reader = self._readers.reader(run)
        stream = _Stream(after)
        signal = self._signals.session(run.session_id)
        with self._live.following(run.id):
            while True:
                seen = signal.changes
                try:
                    status = await reader.read()
                except UnknownConversationError:  # the session was deleted
                    yield ClientEvent("error", {"code": "cancelled", "message": failure_text("cancelled")})
                    return
                if stream.place is not None and stream.place.log != status.log:  # a redaction has replaced the history
                    yield _session_event(run)
                    stream = _Stream(None)
                for shown in stream.show_new(status):
                    yield shown
                if status.end is not None:
                    yield await self._end_event(principal, status)
                    return
                while signal.changes == seen:
                    number = signal.number
                    for shown in stream.show_open(self._live.step(run.id)):
                        yield shown
                    await signal.wait(number)

    async def waiting(self, principal: Principal, session_id: str) -> list[dict[str, object]]:
        """Return the waiting calls of a session that a user may decide on, as JSON objects.

        Args:
            principal: the user.
            session_id: id of the session.
        """
        snapshot = await self._store.load(session_id)
        waits = [
            wait
            for tool in snapshot.messages.pending()
            for wait in iter_waits(tool, conversation=session_id, owner=snapshot.owner)
        ]
        return [wait_fields(wait) for wait in waits if is_allowed(self._may_decide, principal, wait)]

    async def result(self, run: Run) -> dict[str, object]:
        """Return the response of a run that has ended, as the body of a response to `POST /chat`.

        Args:
            run: the run.
        """
        status = await self._readers.reader(run).read()
        events = status.events
        ends = {event.data["id"]: event.data for event in events if event.name == "tool_end"}
        calls = [event.data for event in events if event.name == "tool_start"]
        texts = [str(event.data["content"]) for event in events if event.name == "text"]
        return {
            "session_id": run.session_id,
            "run_id": run.id,
            "response": texts[-1] if texts else "",
            "tool_calls": [{**call, "success": bool(ends.get(call["id"], {}).get("success", False))} for call in calls],
            **_sum_parts(status.run),
        }

    async def _end_event(self, principal: Principal, status: RunStatus) -> ClientEvent:
        run, place = status.run, str(Place(status.log, status.end or START))
        if run.state == "answered":
            return ClientEvent("done", {"iterations": count_steps(status.events), **_sum_parts(run)}, place)
        if run.state == "paused":
            waiting = await self.waiting(principal, run.session_id)
            return ClientEvent("paused", {"session_id": run.session_id, "waiting": waiting}, place)
        code = "cancelled" if run.state == "cancelled" else run.code or "internal"
        return ClientEvent("error", {"code": code, "message": failure_text(code)}, place)


def failure_text(code: str) -> str:
    """Return the error message that clients receive for a failed run.

    Args:
        code: code of the failure.
    """
    return _FAILURES.get(code, TEXTS["internal"])


def _sum_parts(run: Run) -> dict[str, Any]:
    ends = [part.end for part in run.parts if part.end is not None]
    return {
        "truncated": any(end.truncated for end in ends),
        "usage": {
            "input_tokens": sum([end.input_tokens for end in ends]),
            "output_tokens": sum([end.output_tokens for end in ends]),
        },
    }


def _session_event(run: Run) -> ClientEvent:
    return ClientEvent("session", {"session_id": run.session_id, "run_id": run.id})


@final
class _Stream:
    """The stream of one client, with a record of the events and pieces of text that the client has received.

    Args:
        place: the place that the client has reached, or `None` for the beginning.

    Attributes:
        place: the place that the client has reached, or `None` before the first event.
    """

    def __init__(self, place: Place | None) -> None:
        self.place = place
        self._shown: int | None = None
        self._steps = 0
        self._running: set[object] = set()
        self._newest = Writer(0, 0) if place is None else place.writer
        self._open: OpenStep | None = None  # the step whose first `place.pieces` pieces the client has

    def show_new(self, status: RunStatus) -> Iterator[ClientEvent]:
        """Yield the durable events that the client does not have."""
        if self.place is None:
            self.place = Place(status.log, START)
        if self._shown is None:
            self._shown = bisect_right(status.events, self.place.position, key=lambda event: event.position)
            self._steps = count_steps(status.events[: self._shown])
            for event in status.events[: self._shown]:
                self._note_call(event)
        for event in status.events[self._shown :]:
            yield from self._show(status.log, event)
        self._shown = max(self._shown, len(status.events))

    def _show(self, log: str, event: RunEvent) -> Iterator[ClientEvent]:
        """Yield a durable event. For a response, yield only the text that the client does not have."""
        place = Place(log, event.position)
        if event.name == "text":
            content, sent = str(event.data["content"]), self._sent_text()
            if sent is None or not content.startswith(sent):
                yield ClientEvent("reset", {})
                sent = ""
            if missing := content[len(sent) :]:
                yield ClientEvent("text", {"content": missing}, str(place))
            self._steps += 1
        else:
            self._note_call(event)
            yield ClientEvent(event.name, event.data, str(place))
        self.place = place

    def _note_call(self, event: RunEvent) -> None:
        if event.name == "tool_start":
            self._running.add(event.data["id"])
        elif event.name == "tool_end":
            self._running.discard(event.data["id"])

    def _sent_text(self) -> str | None:
        """Return the text of the open response that the client has, or `None` if this process does not know it."""
        pieces = 0 if self.place is None else self.place.pieces
        if not pieces:
            return ""
        return None if self._open is None else "".join(self._open.pieces[:pieces])

    def show_open(self, step: OpenStep | None) -> Sequence[ClientEvent]:
        """Return the pieces of the open response that the client does not have.

        If the calls before the response have not ended yet, its text is returned later.

        Args:
            step: the open response, or `None` if its text is not known.
        """
        place = self.place
        if step is None or step.step != self._steps or place is None or step.writer < self._newest or self._running:
            return ()
        shown: list[ClientEvent] = []
        self._newest = step.writer
        if place.pieces and (place.writer != step.writer or place.pieces > len(step.pieces)):
            self.place = place = place._replace(writer=Writer(0, 0), pieces=0)
            shown.append(ClientEvent("reset", {}, str(place)))
        self._open = step
        if place.pieces < len(step.pieces):
            self.place, event = step.show_after(place)
            shown.append(event)
        return shown
