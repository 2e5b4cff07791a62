"""`Worker`, which takes the runs of a service from the store and executes them with the engine."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Final, final

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup
from chat_agents import AgentSession, Done, Error, Text, ToolStatus
from chat_agents.limits import is_answered
from chat_core import Usage
from chat_core.errors import LeaseLostError
from chat_store import ConversationClosedError, Due, StoredJob, UnknownConversationError

from chat_service.context import ServiceContext
from chat_service.live_text import LiveText, OpenStep
from chat_service.request_log import set_logged_run
from chat_service.run_events import Writer, count_responses
from chat_service.run_records import END_JOB, RUN_JOB, EndState, Run, RunEnd, run_of_part
from chat_service.runs import Runs

_LOG = logging.getLogger("chat_service")
_DUE_PAGE = 100
_FINAL_SECONDS: Final = 3600.0
"""Time until a session whose last run has failed or was cancelled is checked again.

Such a session does not change, unless the database was replaced by a backup without the knowledge of this process.
"""


@final
@dataclass(frozen=True, slots=True)
class _Check:
    """The check of a session that is due.

    Attributes:
        since: the time since which the session is due.
        until: time of the event loop until which the session is not checked again, unless it becomes due again.
    """

    since: datetime
    until: float


@final
@dataclass(slots=True)
class _Outcome:
    """The outcome of a part that this worker executed."""

    state: EndState = "failed"
    code: str | None = None
    truncated: bool = False
    usage: Usage | None = None

    def to_end(self, entry: int, log: str) -> RunEnd:
        usage = self.usage or Usage()
        tokens = (usage.input_tokens or 0, usage.output_tokens or 0)
        return RunEnd(self.state, entry, self.code, self.truncated, *tokens, log)


@final
class Worker:
    """The worker tasks of one process. Each task executes one run at a time.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
    """

    def __init__(self, context: ServiceContext, runs: Runs) -> None:
        self._engine = context.engine
        self._flow = context.flow
        self._store = context.store
        self._settings = context.settings
        self._signals = context.signals
        self._live = context.live
        self._traces = context.traces
        self._runs = runs
        self._looking = anyio.Lock()
        self._checked: dict[str, _Check] = {}
        self._resets = 0
        self._counters = context.counters
        self._is_stopping = False

    def start(self, group: TaskGroup) -> None:
        """Start the worker tasks.

        Args:
            group: the task group of the service.
        """
        for _ in range(self._settings.workers):
            group.start_soon(self._work)

    async def drain(self) -> None:
        """Stop taking runs, and wait until the active runs have ended."""
        self._is_stopping = True
        while self._counters.running:
            await self._signals.any_session.wait(self._signals.any_session.number)

    async def _work(self) -> None:
        while not self._is_stopping:
            set_logged_run(None)
            try:
                async with AsyncExitStack() as stack:
                    async with self._looking:  # only one idle worker reads the store
                        job = await self._take_job(stack)
                    if job is not None and job.kind == RUN_JOB:
                        set_logged_run(run_of_part(job.key))
                        await self._run_job(job)
            except LeaseLostError:
                _LOG.info("a run was cancelled, or another worker has taken it over")
            except Exception:  # noqa: BLE001 - the store may raise anything, and the run is tried again
                _LOG.warning("a run will be tried again", exc_info=True)
                await anyio.sleep(self._settings.retry_seconds)

    async def _take_job(self, stack: AsyncExitStack) -> StoredJob | None:
        """Wait for a job and return it, or return `None` if the service stops. Closing `stack` ends the job."""
        while not self._is_stopping:
            seen = self._signals.any_session.number
            await self._queue_due_runs()
            taking = self._store.take_job(RUN_JOB, END_JOB)
            job = await taking.__aenter__()
            if job is not None:
                stack.push_async_exit(taking)
                return job
            await taking.__aexit__(None, None, None)
            with anyio.move_on_after(self._settings.poll_seconds):
                await self._signals.any_session.wait(seen)
        return None

    async def _queue_due_runs(self) -> None:
        """Queue the next part of each paused run that can continue."""
        cursor: str | None = None
        checked: dict[str, _Check] = {}
        if self._resets != self._signals.resets:  # the sessions are those of another database
            self._resets = self._signals.resets
            self._checked.clear()
        now = anyio.current_time()
        while page := await self._store.due(limit=_DUE_PAGE, after=cursor):
            cursor = page[-1].cursor
            for due in page:
                try:
                    checked[due.conversation] = await self._check(due, now)
                except Exception:  # noqa: BLE001 - one session must not stop the runs of the others
                    _LOG.warning("the session %r cannot continue", due.conversation, exc_info=True)
        self._checked = checked

    async def _check(self, due: Due, now: float) -> _Check:
        """Queue the next part of a paused run, unless its session was checked before, and return the check."""
        check = self._checked.get(due.conversation)
        if check is not None and check.since == due.since and now < check.until:
            return check
        is_final = await self._runs.resume_due(due.conversation)
        # The run of the session can pause without a change of `due.since`.
        return _Check(due.since, now + (_FINAL_SECONDS if is_final else self._settings.poll_seconds))

    # --- One run --------------------------------------------------------------------------------------------------

    async def _run_job(self, job: StoredJob) -> None:
        """Execute a part of a run, unless the part has ended."""
        run_id = run_of_part(job.key)
        self._counters.running += 1
        try:
            self._live.open(run_id)
            run = await self._runs.find(run_id)
            if run is None or run.parts[-1].job.key != job.key or run.parts[-1].end is not None:
                return
            set_logged_run(run_id, run.trace)
            with self._traces.restore(run.trace):
                outcome = await self._answer_unless_cancelled(run, job)
            if outcome is not None:
                end = outcome.to_end(*await self._runs.last_entry(run.session_id))
                await self._runs.end(run, end)
                self._count_end(end)
        except (ConversationClosedError, UnknownConversationError):
            return  # the session was closed or deleted
        finally:
            self._live.end(run_id)
            self._checked.pop(job.conversation, None)
            self._counters.running -= 1
            self._signals.any_session.notify()

    def _count_end(self, end: RunEnd) -> None:
        self._counters.ended[end.state] += 1
        self._counters.input_tokens += end.input_tokens
        self._counters.output_tokens += end.output_tokens

    async def _answer_unless_cancelled(self, run: Run, job: StoredJob) -> _Outcome | None:
        """Execute a part of a run. Return its outcome, or `None` if the run was cancelled in any process."""
        outcome: _Outcome | None = None
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            with CancelScope() as scope:
                group.start_soon(self._cancel_when_ended, run, scope)
                try:
                    outcome = await self._run_engine(run, job)
                except Exception as error:  # noqa: BLE001 - raised below, outside of the task group
                    failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return outcome

    async def _cancel_when_ended(self, run: Run, scope: CancelScope) -> None:
        signal = self._signals.session(run.session_id)
        while True:
            seen = signal.reports
            found = await self._runs.find(run.id)
            if found is None or found.parts[-1].end is not None:
                scope.cancel()
                return
            await signal.wait_for_report(seen)

    async def _run_engine(self, run: Run, job: StoredJob) -> _Outcome:
        """Run the engine on the session of a run, and return the outcome."""
        outcome = _Outcome(code="timeout")
        session = await AgentSession.open(self._store, run.session_id, flow=self._flow.name)
        known = count_responses(session.messages, run.id)
        with anyio.move_on_after(self._settings.run_seconds):
            async with self._engine.run(self._flow, session) as events:
                publisher = _Publisher(self._live, run, job, session)
                async for event in events:
                    match event:
                        case Text(delta):
                            publisher.publish(delta)
                        case ToolStatus():  # the response that contains the call is stored
                            self._live.settle(run.id)
                        case Error("max_tool_rounds"):
                            outcome.truncated = True
                        case Error(code) if code != "tool_error":
                            outcome.code = code
                        case Done(_, state, usage):
                            outcome.state, outcome.usage = state, usage
                        case _:
                            pass
        self._counters.model_calls += count_responses(session.messages, run.id) - known
        if outcome.state != "failed":
            outcome.code = None
        return outcome


@final
class _Publisher:
    """A publisher of the text that a model writes in a run. Each new turn of the session begins a new step."""

    def __init__(self, live: LiveText, run: Run, job: StoredJob, session: AgentSession) -> None:
        self._live = live
        self._run = run
        self._job = job
        self._session = session
        self._last_turn: object = None

    def publish(self, text: str) -> None:
        """Add text to the open step. Ignore a stored answer, which the engine delivers again."""
        if is_answered(self._session.messages):
            return
        last = self._session.messages.last_turn
        turn = None if last is None else last[1]
        if turn is not self._last_turn:
            self._last_turn = turn
            step = count_responses(self._session.messages, self._run.id)
            writer = Writer(len(self._run.parts), self._job.fence)
            self._live.begin(self._run.id, OpenStep(self._run.session_id, step, writer))
        self._live.append(self._run.id, text)
