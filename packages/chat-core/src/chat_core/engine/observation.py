"""Observation of runs, model calls and tools. Without observers, this module is not imported.

An error of an observer is logged, and what it observes continues.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar, final

from anyio import get_cancelled_exc_class

from chat_core.engine.subchat_report import OBSERVERS
from chat_core.events import Done
from chat_core.messages import Interrupted, Pending, Running, Suspended
from chat_core.observer import (
    CallRecord,
    Observation,
    Observer,
    RunOutcome,
    RunRecord,
    ToolRecord,
    WaitOutcome,
    WaitRecord,
)
from chat_core.response import Paused
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.engine.model_call import ModelCall, ModelRequest
    from chat_core.engine.retry import RetryBudget
    from chat_core.engine.triage import ReadyCall
    from chat_core.events import ProgressEvent
    from chat_core.messages import Messages, Tool, Turn
    from chat_core.messages.status import DecisionAction
    from chat_core.response import WaitKind

T = TypeVar("T")
_LOG = logging.getLogger("chat_core")

_OUTCOMES: Final[dict[DecisionAction, tuple[WaitKind, WaitOutcome]]] = {
    "approve": ("approval", "approved"),
    "reject": ("approval", "rejected"),
    "cancel": ("approval", "cancelled"),
    "retry": ("interrupted", "retried"),
    "complete": ("interrupted", "completed"),
    "fail": ("interrupted", "failed"),
}


@final
class Observations:
    """What all observers keep of one thing."""

    __slots__ = ("_observations",)

    def __init__(self, observers: Sequence[Observer], begin: Callable[[Observer], Observation]) -> None:
        self._observations: list[Observation] = []
        for observer in observers:
            try:
                self._observations.append(begin(observer))
            except Exception:  # noqa: BLE001 - an observer may raise anything
                _log_failure(observer)

    def inside(self) -> AbstractContextManager[None]:
        """The contexts of all of them."""
        return _ObservationContexts(self._observations)

    def end(self) -> None:
        """Say that it is over, once."""
        observations, self._observations = self._observations, []
        for observation in reversed(observations):
            try:
                observation.end()
            except Exception:  # noqa: BLE001 - an observer may raise anything
                _log_failure(observation)


@final
class _ObservationContexts:
    """The contexts of several observers. What is raised inside is none of their business."""

    __slots__ = ("_entered", "_observations")

    def __init__(self, observations: list[Observation]) -> None:
        self._observations = observations
        self._entered: list[AbstractContextManager[object]] = []

    def __enter__(self) -> None:
        for observation in self._observations:
            try:
                context = observation.inside()
                context.__enter__()
            except Exception:  # noqa: BLE001 - an observer may raise anything
                _log_failure(observation)
            else:
                self._entered.append(context)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        while self._entered:
            context = self._entered.pop()
            try:
                context.__exit__(None, None, None)
            except Exception:  # noqa: BLE001 - an observer may raise anything
                _log_failure(context)


def _log_failure(what: object) -> None:
    _LOG.exception("an observer failed (%s); what it observes goes on", type(what).__qualname__)


@final
class RunWatch:
    """One run, as its observers are told of it."""

    def __init__(self, observers: tuple[Observer, ...], record: RunRecord, now: Callable[[], datetime]) -> None:
        self.record = record
        self._observers = observers
        self._wait_reports = _WaitReports(observers, record, now)
        self._observations = Observations(observers, lambda observer: observer.run(record))

    async def step(self, step: Callable[..., Awaitable[T]], *args: object) -> T:
        """A step of the run, inside its observations. Nobody reads events meanwhile."""
        with self._observations.inside():
            return await step(*args)

    def end(self, last: object, usage: Usage, error: BaseException | None) -> None:
        """The run is over."""
        record = self.record
        self._wait_reports.report_resolved()
        record.outcome = _run_outcome(last, error)
        record.usage = usage
        if isinstance(last, Paused):
            record.pause = last
        elif record.outcome == "failed":
            record.error = error
        self._observations.end()

    def call(self, call: ModelCall, request: ModelRequest, retry_budget: RetryBudget) -> ModelCall:
        """A model is asked."""
        self._wait_reports.report_resolved()
        run = self.record
        run.steps += 1
        record = CallRecord(
            "chat",
            run.provider,
            run.streamed,
            request.options,
            run,
            request.tools,
            structured=request.output is not None,
        )
        retry_budget.failures = record.failures
        observations = Observations(self._observers, lambda observer: observer.model_call(record))
        return ObservedCall(
            call, record, observations, self._wait_reports.report_decided, may_restart=retry_budget.after_delivery
        )

    async def tool(self, ready: ReadyCall, attempt: int, body: Callable[[], Awaitable[T]]) -> T:
        """A tool's body, inside its observations; a chat that it is has the same observers."""
        self._wait_reports.tool_starts(ready.tool)
        record = ToolRecord(ready.tool, self.record, ready.definition.declaration, attempt)
        observations = Observations(self._observers, lambda observer: observer.tool(record))
        before = OBSERVERS.set(self._observers)
        try:
            with observations.inside():
                return await body()
        except BaseException as error:
            record.error = error
            raise
        finally:
            OBSERVERS.reset(before)
            record.error = record.error or ready.raised
            observations.end()


