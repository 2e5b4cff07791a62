"""The loop: one engine for `complete()` and `stream()`.

A run asks what is unresolved and decides about it (a pass over tools), asks the provider, folds the answer into the
history as a new turn, and asks again, until there is an answer or something must wait. It is one async generator, so
that the consumer sets the pace and there is one layer between the provider's batches and the consumer. What needs
tasks, the tools, runs in a group that the caller owns: nothing here holds a cancel scope or a task group over a yield.
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
    as_structured,
    deltas_of,
)
from chat_core.engine.plan import ChatPlan, Hook
from chat_core.engine.retry import RetryBudget
from chat_core.engine.tasks import Group
from chat_core.engine.tool_pass import ToolsPass
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
_WITHDRAWN = frozenset({"content_filter", "refusal"})
"""How an answer ends that its provider does not stand by. Asking again would get the same."""


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
        heard: bool = True,
        observers: tuple[Observer, ...] = (),
        name: str | None = None,
    ) -> None:
        """Where nobody listens (`heard`), the events of the run are not told, and its generator yields nothing.

        `observers` are those of a chat outside, for a chat that has none of its own, and `name` is what it is called
        there.
        """
        self._plan = plan
        self._checkpoint = Checkpoint(target)
        self._messages = self._checkpoint.messages
        self._options = plan.settings.options if options is None else options.over(plan.settings.options)
        self._streaming = streaming
        self._heard = heard
        self._observers = plan.settings.observers or observers
        self._name = name
        self._watch: RunWatch | None = None
        self._patience = RetryBudget(plan.settings.retry)
        self._steps = 0
        self._corrections = plan.settings.corrections
        self._tools: ToolsPass[PauseT] | None = None
        self._call: ModelCall | None = None
        self._answer: Turn | None = None
        self.last: Done[OutT] | PauseT | None = None
        self.usage = Usage()

    async def events(self, group: TaskGroup | None) -> AsyncGenerator[StreamEvent[OutT, PauseT], None]:
        """Everything that happens, ending in `Done` or `Paused`. The tools run in `group`; `None` will do without any.

        Raises:
            ChatError: with the usage of the whole run.
        """
        prepare, step, leave = self._prepare, self._next, self._leave
        if self._observers:
            watch = self._watch = self._watched()
            prepare, step = partial(watch.step, prepare), partial(watch.step, step)
            leave = partial(watch.step, leave)
        try:
            await prepare()
            with self._messages.lend():
                await self._checkpoint.claim()
                try:
                    self._keep_lease(group)
                    self._answer = self._stored_answer()
                    while self.last is None:
                        batch = await step(group)
                        if self._heard:
                            for event in batch:
                                yield event
                finally:
                    if self._tools is not None or self._call is not None or self._checkpoint.conversation is not None:
                        with CancelScope(shield=True):
                            await leave()
        except BaseException as error:
            if isinstance(error, ChatError):
                error.usage = self.usage
            if self._watch is not None:
                self._watch.end(self.last, self.usage, error)
            raise
        if self._watch is not None:
            self._watch.end(self.last, self.usage, None)

    def _watched(self) -> RunWatch:
        from chat_core.engine.observation import RunWatch  # noqa: PLC0415 - most chats have no observers
        from chat_core.observer import RunRecord  # noqa: PLC0415

        record = RunRecord(
            self._messages, self._plan.model.metadata, self._streaming, self._checkpoint.id, self._name, self._goes_on()
        )
        return RunWatch(self._observers, record, self._plan.settings.now)

    async def _next(self, group: TaskGroup | None) -> Sequence[StreamEvent[OutT, PauseT]]:
        """The next events: of the pass or the call under way, else of whatever is to be done now."""
        if self._tools is not None:
            batch = await self._tools.next()
            return await self._end_pass(self._tools) if batch is None else batch
        if self._call is not None:
            batch = await self._call.next()
            return await self._end_call(self._call) if batch is None else batch
        if self._messages.pending():
            self._tools = ToolsPass(self._plan, self._checkpoint, group, heard=self._heard, watch=self._watch)
            return ()
        if self._answer is not None:
            return await self._end(self._answer)
        self._call = self._ask()
        return ()

    async def _leave(self) -> None:
        """Stop the tools that still run, close the connection, and give the lease back: in this order."""
        try:
            if self._tools is not None:
                await finish(self._tools.aclose)
                self.usage += self._tools.usage
            if self._call is not None:
                await self._call.aclose()
                self.usage += self._call.usage
        finally:
            await self._checkpoint.release()

    # --- A pass over tools ----------------------------------------------------------------------------------

    async def _end_pass(self, tools: ToolsPass[PauseT]) -> Sequence[PauseT]:
        """The pause; or nothing, where there is none, or where somebody has decided a call of it while others ran."""
        self._tools = None
        self._answer = None
        self.usage += tools.usage
        pause = tools.pause
        if pause is None or not all(self._waits(wait) for wait in pause.waiting):
            return ()
        self.last = pause.with_usage(self.usage)
        return (self.last,)

    def _waits(self, wait: Wait) -> bool:
        """Whether a call still waits for what it was found to wait for."""
        try:
            return isinstance(self._messages.tool(*wait.path).status, (Pending, Interrupted))
        except KeyError:
            # The chat that it is in was given up.
            return False

    # --- The provider's turn ------------------------------------------------------------------------------

    def _ask(self) -> ModelCall:
        limit = self._plan.settings.max_steps
        if self._steps >= limit:
            msg = f"no answer after {limit} provider calls; continue, or raise the limit by with_max_steps(...)"
            raise MaxStepsExceededError(msg)
        self._steps += 1
        plan = self._plan
        question = ModelRequest(self._messages, plan.declarations, self._options, plan.output.schema)
        call = self._call_of(question)
        return call if self._watch is None else self._watch.call(call, question, self._patience)

    def _call_of(self, question: ModelRequest) -> ModelCall:
        plan = self._plan
        if not self._streaming:
            return CompleteCall(plan.model, question, self._patience)
        if not isinstance(plan.model, StreamProvider):
            msg = f"stream() needs a model that streams; {type(plan.model).__name__} does not"
            raise UsageError(msg)
        return StreamCall(plan.model, question, self._patience)

    async def _end_call(self, call: ModelCall) -> Sequence[StreamEvent[OutT, PauseT]]:
        """Fold the turn into the history. Where its length was cut, or it was withdrawn, none of its calls runs."""
        self._call = None
        self.usage += call.usage
        turn = call.turn
        assert turn is not None  # noqa: S101 - the call has ended well
        tools = turn.tools
        withdrawn = turn.finish_reason in _WITHDRAWN
        if withdrawn or turn.finish_reason == "length":
            for tool in tools:
                if not tool.resolved:
                    tool.fail(model_texts.ANSWER_WITHDRAWN if withdrawn else model_texts.ANSWER_TRUNCATED)
        await self._checkpoint.append_turn("model", turn)
        if _answers(turn):
            self._answer = turn
        if not self._heard:
            return ()
        events: list[ToolCall | ToolResult | StepFinished] = [ToolCall(tool) for tool in tools]
        events += [ToolResult(tool) for tool in tools if tool.resolved]
        events.append(StepFinished(self._steps, call.usage))
        return events

    async def _end(self, turn: Turn) -> Sequence[ProgressEvent | Done[OutT]]:
        """The output; or nothing, where the model is to correct it."""
        self._answer = None
        try:
            output = self._plan.output.decode(ChatResponse(turn, self.usage))
        except (InvalidResponseError, RefusalError) as error:
            error.partial = turn
            if isinstance(error, RefusalError) or self._corrections <= 0:
                raise
            self._corrections -= 1
            await self._checkpoint.append_turn("user", Turn([Text(model_texts.correction(error))], by="engine"))
            return ()
        await self._call_hooks(self._plan.settings.after)
        self.last = Done(output)
        return (*self._told_again(turn), self.last)

    def _told_again(self, turn: Turn) -> Sequence[ProgressEvent]:
        """The deltas of an answer that no call of this run has told: it was stored."""
        if self._steps or not self._streaming:
            return ()
        if self._plan.output.schema is None:
            return deltas_of(turn)
        return as_structured(deltas_of(turn), [])

    def _stored_answer(self) -> Turn | None:
        """The answer that a stored conversation ends in: its run ended before it could say so. Nobody asks again."""
        last = self._messages.last
        if self._checkpoint.conversation is None or last is None or last.role != "model":
            return None
        turn = last.turns[-1]
        return turn if _answers(turn) else None

    # --- Beside the loop ------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Call the hooks for the beginning, but not where a run goes on that had one.

        Raises:
            ConversationBusyError: before any of them is called.
        """
        hooks = self._plan.settings.before
        if hooks and not self._goes_on():
            with self._messages.lend():
                pass
            await self._call_hooks(hooks)

    def _goes_on(self) -> bool:
        last = self._messages.last
        if last is not None and last.role == "model" and last.turns[-1].tools:
            return True
        return self._stored_answer() is not None or bool(self._messages.pending())

    async def _call_hooks(self, hooks: tuple[Hook, ...]) -> None:
        for hook in hooks:
            result = hook(self._messages)
            if inspect.isawaitable(result):
                await result

    def _keep_lease(self, group: TaskGroup | None) -> None:
        conversation = self._checkpoint.conversation
        if group is not None and conversation is not None and conversation.renew_every is not None:
            group.start_soon(_renew, conversation, conversation.renew_every)


