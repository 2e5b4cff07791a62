"""The tool pass, which decides about every unresolved call and then runs the calls that may run.

Calls run in tasks of the run's task group and put their events into a mailbox that the run's generator reads. No task
group and no cancel scope is open across a `yield`. A call that awaits something has its own task. Calls that never
await anything share a task.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from datetime import datetime
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Generic, final

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from typing_extensions import TypeVar

from chat_core import model_texts
from chat_core.concurrency import absorb_own_cancellation, current_asyncio_task, is_cancelled
from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.plan import ChatPlan
from chat_core.engine.subchat_report import InnerChat, InnerEvent, InnerHalt, InnerPause, InnerUsage, prefix_error
from chat_core.engine.tasks import Mailbox, call_in_loop, call_in_thread
from chat_core.engine.tool_outcome import fail_unresolved, has_unresolved_inside, record_interruption, record_result
from chat_core.engine.triage import Triage, is_decided
from chat_core.engine.triage_result import ReadyCall, TriageResult, blocked_error, causes_inside, join_pauses
from chat_core.errors import (
    ConflictError,
    InterruptedToolsError,
    LeaseLostError,
    PendingToolsError,
    PolicyError,
    ToolMissingError,
)
from chat_core.events import NestedEvent, ToolData, ToolProgress, ToolResult, ToolStarted
from chat_core.messages import Content, Running, Tool
from chat_core.response import Paused
from chat_core.tools.context import ToolContext, new_context
from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    import asyncio

    from anyio.abc import TaskGroup

    from chat_core.engine.observation import ObservedRun
    from chat_core.events import ProgressEvent

PauseT = TypeVar("PauseT", bound=Paused)

_NOT_STARTED: Final = object()
"""Return value if the tool was not called because the lease may have expired."""
_MOST_RENEWALS: Final = 3
"""Maximum number of lease renewals before the pass gives up starting a delayed tool function."""


@final
class _CallEnded:
    """Mailbox item for the end of a call's task, with the error that must end the run, if any."""

    __slots__ = ("error", "tool")

    def __init__(self, tool: Tool, error: BaseException | None) -> None:
        self.tool = tool
        self.error = error


