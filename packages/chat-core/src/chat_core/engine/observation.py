"""Notification of observers about runs, model calls and tools. Imported only if a chat has observers.

If an observer raises an exception, the exception is logged and the observed operation continues.
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
    WarningObserver,
)
from chat_core.response import Paused
from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from chat_core.engine.model_call import ModelCall, ModelRequest
    from chat_core.engine.retry import RetryBudget
    from chat_core.engine.triage_result import ReadyCall
    from chat_core.events import ProgressEvent
    from chat_core.messages import Messages, Tool, Turn
    from chat_core.messages.status import DecisionAction
    from chat_core.response import WaitKind

T = TypeVar("T")
_LOG = logging.getLogger("chat_core")

_OUTCOME_OF_ACTION: Final[dict[DecisionAction, tuple[WaitKind, WaitOutcome]]] = {
    "approve": ("approval", "approved"),
    "reject": ("approval", "rejected"),
    "cancel": ("approval", "cancelled"),
    "retry": ("interrupted", "retried"),
    "complete": ("interrupted", "completed"),
    "fail": ("interrupted", "failed"),
}


@final
class Observations:
    """The observations of one operation, such as a model call, by all observers."""

    __slots__ = ("_observations",)

    def __init__(self, observers: Sequence[Observer], start: Callable[[Observer], Observation]) -> None:
        self._observations: list[Observation] = []
        for observer in observers:
            try:
                self._observations.append(start(observer))
            except Exception:  # noqa: BLE001 - an observer may raise anything
                _log_failure(observer)

    def inside(self) -> AbstractContextManager[None]:
        """Return a context manager that enters the `inside()` contexts of all observations."""
        return _ObservationContexts(self._observations)

    def end(self) -> None:
        """End all observations, in reverse order. Later calls do nothing."""
        observations, self._observations = self._observations, []
        for observation in reversed(observations):
            try:
                observation.end()
            except Exception:  # noqa: BLE001 - an observer may raise anything
                _log_failure(observation)


@final
class _ObservationContexts:
    """Context manager that enters and exits the contexts of several observations.

    Exceptions raised in the block are not passed to the contexts.
    """

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


def _log_failure(source: object) -> None:
    _LOG.exception("an observer raised an exception (%s); the observed operation continues", type(source).__qualname__)


@final
class ObservedRun:
    """The observers of a run, with the record that they receive."""

    def __init__(self, observers: tuple[Observer, ...], record: RunRecord, now: Callable[[], datetime]) -> None:
        self.record = record
        self._observers = observers
        self._wait_reports = _WaitReports(observers, record, now)
        self._observations = Observations(observers, lambda observer: observer.run(record))

    async def step(self, step: Callable[..., Awaitable[T]], *args: object) -> T:
        """Execute one step of a run inside the contexts of its observers, and return the result.

        Code that consumes the events of the run is never executed inside these contexts.

        Args:
            step: coroutine function that executes the step.
            args: arguments of `step`.
        """
        with self._observations.inside():
            return await step(*args)

    def end(self, last: object, usage: Usage, error: BaseException | None) -> None:
        """Complete the record of the run and end the observations.

        Args:
            last: the last event of a run that ended without an error, otherwise `None`.
            usage: token usage of the run.
            error: the exception that ended the run, if any.
        """
        record = self.record
        self._wait_reports.report_resolved()
        record.outcome = _run_outcome(last, error)
        record.usage = usage
        if isinstance(last, Paused):
            record.pause = last
        elif record.outcome == "failed":
            record.error = error
        self._observations.end()

    def warn(self, messages: Sequence[str]) -> None:
        """Pass warning messages to the observers that implement `WarningObserver`."""
        for observer in self._observers if messages else ():
            if isinstance(observer, WarningObserver):
                for message in messages:
                    try:
                        observer.warning(self.record, message)
                    except Exception:  # noqa: BLE001 - an observer may raise anything
                        _log_failure(observer)

    def call(self, call: ModelCall, request: ModelRequest, retry_budget: RetryBudget) -> ModelCall:
        """Wrap a model call so that observers are notified of its progress and its end.

        Args:
            call: the model call.
            request: the request that the call sends.
            retry_budget: retry budget of the run. Failed attempts are recorded through it.
        """
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
        """Run a tool function inside the contexts of the observers, and return the function's result.

        A chat that runs as a tool uses the same observers.

        Args:
            ready: the tool call, ready to run.
            attempt: number of this execution, starting at 1.
            body: coroutine function that runs the tool function.
        """
        self._wait_reports.tool_starts(ready.tool)
        record = ToolRecord(ready.tool, self.record, ready.definition.declaration, attempt)
        observations = Observations(self._observers, lambda observer: observer.tool(record))
        reset_token = OBSERVERS.set(self._observers)
        try:
            with observations.inside():
                return await body()
        except BaseException as error:
            record.error = error
            raise
        finally:
            OBSERVERS.reset(reset_token)
            record.error = record.error or ready.raised
            observations.end()


@final
class ObservedCall:
    """A wrapper that reports a model call to observers."""

    def __init__(
        self,
        call: ModelCall,
        record: CallRecord,
        observations: Observations,
        on_response: Callable[[], None],
        *,
        may_restart: bool,
    ) -> None:
        self._call = call
        self._may_restart = may_restart
        self._record = record
        self._observations = observations
        self._on_response = on_response
        self._started_at = perf_counter()
        self.turn: Turn | None = None
        self.partial: Turn | None = None
        self.usage: Usage = NO_USAGE
        self.failed_requests: int = 0

    async def next(self) -> Sequence[ProgressEvent] | None:
        """Implement `ModelCall.next`. When the call ends, also end the observation."""
        record = self._record
        try:
            if record.first_after is None or self._may_restart:
                with self._observations.inside():
                    batch = await self._call.next()
            else:
                # No attempt can start here, and a stream has many batches: skip the contexts.
                batch = await self._call.next()
        except Exception as error:
            record.error = error
            self._end_observation()
            raise
        if batch is None:
            self.turn = record.turn = self._call.turn
            self._end_observation()
            self._on_response()
        elif record.first_after is None:
            record.first_after = perf_counter() - self._started_at
        return batch

    async def aclose(self) -> None:
        """Implement `ModelCall.aclose`, and also end the observation."""
        try:
            with self._observations.inside():
                await self._call.aclose()
            self.partial = self._call.partial
        finally:
            self._end_observation()

    def _end_observation(self) -> None:
        self.usage = self._record.usage = self._call.usage
        self.failed_requests = self._call.failed_requests
        turn = self._record.turn
        if turn is not None and turn.metadata is not None:
            self._record.model = turn.metadata.model
        if turn is not None and self._record.run is not None:
            self._record.run.finish_reason = turn.finish_reason
        self._observations.end()


@final
class _WaitReports:
    """Reporter that notifies observers exactly once about each wait that has ended.

    The end of a wait is reported:

    - for an approved call, when its tool function starts;
    - for a call that expired or that the policy now rejects, when this run resolves it;
    - for a call that an approver rejected, after the model has received the rejection. The history does not show
      whether an earlier run reported the rejection, and the model receives it only once.
    """

    def __init__(self, observers: tuple[Observer, ...], record: RunRecord, now: Callable[[], datetime]) -> None:
        self._observers = observers
        self._record = record
        self._now = now
        pending = record.messages.pending()
        self._begun = {tool.id for tool in pending if isinstance(tool.status, (Running, Suspended))}
        self._waiting = {
            tool.id: (tool, tool.status) for tool in pending if isinstance(tool.status, (Pending, Interrupted))
        }
        for tool_id, (_, status) in [*self._waiting.items()]:
            if isinstance(status, Pending) and status.kind is None:
                del self._waiting[tool_id]

    def tool_starts(self, tool: Tool) -> None:
        """Report the end of a wait when the tool function of the call starts."""
        _, status = self._waiting.pop(tool.id, (tool, None))
        if isinstance(status, Pending) and status.kind == "schedule" and status.at is not None and not tool.decisions:
            self._report_wait(tool, "schedule", "due", status.at)
        elif tool.decisions and tool.id not in self._begun:
            self._report_decision(tool)
        self._begun.add(tool.id)

    def report_resolved(self) -> None:
        """Report waiting calls that were resolved during this run without a decision by an approver."""
        for tool_id, (tool, status) in [*self._waiting.items()]:
            if not tool.resolved:
                continue
            del self._waiting[tool_id]
            if tool.decisions:
                continue
            kind: WaitKind = "interrupted" if isinstance(status, Interrupted) else (status.kind or "approval")
            expires_at = status.expires_at if isinstance(status, Pending) else None
            expired = expires_at is not None and getattr(tool.status, "source", None) == "expiry"
            self._report_wait(
                tool, kind, "expired" if expired else "rejected", (expires_at if expired else None) or self._now()
            )

    def report_decided(self) -> None:
        """Report the decided calls of the last model turn. Call this when the model has received their results."""
        for tool in _calls_of_last_model_turn(self._record.messages):
            if tool.decisions and tool.id not in self._begun:
                action = tool.decisions[-1].action
                if action not in ("approve", "retry") or not tool.attempts:
                    self._report_decision(tool)
                self._begun.add(tool.id)

    def _report_decision(self, tool: Tool) -> None:
        decision = tool.decisions[-1]
        kind, outcome = _OUTCOME_OF_ACTION[decision.action]
        if kind == "interrupted" and not tool.attempts:
            kind = "result"
        self._report_wait(tool, kind, outcome, decision.at or self._now())

    def _report_wait(self, tool: Tool, kind: WaitKind, outcome: WaitOutcome, ended_at: datetime) -> None:
        asked_at = _call_created_at(self._record.messages, tool) or ended_at
        record = WaitRecord(tool, self._record, kind, outcome, asked_at, ended_at, tool.edited is not None)
        for observer in self._observers:
            try:
                observer.decided(record)
            except Exception:  # noqa: BLE001 - an observer may raise anything
                _log_failure(observer)


def _calls_of_last_model_turn(messages: Messages) -> list[Tool]:
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


async def observe_embedding(observers: tuple[Observer, ...], record: CallRecord, send: Callable[[], Awaitable[T]]) -> T:
    """Send an embeddings request inside the contexts of the observers, and return the response.

    Args:
        observers: observers of the chat.
        record: record that the observers receive.
        send: coroutine function that sends the request, and records failed attempts.
    """
    observations = Observations(observers, lambda observer: observer.model_call(record))
    try:
        with observations.inside():
            return await send()
    except Exception as error:
        record.error = error
        raise
    finally:
        observations.end()