def _answers(turn: Turn) -> bool:
    """Whether the run ends in this turn."""
    return turn.finish_reason in _WITHDRAWN or (not turn.tools and turn.finish_reason != "pause")


async def _drain(run: Run[OutT, PauseT], group: TaskGroup | None) -> None:
    async with aclosing(run.events(group)) as events:
        async for _ in events:
            pass


async def _renew(conversation: Conversation, seconds: float) -> None:
    while True:
        await anyio.sleep(seconds)
        try:
            await conversation.renew()
        except ChatError:
            # It is lost, or given back. The next write says so, where the run can end in order.
            return
        except Exception:  # noqa: BLE001 - a store may raise anything
            # It is tried again; a lease that runs out meanwhile is told by the next write.
            _LOG.warning("the lease of conversation %r could not be renewed", conversation.id, exc_info=True)


async def complete(
    plan: ChatPlan[OutT, PauseT], target: Messages | Conversation, options: ChatOptions | None
) -> OutT | PauseT:
    """Run to the end, and return the output or the pause.

    Raises:
        ChatError: the run failed; the history is valid and holds everything that was done.
    """
    run = Run(plan, target, options, streaming=False, heard=False)
    if plan.tools.owners or not isinstance(target, Messages):
        async with Group() as group:
            await _drain(run, group)
    else:
        # Nothing of such a run needs a task, and a group is a twentieth of what a call costs.
        await _drain(run, None)
    last = run.last
    assert last is not None  # noqa: S101 - a run that raises nothing ends in one of the two
    return last.response if isinstance(last, Done) else last