@final
class ToolPass(Generic[PauseT]):
    """One pass over the unresolved calls. When `next()` returns None, the pass is complete and `pause` is set."""

    def __init__(
        self,
        plan: ChatPlan[object, PauseT],
        checkpoint: Checkpoint,
        group: TaskGroup | None,
        unresolved: list[Tool],
        *,
        deliver_events: bool = True,
        observed_run: ObservedRun | None = None,
    ) -> None:
        self._plan = plan
        self._checkpoint = checkpoint
        self._group = group
        self._unresolved = unresolved
        self._deliver_events = deliver_events
        self._observed_run = observed_run
        self._loop_and_thread = checkpoint.loop_and_thread
        self._mailbox: Mailbox[ProgressEvent | _CallEnded] = Mailbox()
        self._queue: list[ReadyCall] | None = None
        self._running: dict[str, ReadyCall] = {}
        self._started: set[str] = set()
        self._first_unobserved: ReadyCall | None = None
        self._interrupted = False
        self._closed = False
        self._triage_result: TriageResult[PauseT]
        self._error: BaseException | None = None
        self._inner_pauses: dict[str, PauseT] = {}
        self._blocked_inside: dict[str, PolicyError | ToolMissingError] = {}
        self._order: dict[str, int] = {}
        self._states: dict[str, Mapping[str, object]] = {}
        self._contents: Sequence[Content] = ()
        self.usage: Usage = NO_USAGE
        self.looked_at: datetime | None = None
        """Time when the triage began. Later deadlines have not been considered."""

    @property
    def pause(self) -> PauseT | None:
        """The combined pause of all waiting calls, in the order of the calls. Valid after the pass."""
        return join_pauses(self._triage_result.pauses | self._inner_pauses, self._order)

    @property
    def is_outdated(self) -> bool:
        """Whether a waiting or blocked call was decided since the triage, so that another pass is needed."""
        return self._triage_result.is_outdated(self._checkpoint.messages, self.pause)

    async def next(self) -> Sequence[ProgressEvent] | None:
        """Return the next events, or None when no call is running.

        Raises:
            InterruptedToolsError, PendingToolsError: a call needs a decision. Raised before any tool has run, unless
                the call belongs to an inner chat.
            PolicyError, ToolMissingError: a policy raised an exception for waiting or decided calls, or their tools
                are missing. Raised after running calls have ended.
            LeaseLostError: another run took over. Raised after running calls have ended.
        """
        if self._queue is None:
            unresolved = self._unresolved
            self.looked_at = self._plan.tools.now()
            self._triage_result = await Triage(self._plan.tools, self._checkpoint).decide_all(unresolved)
            self._error = self._triage_result.error
            self._states = self._checkpoint.messages.state_before_calls(unresolved)
            self._contents = self._checkpoint.messages.contents
            self._order = {tool.id: index for index, tool in enumerate(unresolved)}
            self._queue = self._triage_result.startable(unresolved)
            if self._triage_result.resolved or self._triage_result.resolved_inside:
                return [
                    *[ToolResult(tool) for tool in self._triage_result.resolved],
                    *[NestedEvent(path, ToolResult(tool)) for path, tool in self._triage_result.resolved_inside],
                ]
        await self._start_calls()
        if not self._running and not self._mailbox:
            if self._error is not None:
                if isinstance(self._error, (InterruptedToolsError, PendingToolsError)):
                    self._checkpoint.looked_at = self.looked_at
                raise self._error
            if self._interrupted:
                # If the run was cancelled, a call may have received the cancellation first.
                await checkpoint_if_cancelled()
            self._raise_if_blocked()
            return None
        events: list[ProgressEvent] = []
        for item in await self._mailbox.take_all():
            if isinstance(item, _CallEnded):
                await self._handle_call_end(item)
            else:
                events.append(item)
        if self._error is not None and not isinstance(self._error, Exception):
            # KeyboardInterrupt and similar errors do not wait for running calls.
            raise self._error
        return events

    def _raise_if_blocked(self) -> None:
        """Raise an error if calls are still blocked, and record that a new run must wait for a change."""
        if not self._triage_result.blocked and not self._blocked_inside:
            return
        causes: dict[str, BaseException] = {}
        for tool_id in self._order:
            if (cause := self._triage_result.blocked.get(tool_id)) is not None:
                causes[tool_id] = cause
            elif (inner := self._blocked_inside.get(tool_id)) is not None:
                causes |= causes_inside(inner, tool_id)
        if causes and not self.is_outdated:
            self._checkpoint.looked_at = self.looked_at
            raise blocked_error(causes)

    async def _handle_call_end(self, ended: _CallEnded) -> None:
        """Handle a call whose task was cancelled or failed outside the tool function."""
        tool = ended.tool
        if ended.error is None:
            # If the run is cancelled, its cancellation ended the call.
            await checkpoint_if_cancelled()
        del self._running[tool.id]
        self._error = self._error or ended.error
        if isinstance(tool.status, Running) and ended.error is None:
            # Only the call was cancelled. A status of `Running` would restart it in every pass.
            record_interruption(tool, model_texts.CANCELLED_WHILE_RUNNING)
            await self._checkpoint.write_tool(tool)

    async def aclose(self) -> None:
        """Cancel the running calls and wait until each has recorded its outcome.

        This also cancels the task group of the run, because the pass has no separate cancel scope.
        """
        self._closed = True
        if self._running and self._group is not None:
            self._group.cancel_scope.cancel()
        while self._started:
            await self._mailbox.take_all()

    # --- Scheduling ----------------------------------------------------------------------------------------

    async def _start_calls(self) -> None:
        """Start the calls that may start.

        If the first of several calls ends without awaiting anything, return after the calls that its task ran, so that
        the consumer receives their events. If it awaits something, start all other calls.
        """
        waits = False
        while (ready := self._take_next()) is not None:
            assert self._group is not None  # noqa: S101 - a chat that has tools runs in a group
            self._group.start_soon(self._run_task, ready)
            if self._queue and not waits and not ready.definition.sequential:
                self._first_unobserved = ready
                try:
                    await checkpoint()
                finally:
                    self._first_unobserved = None
                waits = bool(self._running)
                if self._mailbox and not waits:
                    return

    def _take_next(self, *, shared: bool = False) -> ReadyCall | None:
        """Remove and return the next call if it may start now. A `shared` call runs in the task of another call."""
        queue, running = self._queue, self._running
        if not queue or self._closed or self._error is not None:
            return None
        ready = queue[0]
        if len(running) >= self._plan.settings.concurrency:
            return None
        barrier = ready.definition.sequential
        if barrier and (running or shared):
            return None
        if running and any(other.definition.sequential for other in running.values()):
            return None
        if barrier and (self._inner_pauses or self._blocked_inside):
            # An inner chat paused or halted: the sequential call and all later calls wait with it.
            queue.clear()
            return None
        del queue[0]
        running[ready.tool.id] = ready
        return ready

    # --- One call --------------------------------------------------------------------------------------------

    async def _run_task(self, ready: ReadyCall) -> None:
        await self._run_consecutively(ready)
        await absorb_own_cancellation()

    async def _run_consecutively(self, ready: ReadyCall) -> None:
        """Run a call, then further calls in the same task until a call awaits something.

        A separate task would cost more than most short calls. Sharing stops if a call changes context variables,
        because the next call must not see them. Sequential calls always have their own task.
        """
        first, context, task = ready, copy_context(), current_asyncio_task()
        await self._run_call(ready, task)
        # At most `concurrency` calls in a row, then yield to the event loop.
        for _ in range(1, self._plan.settings.concurrency):
            if (
                self._first_unobserved is not first
                or not ready.tool.resolved
                or not _are_same_contexts(context, copy_context())
                or (following := self._take_next(shared=True)) is None
            ):
                return
            ready = following
            await self._run_call(ready, task)

    async def _run_call(self, ready: ReadyCall, task: asyncio.Task[Any] | None) -> None:
        tool = ready.tool
        error: BaseException | None = None
        self._started.add(tool.id)
        try:
            if not self._closed and not is_cancelled(self._loop_and_thread[0], task):
                await self._start_and_run(ready)
        except anyio.get_cancelled_exc_class():
            self._interrupted = True
            raise
        except BaseException as caught:  # noqa: BLE001 - the run raises it
            error = caught
        finally:
            self._started.discard(tool.id)
            if error is None and not isinstance(tool.status, Running):
                del self._running[tool.id]
                self._mailbox.notify()
            else:
                self._mailbox.put(_CallEnded(tool, error))

    async def _start_and_run(self, ready: ReadyCall) -> None:
        tool = ready.tool
        is_stale = tool.revision != ready.revision or self._checkpoint.has_lost_grant(tool, self._plan.tools.now)
        running = None if is_stale else await self._record_start(ready)
        if running is None:
            # Another process has decided about the call since the triage, or revoked the grant that approved it.
            if self._deliver_events and tool.resolved:
                self._mailbox.put(ToolResult(tool))
            return
        if self._deliver_events:
            self._mailbox.put(ToolStarted(tool))
        context = new_context(
            tool.id,
            running.attempt,
            tool.idempotency_key,
            self._contents,
            self._checkpoint.run,
            partial(self._report, tool),
            running.inner,
            self._states[tool.id],
        )
        run_body = partial(self._run_body, ready, context)
        try:
            if self._checkpoint.conversation is not None:
                # The write above is shielded from cancellation. Without a conversation, there was no write.
                await checkpoint_if_cancelled()
            observed_run = self._observed_run
            error = await (run_body() if observed_run is None else observed_run.tool(ready, context.attempt, run_body))
        except BaseException as error:
            await self._record_cancellation(ready, error)
            raise
        await self._checkpoint.write_tool(tool)
        if self._deliver_events and tool.resolved:
            for data in ready.data:
                self._mailbox.put(ToolData(tool, data))
            self._mailbox.put(ToolResult(tool))
        if error is not None:
            raise error

    async def _record_cancellation(self, ready: ReadyCall, error: BaseException) -> None:
        """Store that a call was cancelled. An idempotent call stays `Running`, so that the next run repeats it.

        Args:
            ready: the cancelled call.
            error: the exception that ended the call.
        """
        tool = ready.tool
        if isinstance(error, LeaseLostError) or (tool.inner is not None and self._checkpoint.is_failed_write(error)):
            # The run that took over decides about the call, or the next run resumes the chat from its stored turns.
            return
        if not ready.definition.idempotent and isinstance(tool.status, Running):
            record_interruption(
                tool, model_texts.CANCELLED_WHILE_RUNNING if ready.began else model_texts.CANCELLED_BEFORE_START
            )
            await self._checkpoint.write_tool(tool)

    async def _record_start(self, ready: ReadyCall) -> Running | None:
        """Store that the tool function is about to start. Return None if another process decided the call."""
        tool, before, now = ready.tool, ready.tool.status, self._plan.settings.now()
        if isinstance(before, Running):
            running = tool.again(now)
        elif (chat := self._plan.inner_chats.get(tool.name)) is not None and tool.inner is None:
            running = tool.start(now, inner=chat.begin(ready.arguments))
        else:
            running = tool.start(now)
        try:
            await self._checkpoint.write_tool(tool)
        except ConflictError:
            if not is_decided(tool) or (tool.status == before and tool.id in self._checkpoint.refused_calls):
                raise
            self._checkpoint.refused_calls.add(tool.id)
            return None
        return running

    async def _run_body(self, ready: ReadyCall, context: ToolContext) -> Exception | None:
        """Run the tool function with its timeout and record the outcome. Return an error that must end the run.

        Raises:
            LeaseLostError: another run took over before the function was called.
            TimeoutError: the lease could not be kept, so the function was not called.
            Exception: an inner chat failed and has unresolved calls, or one of its writes failed.
        """
        tool = ready.tool
        renewals = 0
        while (value := await self._call_with_timeout(ready, context)) is _NOT_STARTED:
            if renewals == _MOST_RENEWALS:
                msg = f"tool {tool.id!r} was not started: {renewals} lease renewals took too long; use a longer lease"
                raise TimeoutError(msg)
            renewals += 1
            await self._checkpoint.renew()
            await checkpoint_if_cancelled()
        if ready.raised is not None:
            return None
        if context.inner is not None and isinstance(value, (InnerHalt, InnerPause)):
            # The type of the scope includes this pause; `run()` returns it as `object`.
            return self._suspend(tool, value)  # pyright: ignore[reportUnknownArgumentType] - see above
        record_result(ready, value, self._plan.settings)
        return None

    async def _call_with_timeout(self, ready: ReadyCall, context: ToolContext) -> object:
        """Call the tool function with its timeout and return the value.

        Return `_NOT_STARTED` if the function did not start, or None after recording a failure.

        The timeout does not apply to an inner chat. The timeouts of its own tools limit its calls.

        Raises:
            Exception: an inner chat failed and has unresolved calls, or one of its writes failed.
        """
        tool, definition, settings = ready.tool, ready.definition, self._plan.settings
        timeout = definition.timeout if definition.timeout is not None else settings.tool_timeout
        try:
            if timeout is None or context.inner is not None:
                return await self._call_tool(ready, context)
            with anyio.move_on_after(timeout):
                return await self._call_tool(ready, context)
            ready.raised = TimeoutError()
            fail_unresolved(tool, model_texts.timed_out(tool.name, timeout), settings.max_result_bytes)
        except (Exception, SystemExit) as error:
            if self._checkpoint.is_failed_write(error) or has_unresolved_inside(tool):
                raise
            ready.raised = error
            fail_unresolved(tool, model_texts.raised(error), settings.max_result_bytes)
        return None

    async def _call_tool(self, ready: ReadyCall, context: ToolContext) -> object:
        definition = ready.definition
        run: Callable[[], object]
        if context.inner is not None and (chat := self._plan.inner_chats.get(ready.tool.name)) is not None:
            run = partial(self._run_inner_chat, chat, context, ready.tool)
        else:
            run = partial(definition.run, ready.arguments, context)
        if self._checkpoint.conversation is not None:
            run = partial(self._run_with_lease, run)
        ready.began = True
        try:
            value = await call_in_thread(run) if definition.blocking else run()
            ready.began = value is not _NOT_STARTED
            return await value if inspect.isawaitable(value) else value
        except anyio.get_cancelled_exc_class() as error:
            if is_cancelled():
                raise
            raise RuntimeError(model_texts.CANCELLED_FROM_INSIDE) from error

    async def _run_inner_chat(self, chat: InnerChat, context: ToolContext, tool: Tool) -> object:
        """Run an inner chat, close the values of its factories, and return its outcome."""
        error: BaseException | None = None
        assert tool.inner is not None  # noqa: S101 - the conversation begins before the chat runs
        try:
            tools, rule = chat.tools_for(tool.inner), self._plan.tools.grant_rule
            return await chat.run_inside(context, await self._checkpoint.inner(tool, tools, rule))
        except BaseException as caught:
            error = caught
            raise
        finally:
            await self._checkpoint.close_inner(tool, error)
            del error

    def _run_with_lease(self, run: Callable[[], object]) -> object:
        """Call the tool function if the lease is recent enough, otherwise return `_NOT_STARTED`."""
        return run() if self._checkpoint.may_start() else _NOT_STARTED

    def _suspend(self, tool: Tool, value: InnerHalt | InnerPause[PauseT]) -> Exception | None:
        """Suspend a call whose inner chat paused or was halted. Return an error that must end the run."""
        tool.suspend(value.messages)
        if isinstance(value, InnerPause):
            self._inner_pauses[tool.id] = value.pause.prefixed(tool.id)
        elif isinstance(value.error, (PolicyError, ToolMissingError)):
            self._blocked_inside[tool.id] = value.error
        else:
            return prefix_error(value.error, tool.id)
        return None

    def _report(self, tool: Tool, value: object) -> None:
        """Receive a value that the tool function or the inner chat reports, in any thread."""
        token, thread = self._loop_and_thread
        if threading.get_ident() == thread:
            self._receive_report(tool, value)
        else:
            call_in_loop(token, partial(self._receive_report, tool, value))

    def _receive_report(self, tool: Tool, value: object) -> None:
        if isinstance(value, InnerUsage):
            self.usage += value.usage
        elif isinstance(tool.status, Running):
            # Ignore late reports of an abandoned thread.
            self._mailbox.put(_progress_event(tool, value))


def _are_same_contexts(left: Context, right: Context) -> bool:
    """Return whether two contexts contain identical values."""
    return len(left) == len(right) and all(map(is_, left.values(), right.values()))


def _progress_event(tool: Tool, value: object) -> ProgressEvent:
    if not isinstance(value, InnerEvent):
        return ToolProgress(tool, value)
    inner = value.event
    return (
        NestedEvent((tool.id, *inner.path), inner.event)
        if isinstance(inner, NestedEvent)
        else NestedEvent((tool.id,), inner)
    )
