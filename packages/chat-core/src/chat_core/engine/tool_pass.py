"""The pass over tools: decide about every unresolved call, then run what may run.

The calls run in tasks of the run's own group and leave their events in a mailbox, which the run's generator empties: no
task group and no cancel scope is open across a `yield`. A call that waits for something has a task of its own; those
that never do share one.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Generic, final

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from typing_extensions import TypeVar

from chat_core import model_texts
from chat_core.concurrency import absorb_own_cancellation, is_cancelled
from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.plan import ChatPlan
from chat_core.engine.subchat_report import InnerEvent, InnerHalt, InnerPause, InnerUsage
from chat_core.engine.tasks import Mailbox, call_in_thread, wake
from chat_core.engine.triage import Ready, Triage, TriageResult, decided
from chat_core.errors import ConflictError
from chat_core.events import NestedEvent, ToolProgress, ToolResult, ToolStarted
from chat_core.messages import Running, Tool
from chat_core.response import Paused
from chat_core.tools.context import ToolContext
from chat_core.usage import Usage

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from chat_core.engine.observation import RunWatch
    from chat_core.events import ProgressEvent
    from chat_core.tools.definition import ToolDefinition

PauseT = TypeVar("PauseT", bound=Paused)


@final
class _Ended:
    """A call's task is over; with the error that must end the run, if there was one."""

    __slots__ = ("error", "tool")

    def __init__(self, tool: Tool, error: BaseException | None) -> None:
        self.tool = tool
        self.error = error