@final
class ObservedCall:
    """A provider call under way, which is observed."""

    def __init__(
        self,
        call: ModelCall,
        record: CallRecord,
        observations: Observations,
        on_answer: Callable[[], None],
        *,
        may_restart: bool,
    ) -> None:
        self._call = call
        self._may_restart = may_restart
        self._record = record
        self._observations = observations
        self._on_answer = on_answer
        self._begun = perf_counter()
        self.turn: Turn | None = None
        self.usage = Usage()

    async def next(self) -> Sequence[ProgressEvent] | None:
        """What the last read brought; `None` when the call has ended well."""
        record = self._record
        try:
            if record.first_after is None or self._may_restart:
                with self._observations.inside():
                    batch = await self._call.next()
            else:
                # Nothing can begin here any more, and a stream has many batches.
                batch = await self._call.next()
        except Exception as error:
            record.error = error
            self._end()
            raise
        if batch is None:
            self.turn = record.turn = self._call.turn
            self._end()
            self._on_answer()
        elif record.first_after is None:
            record.first_after = perf_counter() - self._begun
        return batch

    async def aclose(self) -> None:
        """Close the connection, if one is open."""
        try:
            with self._observations.inside():
                await self._call.aclose()
        finally:
            self._end()

    def _end(self) -> None:
        self.usage = self._record.usage = self._call.usage
        turn = self._record.turn
        if turn is not None and turn.metadata is not None:
            self._record.model = turn.metadata.model
        if turn is not None and self._record.run is not None:
            self._record.run.finish_reason = turn.finish_reason
        self._observations.end()


@final
class _WaitReports:
    """The waits that a run finds to be over, each told once.

    A call that was approved has waited until its body starts; one that expired, or that the policy refuses now, until
    this run has said so. One that a person refused was over before the run began. Of that nothing says whether an
    earlier run has told it, so it is told when the model has been: that happens once.
    """

    def __init__(self, observers: tuple[Observer, ...], record: RunRecord, now: Callable[[], datetime]) -> None:
        self._observers = observers
        self._record = record
        self._now = now
        pending = record.messages.pending()
        self._begun = {tool.id for tool in pending if isinstance(tool.status, (Running, Suspended))}
        self._open = {
            tool.id: (tool, tool.status) for tool in pending if isinstance(tool.status, (Pending, Interrupted))
        }
        for tool_id, (_, status) in [*self._open.items()]:
            if isinstance(status, Pending) and status.kind is None:
                del self._open[tool_id]

    def tool_starts(self, tool: Tool) -> None:
        """Its body starts."""
        _, status = self._open.pop(tool.id, (tool, None))
        if isinstance(status, Pending) and status.kind == "schedule" and status.at is not None and not tool.decisions:
            self._report(tool, "schedule", "due", status.at)
        elif tool.decisions and tool.id not in self._begun:
            self._report_decision(tool)
        self._begun.add(tool.id)

    def report_resolved(self) -> None:
        """Of the calls that waited when the run began, tell those that nobody decided, and that are over."""
        for tool_id, (tool, status) in [*self._open.items()]:
            if not tool.resolved:
                continue
            del self._open[tool_id]
            if tool.decisions:
                continue
            kind: WaitKind = "interrupted" if isinstance(status, Interrupted) else (status.kind or "approval")
            expires_at = status.expires_at if isinstance(status, Pending) else None
            expired = expires_at is not None and getattr(tool.status, "source", None) == "expiry"
            self._report(
                tool, kind, "expired" if expired else "rejected", (expires_at if expired else None) or self._now()
            )

    def report_decided(self) -> None:
        """The model has answered to what became of the calls of its last turn."""
        for tool in _last_calls(self._record.messages):
            if tool.decisions and tool.id not in self._begun:
                action = tool.decisions[-1].action
                if action not in ("approve", "retry") or not tool.attempts:
                    self._report_decision(tool)
                self._begun.add(tool.id)

    def _report_decision(self, tool: Tool) -> None:
        decision = tool.decisions[-1]
        kind, outcome = _OUTCOMES[decision.action]
        self._report(tool, kind, outcome, decision.at or self._now())

    def _report(self, tool: Tool, kind: WaitKind, outcome: WaitOutcome, ended_at: datetime) -> None:
        asked_at = _call_created_at(self._record.messages, tool) or ended_at
        record = WaitRecord(tool, self._record, kind, outcome, asked_at, ended_at, tool.edited is not None)
        for observer in self._observers:
            try:
                observer.decided(record)
            except Exception:  # noqa: BLE001 - an observer may raise anything
                _log_failure(observer)


def _last_calls(messages: Messages) -> list[Tool]:
    for content in reversed(messages.contents):
        if content.role == "model":
            return content.turns[-1].tools
    return []


def _call_created_at(messages: Messages, tool: Tool) -> datetime | None:
    for content in reversed(messages.contents):
        for turn in reversed(content.turns):
            if any(part is tool for part in turn.parts):
                return turn.created_at
    return None


def _run_outcome(last: object, error: BaseException | None) -> RunOutcome:
    if isinstance(last, Done):
        return "answered"
    if isinstance(last, Paused):
        return "paused"
    if isinstance(error, GeneratorExit):
        return "left"
    return "cancelled" if isinstance(error, get_cancelled_exc_class()) else "failed"


async def observe_embedding(
    observers: tuple[Observer, ...], record: CallRecord, retry_budget: RetryBudget, send: Callable[[], Awaitable[T]]
) -> T:
    """A request for vectors, observed."""
    retry_budget.failures = record.failures
    observations = Observations(observers, lambda observer: observer.model_call(record))
    try:
        with observations.inside():
            return await send()
    except Exception as error:
        record.error = error
        raise
    finally:
        observations.end()
