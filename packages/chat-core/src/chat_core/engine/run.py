"""The run: the loop behind `complete()` and `stream()`.

Theory of operation
===================

A run takes a conversation from where it stands to an answer or to a pause. `Run.events()` is an async generator, and
the whole run happens in it: the consumer asks for an event, and the run advances until there is one. `complete()` reads
the generator to its end with no events delivered; `stream()` gives it to the application (`stream.py`).

**Claim.** If the target is a `Conversation` of a store, the run takes its lease, which merges what other processes
wrote. A task renews the lease while the run lasts. The messages are lent to the run, so that no second run and no
`push()` can change them. Every later step writes through `checkpoint.py`; on plain `Messages` those writes do nothing.

**Advance.** `_advance()` chooses the next phase from the history alone. That is why a run can resume in any process:

1. Calls are unresolved: begin a tool pass.
2. The last turn is final: decode it and end, or ask for a correction of a structured answer.
3. Otherwise: begin a model call.

A phase is advanced batch by batch until it returns None; then its `_finish_…()` method takes its result.

**Tool pass** (`tool_pass.py`). Its first half is the triage (`triage.py`): it looks at every unresolved call, validates
the arguments, asks the strategy of the scope that owns the tool, and sorts the calls into those that may run, those
that are resolved already (rejected, failed), and those that wait. Nothing has run by then. The second half starts the
calls that may run, in tasks of the run's task group, under the limit of concurrency and behind barriers. Before a body
starts, `Running` is made durable; after it ends, its result is. Tasks leave their events in a mailbox, which the
generator empties, so that no task group and no cancel scope is open across a `yield`. A tool that is a chat
(`subchat.py`) is a run of its own inside the body; its pause suspends the tool.

**Pause.** When all tasks have ended and calls still wait, the run ends with `Paused`. If a wait was decided meanwhile,
the next phase is another tool pass instead.

**Model call** (`model_call.py`). One request with its retries (`retry.py`), complete or streamed. Its turn is appended
to the history, durably, when the response is complete; a failed call leaves the history as it was. The calls of a
truncated or withdrawn answer fail here and do not run.

**Done.** A final turn, such as one without calls, is the answer. It is decoded, the after-hooks are called, and `Done`
is the last event.

**Close.** However the generator ends, running tools are cancelled and recorded, the connection is closed, and the lease
is released, in this order and shielded from cancellation. Every `ChatError` leaves with the usage of the whole run.

Observers (`observation.py`) wrap each step and each body; without observers that module is not imported.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Generic, final

import anyio
from anyio import CancelScope
from typing_extensions import TypeVar

from chat_core import model_texts
from chat_core.concurrency import finish
from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.model_call import (
    CompleteCall,
    ModelCall,
    ModelRequest,
    StreamCall,
    to_structured_deltas,
    turn_deltas,
)
from chat_core.engine.plan import ChatPlan, Hook
from chat_core.engine.retry import RetryBudget
from chat_core.engine.tasks import RunTaskGroup
from chat_core.engine.tool_pass import ToolPass
from chat_core.errors import ChatError, InvalidResponseError, MaxStepsExceededError, RefusalError, UsageError
from chat_core.events import Done, StepFinished, ToolCall, ToolResult
from chat_core.messages import Interrupted, Messages, Pending, Text, Turn
from chat_core.provider import StreamProvider
from chat_core.response import ChatResponse, Paused
from chat_core.usage import Usage

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from chat_core.conversation import Conversation
    from chat_core.engine.observation import RunWatch
    from chat_core.events import ProgressEvent, StreamEvent
    from chat_core.observer import Observer
    from chat_core.options import ChatOptions
    from chat_core.response import Wait

OutT = TypeVar("OutT")
PauseT = TypeVar("PauseT", bound=Paused)

_LOG = logging.getLogger("chat_core")
_WITHDRAWN_REASONS = frozenset({"content_filter", "refusal"})
"""Finish reasons of answers that the provider withdrew. Another request would get the same."""


@final
class Run(Generic[OutT, PauseT]):
    """One run of a chat on one conversation."""

    def __init__(
        self,
        plan: ChatPlan[OutT, PauseT],
        target: Messages | Conversation,
        options: ChatOptions | None,
        *,
        streaming: bool,
        deliver_events: bool = True,
        observers: tuple[Observer, ...] = (),
        name: str | None = None,
    ) -> None:
        """Prepare a run; nothing happens before `events()` is read.

        Args:
            plan: the chat.
            target: the conversation.
            options: options over those of the chat.
            streaming: whether the model streams.
            deliver_events: whether `events()` yields anything.
            observers: observers of the outer chat, for a chat that has none of its own.
            name: the name of the chat as a tool of an outer chat.
        """
        self._plan = plan
        self._checkpoint = Checkpoint(target)
        self._messages = self._checkpoint.messages
        self._options = plan.settings.options if options is None else options.over(plan.settings.options)
        self._streaming = streaming
        self._deliver_events = deliver_events
        self._observers = plan.settings.observers or observers
        self._name = name
        self._watch: RunWatch | None = None
        self._retry_budget = RetryBudget(plan.settings.retry)
        self._steps = 0
        self._corrections_left = plan.settings.corrections
        self._tool_pass: ToolPass[PauseT] | None = None
        self._model_call: ModelCall | None = None
        self._answer: Turn | None = None
        self.last: Done[OutT] | PauseT | None = None
        self.usage = Usage()

    async def events(self, group: TaskGroup | None) -> AsyncGenerator[StreamEvent[OutT, PauseT], None]:
        """Yield every event of the run. The last one is `Done` or `Paused`.

        Tools run in `group`, which may be None if the chat has no tools and the target is not stored.

        Raises:
            ChatError: with the usage of the whole run.
        """
        prepare, step, close = self._call_before_hooks, self._advance, self._close
        if self._observers:
            watch = self._watch = self._create_watch()
            prepare, step = partial(watch.step, prepare), partial(watch.step, step)
            close = partial(watch.step, close)
        try:
            await prepare()
            with self._messages.lend():
                await self._checkpoint.claim()
                try:
                    self._start_lease_renewal(group)
                    self._answer = self._stored_answer()
                    while self.last is None:
                        batch = await step(group)
                        if self._deliver_events:
                            for event in batch:
                                yield event
                finally:
                    if (
                        self._tool_pass is not None
                        or self._model_call is not None
                        or self._checkpoint.conversation is not None
                    ):
                        with CancelScope(shield=True):
                            await close()
        except BaseException as error:
            if isinstance(error, ChatError):
                error.usage = self.usage
            if self._watch is not None:
                self._watch.end(self.last, self.usage, error)
            raise
        if self._watch is not None:
            self._watch.end(self.last, self.usage, None)

    def _create_watch(self) -> RunWatch:
        from chat_core.engine.observation import RunWatch  # noqa: PLC0415 - most chats have no observers
        from chat_core.observer import RunRecord  # noqa: PLC0415

        record = RunRecord(
            self._messages, self._plan.model.metadata, self._streaming, self._checkpoint.id, self._name, self._resumes()
        )
        return RunWatch(self._observers, record, self._plan.settings.now)

    async def _advance(self, group: TaskGroup | None) -> Sequence[StreamEvent[OutT, PauseT]]:
        """Return the next events of the current phase, or begin the next phase."""
        if self._tool_pass is not None:
            batch = await self._tool_pass.next()
            return await self._finish_tool_pass(self._tool_pass) if batch is None else batch
        if self._model_call is not None:
            batch = await self._model_call.next()
            return await self._finish_model_call(self._model_call) if batch is None else batch
        if self._messages.pending():
            self._tool_pass = ToolPass(
                self._plan, self._checkpoint, group, deliver_events=self._deliver_events, watch=self._watch
            )
            return ()
        if self._answer is not None:
            return await self._finish_run(self._answer)
        self._model_call = self._start_model_call()
        return ()

    async def _close(self) -> None:
        """Stop the running tools, close the connection and release the lease, in this order."""
        try:
            if self._tool_pass is not None:
                await finish(self._tool_pass.aclose)
                self.usage += self._tool_pass.usage
            if self._model_call is not None:
                await self._model_call.aclose()
                self.usage += self._model_call.usage
        finally:
            await self._checkpoint.release()

    # --- A pass over tools ----------------------------------------------------------------------------------

    async def _finish_tool_pass(self, tools: ToolPass[PauseT]) -> Sequence[PauseT]:
        """End the run with the pause, if there is one and none of its calls was decided while others ran."""
        self._tool_pass = None
        self._answer = None
        self.usage += tools.usage
        pause = tools.pause
        if pause is None or not all(self._still_waits(wait) for wait in pause.waiting):
            return ()
        self.last = pause.with_usage(self.usage)
        return (self.last,)

    def _still_waits(self, wait: Wait) -> bool:
        """Return whether a call still waits for what the triage found."""
        try:
            return isinstance(self._messages.tool(*wait.path).status, (Pending, Interrupted))
        except KeyError:
            # The inner chat that held the call was cancelled.
            return False

    # --- The provider's turn ------------------------------------------------------------------------------

    def _start_model_call(self) -> ModelCall:
        limit = self._plan.settings.max_steps
        if self._steps >= limit:
            msg = f"no answer after {limit} provider calls; continue, or raise the limit by with_max_steps(...)"
            raise MaxStepsExceededError(msg)
        self._steps += 1
        plan = self._plan
        request = ModelRequest(self._messages, plan.declarations, self._options, plan.output.schema)
        call = self._create_model_call(request)
        return call if self._watch is None else self._watch.call(call, request, self._retry_budget)

    def _create_model_call(self, request: ModelRequest) -> ModelCall:
        plan = self._plan
        if not self._streaming:
            return CompleteCall(plan.model, request, self._retry_budget)
        if not isinstance(plan.model, StreamProvider):
            msg = f"stream() needs a model that streams; {type(plan.model).__name__} does not"
            raise UsageError(msg)
        return StreamCall(plan.model, request, self._retry_budget)

    async def _finish_model_call(self, call: ModelCall) -> Sequence[StreamEvent[OutT, PauseT]]:
        """Append the turn to the history. The calls of a truncated or withdrawn answer fail and do not run."""
        self._model_call = None
        self.usage += call.usage
        turn = call.turn
        assert turn is not None  # noqa: S101 - the call has ended well
        tools = turn.tools
        withdrawn = turn.finish_reason in _WITHDRAWN_REASONS
        if withdrawn or turn.finish_reason == "length":
            for tool in tools:
                if not tool.resolved:
                    tool.fail(model_texts.ANSWER_WITHDRAWN if withdrawn else model_texts.ANSWER_TRUNCATED)
        await self._checkpoint.append_turn("model", turn)
        if _is_final(turn):
            self._answer = turn
        if not self._deliver_events:
            return ()
        events: list[ToolCall | ToolResult | StepFinished] = [ToolCall(tool) for tool in tools]
        events += [ToolResult(tool) for tool in tools if tool.resolved]
        events.append(StepFinished(self._steps, call.usage))
        return events

    async def _finish_run(self, turn: Turn) -> Sequence[ProgressEvent | Done[OutT]]:
        """Decode the answer and end the run, or ask the model to correct it."""
        self._answer = None
        try:
            output = self._plan.output.decode(ChatResponse(turn, self.usage))
        except (InvalidResponseError, RefusalError) as error:
            error.partial = turn
            if isinstance(error, RefusalError) or self._corrections_left <= 0:
                raise
            self._corrections_left -= 1
            await self._checkpoint.append_turn("user", Turn([Text(model_texts.correction(error))], by="engine"))
            return ()
        await self._call_hooks(self._plan.settings.after)
        self.last = Done(output)
        return (*self._replay_stored_answer(turn), self.last)

    def _replay_stored_answer(self, turn: Turn) -> Sequence[ProgressEvent]:
        """Return the deltas of an answer that was stored, and that no call of this run has delivered."""
        if self._steps or not self._streaming:
            return ()
        if self._plan.output.schema is None:
            return turn_deltas(turn)
        return to_structured_deltas(turn_deltas(turn), [])

    def _stored_answer(self) -> Turn | None:
        """Return the answer at the end of a stored conversation whose run ended before it delivered it."""
        last = self._messages.last
        if self._checkpoint.conversation is None or last is None or last.role != "model":
            return None
        turn = last.turns[-1]
        return turn if _is_final(turn) else None

    # --- Hooks and lease ------------------------------------------------------------------------------------

    async def _call_before_hooks(self) -> None:
        """Call the before-hooks, unless this run resumes one that has called them.

        Raises:
            ConversationBusyError: before any of them is called.
        """
        hooks = self._plan.settings.before
        if hooks and not self._resumes():
            with self._messages.lend():
                pass
            await self._call_hooks(hooks)

    def _resumes(self) -> bool:
        last = self._messages.last
        if last is not None and last.role == "model" and last.turns[-1].tools:
            return True
        return self._stored_answer() is not None or bool(self._messages.pending())

    async def _call_hooks(self, hooks: tuple[Hook, ...]) -> None:
        for hook in hooks:
            result = hook(self._messages)
            if inspect.isawaitable(result):
                await result

    def _start_lease_renewal(self, group: TaskGroup | None) -> None:
        conversation = self._checkpoint.conversation
        if group is not None and conversation is not None and conversation.renew_every is not None:
            group.start_soon(_renew_lease, conversation, conversation.renew_every)


def _is_final(turn: Turn) -> bool:
    """Return whether the run ends with this turn."""
    return turn.finish_reason in _WITHDRAWN_REASONS or (not turn.tools and turn.finish_reason != "pause")


async def _drain(run: Run[OutT, PauseT], group: TaskGroup | None) -> None:
    async with aclosing(run.events(group)) as events:
        async for _ in events:
            pass


async def _renew_lease(conversation: Conversation, seconds: float) -> None:
    while True:
        await anyio.sleep(seconds)
        try:
            await conversation.renew()
        except ChatError:
            # The lease is lost or released. The next write raises that, where the run can end in order.
            return
        except Exception:  # noqa: BLE001 - a store may raise anything
            # The next renewal may succeed. If the lease expires first, the next write raises that.
            _LOG.warning("the lease of conversation %r could not be renewed", conversation.id, exc_info=True)


async def complete(
    plan: ChatPlan[OutT, PauseT], target: Messages | Conversation, options: ChatOptions | None
) -> OutT | PauseT:
    """Run to the end, and return the output or the pause.

    Raises:
        ChatError: the run failed; the history is valid and holds everything that was done.
    """
    run = Run(plan, target, options, streaming=False, deliver_events=False)
    if plan.tools.owners or not isinstance(target, Messages):
        async with RunTaskGroup() as group:
            await _drain(run, group)
    else:
        # Nothing of such a run needs a task, and a group is a twentieth of what a call costs.
        await _drain(run, None)
    last = run.last
    assert last is not None  # noqa: S101 - a run that raises nothing ends in one of the two
    return last.response if isinstance(last, Done) else last