@final
class ToolsPass(Generic[PauseT]):
    """One pass. `next()` gives events by batch until it returns `None`; then `pause` says what must be waited for."""

    def __init__(
        self,
        plan: ChatPlan[object, PauseT],
        checkpoint: Checkpoint,
        group: TaskGroup | None,
        *,
        heard: bool = True,
        watch: RunWatch | None = None,
    ) -> None:
        self._plan = plan
        self._checkpoint = checkpoint
        self._group = group
        self._heard = heard
        self._watch = watch
        self._home = checkpoint.loop_and_thread
        self._mailbox: Mailbox[ProgressEvent | _Ended] = Mailbox()
        self._queue: list[Ready] | None = None
        self._running: dict[str, Ready] = {}
        self._begun: set[str] = set()
        self._unwaited: Ready | None = None
        self._interrupted = False
        self._closed = False
        self._found: TriageResult[PauseT] = TriageResult()
        self._error: BaseException | None = None
        self._inner: dict[str, PauseT] = {}
        self._order: dict[str, int] = {}
        self.usage = Usage()

    @property
    def pause(self) -> PauseT | None:
        """What must be waited for, after the pass, in order of emission."""
        pauses = self._found.pauses | self._inner
        pause: PauseT | None = None
        for waiting in sorted(pauses, key=self._order.__getitem__):
            part = pauses[waiting]
            pause = part if pause is None else pause.join(part)
        return pause

    async def next(self) -> Sequence[ProgressEvent] | None:
        """The next events; `None` when nothing runs any more.

        Raises:
            InterruptedToolsError, PendingToolsError: before anything has run, but for what a chat inside raises them
            about.
            LeaseLostError: another run took over; after the calls that ran have ended.
        """
        if self._queue is None:
            unresolved = self._checkpoint.messages.pending()
            self._found = await Triage(self._plan.tools, self._checkpoint).look(unresolved)
            self._error = self._found.error
            self._queue = self._startable(unresolved)
            if self._found.resolved:
                return [ToolResult(tool) for tool in self._found.resolved]
        await self._start_some()
        if not self._running and not self._mailbox:
            if self._error is not None:
                raise self._error
            if self._interrupted:
                # A call heard of it before the run did, if it was the run that was cancelled.
                await checkpoint_if_cancelled()
            return None
        events: list[ProgressEvent] = []
        for item in await self._mailbox.take():
            if isinstance(item, _Ended):
                await self._end(item)
            else:
                events.append(item)
        if self._error is not None and not isinstance(self._error, Exception):
            # Ctrl-C and its like wait for nobody.
            raise self._error
        return events

    async def _end(self, ended: _Ended) -> None:
        """Go on behind a call that did not end in order: those that did have nothing to say."""
        tool = ended.tool
        if ended.error is None:
            # Where the run is cancelled, so was the call, with it.
            await checkpoint_if_cancelled()
        del self._running[tool.id]
        self._error = self._error or ended.error
        if isinstance(tool.status, Running) and ended.error is None:
            # The run goes on, and the call does not: whoever cancelled it, it would be begun again for ever.
            tool.lost(model_texts.CANCELLED_WHILE_RUNNING)
            await self._checkpoint.write_tool(tool)

    async def aclose(self) -> None:
        """Cancel the calls that still run, and wait until each has said what became of it.

        The run is over with this: its group is cancelled, since the pass has no scope of its own.
        """
        self._closed = True
        if self._running and self._group is not None:
            self._group.cancel_scope.cancel()
        while self._begun:
            await self._mailbox.take()

    # --- Which, and when -----------------------------------------------------------------------------------

    def _startable(self, unresolved: list[Tool]) -> list[Ready]:
        """The calls to run, in order of emission: none from the first barrier on that has a waiting call before it."""
        order = self._order = {tool.id: place for place, tool in enumerate(unresolved)}
        first_wait = min([order[waiting] for waiting in self._found.pauses], default=len(order))
        startable: list[Ready] = []
        for ready in self._found.ready:
            if ready.definition.sequential and order[ready.tool.id] > first_wait:
                break
            startable.append(ready)
        return startable

    async def _start_some(self) -> None:
        """Begin the calls that may begin: one, to see whether it, and those behind it, wait for anything; then all.

        Where all that have begun are over, whoever reads is told before another begins: one may be enough.
        """
        waits = False
        while (ready := self._take()) is not None:
            assert self._group is not None  # noqa: S101 - a chat that has tools runs in a group
            self._group.start_soon(self._work, ready)
            if self._queue and not waits and not ready.definition.sequential:
                self._unwaited = ready
                try:
                    await checkpoint()
                finally:
                    self._unwaited = None
                waits = bool(self._running)
                if self._mailbox and not waits:
                    return

    def _take(self, *, shared: bool = False) -> Ready | None:
        """The next call, if it may begin now, in the task of another where `shared`; it counts as running then."""
        queue, running = self._queue, self._running
        if not queue or self._closed or self._error is not None:
            return None
        ready = queue[0]
        if len(running) >= self._plan.settings.concurrency:
            return None
        barrier = ready.definition.sequential
        alone = barrier or any(other.definition.sequential for other in running.values())
        if alone and (running or shared):
            return None
        if barrier and self._inner:
            # An earlier call, a chat, has paused meanwhile: the barrier waits with it, and what is behind it.
            queue.clear()
            return None
        del queue[0]
        running[ready.tool.id] = ready
        return ready

    # --- One call --------------------------------------------------------------------------------------------

    async def _work(self, ready: Ready) -> None:
        await self._run_in_a_row(ready)
        await absorb_own_cancellation()

    async def _run_in_a_row(self, ready: Ready) -> None:
        """Run a call, and then the next as long as none has waited: a task costs more than most of what is done here.

        What one call sets in its context is not for the next to see. A barrier has a task of its own.
        """
        first, context = ready, copy_context()
        await self._run(ready)
        # As many in a row as may run at once: then the loop has its turn.
        for _ in range(1, self._plan.settings.concurrency):
            if self._unwaited is not first or not ready.tool.resolved or not _same(context, copy_context()):
                return
            following = self._take(shared=True)
            if following is None:
                return
            ready = following
            await self._run(ready)

    async def _run(self, ready: Ready) -> None:
        tool = ready.tool
        error: BaseException | None = None
        self._begun.add(tool.id)
        try:
            await self._start_and_run(ready)
        except anyio.get_cancelled_exc_class():
            self._interrupted = True
            raise
        except BaseException as caught:  # noqa: BLE001 - the run raises it, as it is
            error = caught
        finally:
            self._begun.discard(tool.id)
            if error is None and not isinstance(tool.status, Running):
                del self._running[tool.id]
                self._mailbox.ring()
            else:
                self._mailbox.put(_Ended(tool, error))

    async def _start_and_run(self, ready: Ready) -> None:
        tool = ready.tool
        if self._closed or is_cancelled():
            return
        if tool.revision != ready.revision:
            # A decision from elsewhere was merged since the triage.
            return
        inner = tool.inner
        if not await self._start(ready):
            return
        if self._heard:
            self._mailbox.put(ToolStarted(tool))
        context = ToolContext(
            tool.id,
            tool.status.attempt if isinstance(tool.status, Running) else 1,
            tool.idempotency_key,
            self._checkpoint.messages.contents,
            self._checkpoint.id,
            self._reporter(tool),
            inner,
        )
        lost = model_texts.CANCELLED_BEFORE_START
        try:
            if self._checkpoint.conversation is not None:
                # That it starts was written down meanwhile. Where nothing is written, nothing has been waited for.
                await checkpoint_if_cancelled()
            lost = model_texts.CANCELLED_WHILE_RUNNING
            error = await self._observed(ready, context)
        except BaseException:
            # Cancelled in the middle. An idempotent call stays `Running`, to be run again.
            if not ready.definition.idempotent and isinstance(tool.status, Running):
                tool.lost(lost)
                await self._checkpoint.write_tool(tool)
            raise
        await self._checkpoint.write_tool(tool)
        if tool.resolved and self._heard:
            self._mailbox.put(ToolResult(tool))
        if error is not None:
            raise error

    async def _start(self, ready: Ready) -> bool:
        """Say, durably, that the body is about to start. Not where somebody has decided otherwise meanwhile."""
        tool, before = ready.tool, ready.tool.status
        if isinstance(before, Running):
            tool.again(self._plan.settings.now())
        else:
            tool.start(self._plan.settings.now())
        try:
            await self._checkpoint.write_tool(tool)
        except ConflictError:
            if not decided(tool) or (tool.status == before and tool.id in self._checkpoint.refused_calls):
                raise
            self._checkpoint.refused_calls.add(tool.id)
            return False
        return True

    async def _observed(self, ready: Ready, context: ToolContext) -> Exception | None:
        """Run the body, and let those who watch see it."""
        if self._watch is None:
            return await self._body(ready, context)
        return await self._watch.tool(ready, context.attempt, partial(self._body, ready, context))

    async def _body(self, ready: Ready, context: ToolContext) -> Exception | None:
        """Run the body under its timeout, and move the tool on by what comes of it. Returns what the run must raise."""
        tool, definition = ready.tool, ready.definition
        timeout = definition.timeout if definition.timeout is not None else self._plan.settings.tool_timeout
        value: object = None
        try:
            if timeout is None:
                value = await self._invoke(ready, context)
            else:
                with anyio.move_on_after(timeout) as scope:
                    value = await self._invoke(ready, context)
                if scope.cancelled_caught:
                    ready.raised = TimeoutError()
                    _fail(tool, model_texts.timed_out(tool.name, timeout))
                    return None
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a tool raises is told to the model
            ready.raised = error
            _fail(tool, model_texts.raised(error))
            return None
        if isinstance(value, InnerHalt):
            tool.suspend(value.messages)
            return value.prefixed(tool.id)
        if isinstance(value, InnerPause):
            # The scope that owns the tool has this pause in its type; through `run()` it came as an object.
            self._suspend(tool, value)  # pyright: ignore[reportUnknownArgumentType]
            return None
        self._complete(tool, definition, value)
        return None

    async def _invoke(self, ready: Ready, context: ToolContext) -> object:
        run = partial(ready.definition.run, ready.arguments, context)
        try:
            value = await call_in_thread(run) if ready.definition.blocking else run()
            return await value if inspect.isawaitable(value) else value
        except anyio.get_cancelled_exc_class() as error:
            if is_cancelled():
                raise
            raise RuntimeError(model_texts.CANCELLED_FROM_INSIDE) from error

    def _complete(self, tool: Tool, definition: ToolDefinition, value: object) -> None:
        if tool.resolved:
            # Somebody has said meanwhile what became of it.
            return
        try:
            result, files = definition.result(value)
            tool.complete(result, files=files)
        except Exception as error:  # noqa: BLE001 - what a tool returns may be anything, too
            tool.fail(model_texts.invalid_result(tool.name, error))

    def _suspend(self, tool: Tool, paused: InnerPause[PauseT]) -> None:
        tool.suspend(paused.messages)
        self._inner[tool.id] = paused.pause.prefixed(tool.id)

    def _reporter(self, tool: Tool) -> Callable[[object], None]:
        token, home = self._home

        def report(value: object) -> None:
            if threading.get_ident() == home:
                self._hear(tool, value)
            else:
                wake(token, partial(self._hear, tool, value))

        return report

    def _hear(self, tool: Tool, value: object) -> None:
        if isinstance(value, InnerUsage):
            self.usage += value.usage
        elif isinstance(tool.status, Running):
            # What an abandoned thread says after that is as late as its result.
            self._mailbox.put(_told(tool, value))


def _same(one: Context, other: Context) -> bool:
    """Whether a context has what it had, and nothing more. Objects that are equal may still be two."""
    return len(one) == len(other) and all(map(is_, one.values(), other.values()))


def _fail(tool: Tool, error: str) -> None:
    if not tool.resolved:
        tool.fail(error)


def _told(tool: Tool, value: object) -> ProgressEvent:
    if not isinstance(value, InnerEvent):
        return ToolProgress(tool, value)
    inner = value.event
    return (
        NestedEvent((tool.id, *inner.path), inner.event)
        if isinstance(inner, NestedEvent)
        else NestedEvent((tool.id,), inner)
    )
