"""The run: the loop that `complete()` and `stream()` execute.

Theory of operation
===================

A run takes a conversation from its current state to a final response or a pause. The whole run happens inside the async
generator `Run.events()`: the consumer requests an event, and the run advances until an event is available. `complete()`
reads the generator to its end with event delivery turned off; `stream()` passes it to the application (`stream.py`).

**Claim.** If the target is a `Conversation` of a store, the run acquires its lease and merges the changes of other
processes. A task renews the lease while the run lasts. The messages are locked by the run, so that no second run and no
`push()` can change them. Every later step writes through `checkpoint.py`; on plain `Messages` those writes do nothing.

**Start.** The values of the chat's factories are created (`values.py`), its instructions are evaluated
(`instructions.py`), and notes from its memory are added to a new message (`recall.py`), before anything is sent.

**Advance.** `_advance()` chooses the next phase from the history alone. That is why a run can resume in any process:

1. Calls are unresolved: begin a tool pass.
2. The last turn is final: decode it and end, or ask for a correction of a structured answer.
3. Otherwise: begin a model call.

Each phase returns batches of events until it returns None. Then its `_finish_…()` method handles its result.

**Tool pass** (`tool_pass.py`). Its first half is the triage (`triage.py`): it reads every unresolved call, validates
the arguments and asks the strategy of the scope that owns the tool. Afterwards, each call may run, is resolved already
(rejected or failed), or waits. No tool has run yet. The second half starts the
calls that may run in tasks of the run's task group, up to the concurrency limit. A sequential call waits for all
earlier calls. Before a tool function starts, `Running` is stored; after it ends, its result is stored. Tasks put their
events into a mailbox, which the generator empties, so that no task group and no cancel scope is open across a `yield`.
A chat used as a tool (`subchat.py`) is a separate run inside the call; its pause suspends the tool.

**Pause.** When all tasks have ended and calls still wait, the run ends with `Paused`. If a wait was decided in the
meantime, the next phase is another tool pass instead.

**Model call** (`model_call.py`). One request with its retries (`retry.py`), complete or streamed. A forced tool choice
is sent until the history has a call that obeys it (`tool_choice.py`). The turn is appended to the history, durably,
when the response is complete; a failed call leaves the history as it was. The calls of a truncated or withdrawn
response fail here and do not run.

**Done.** A final turn, such as a turn without calls, ends the run. It is decoded, the after-hooks are called, the turn
is marked as delivered, and `Done` is the last event. A later run that finds a delivered turn calls no hook.

**Close.** However the generator ends, running tools are cancelled and recorded, the connection is closed, the values
are closed, and the lease is released, in this order and shielded from cancellation. Every raised `ChatError` has the
usage of the whole run.

Observers (`observation.py`) wrap each step and each tool function; without observers that module is not imported.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled
from typing_extensions import TypeVar

from chat_core import model_texts
from chat_core.concurrency import finish
from chat_core.engine.checkpoint import Checkpoint, is_final
from chat_core.engine.interruption import close_model_call
from chat_core.engine.model_call import (
    CompleteCall,
    ModelCall,
    ModelRequest,
    StreamCall,
    replayed_events,
    unknown_reason_error,
)
from chat_core.engine.plan import ChatPlan
from chat_core.engine.posts import apply_posts, take_answer
from chat_core.engine.recall import add_recalled
from chat_core.engine.retry import RetryBudget
from chat_core.engine.tool_choice import relax_tool_choice
from chat_core.engine.tool_pass import ToolPass
from chat_core.engine.triage import calls_decided_before
from chat_core.errors import (
    ChatError,
    ContextLengthError,
    InvalidResponseError,
    MaxStepsExceededError,
    RefusalError,
    UsageError,
)
from chat_core.events import AttemptReset, Done, StepFinished, ToolCall, ToolResult
from chat_core.messages import WITHDRAWN_REASONS, Messages, Text, Tool, Turn
from chat_core.provider import StreamProvider
from chat_core.response import ChatResponse, Delivery, Paused
from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from chat_core.conversation import Conversation
    from chat_core.engine.context_fit import ContextFit
    from chat_core.engine.observation import ObservedRun
    from chat_core.events import Compacted, Compacting, ProgressEvent, StreamEvent
    from chat_core.live_input import LiveInput
    from chat_core.observer import Observer
    from chat_core.options import ChatOptions

OutT = TypeVar("OutT")
PauseT = TypeVar("PauseT", bound=Paused)

_COMPLETE_REASONS = frozenset({"stop", "tool_calls", "pause"})
"""Finish reasons of complete responses. Tool calls run only if their response is complete."""


class Run(Generic[OutT, PauseT]):
    """One run of a chat on one conversation."""

    _has_failed: bool = False

    has_buffered_events: bool = False
    """Whether the next event is part of the same batch as the last one."""

    def __init__(
        self,
        plan: ChatPlan[OutT, PauseT],
        target: Messages | Conversation | Checkpoint,
        options: ChatOptions | None,
        *,
        streaming: bool,
        deliver_events: bool = True,
        observers: tuple[Observer, ...] = (),
        name: str | None = None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
        tool: str | None = None,
        live: LiveInput | None = None,
    ) -> None:
        """Prepare a run. The run starts when `events()` is iterated.

        Args:
            plan: configuration of the chat.
            target: the conversation; for a chat used as a tool, the checkpoint of its conversation.
            options: options of this run, merged over those of the chat.
            streaming: whether to request streamed responses.
            deliver_events: whether `events()` yields events.
            observers: observers of the outer chat, used if this chat has none.
            name: tool name of this chat in an outer chat.
            inject: values for injected parameters, by type.
            owner: owner of the conversation. Used only for plain messages.
            tool: name of the only tool that the run calls, or `None` for a run that may call any tool.
            live: input that may arrive during the run.

        Raises:
            UsageError: a tool needs a value that neither a factory nor `inject` provides.
        """
        self._plan = plan
        self._checkpoint = target if isinstance(target, Checkpoint) else Checkpoint(target, owner)
        self._messages = self._checkpoint.messages
        self._options = plan.settings.options if options is None else options.over(plan.settings.options)
        self._instructions = plan.settings.instructions
        self._inject: Mapping[Any, object] = inject or {}
        self._uses_values = not self._checkpoint.has_values and (plan.tools.uses_values or bool(inject))
        if self._uses_values and not isinstance(target, Checkpoint):
            plan.require_values(self._inject, tool)
        self._streaming = streaming
        self._deliver_events = deliver_events
        self._observers = plan.settings.observers or observers
        self._name = name
        self._live = live
        self._observed_run: ObservedRun | None = None
        self._context_fit: ContextFit | None = None
        self._retry_budget = RetryBudget(plan.settings.retry)
        self._steps = 0
        self._corrections_left = plan.settings.corrections
        self._is_requesting = True
        self._tool_pass: ToolPass[PauseT] | None = None
        self._model_call: ModelCall | None = None
        self._answer: Turn | None = None
        self._decided_before: list[Tool] = []
        self._error: BaseException | None = None
        self.last: Done[OutT] | PauseT | None = None
        self.usage: Usage = NO_USAGE

    async def events(self, group: TaskGroup | None) -> AsyncGenerator[StreamEvent[OutT, PauseT], None]:
        """Execute the run and yield its events. The last event is `Done` or `Paused`.

        Args:
            group: task group for tools and lease renewal. May be None if the chat has no tools and the target is not
                stored.

        Raises:
            ChatError: the run failed. `usage` is the total of the run.
        """
        prepare, step, close = self._call_before_hooks, self._advance, self._close_run
        if self._observers:
            observed_run = self._observed_run = self._create_observed_run()
            prepare, step = partial(observed_run.step, prepare), partial(observed_run.step, step)
            close = partial(observed_run.step, close)
        try:
            await prepare()
            with self._messages.lend():
                await self._checkpoint.claim()
                try:
                    await self._prepare_conversation(group)
                    while self.last is None:
                        batch = await step(group)
                        if self._deliver_events and batch:
                            self.has_buffered_events = len(batch) > 1
                            for event in batch[:-1]:
                                yield event
                            self.has_buffered_events = False
                            yield batch[-1]
                except BaseException as error:
                    self._record_error(error)
                    raise
                finally:
                    await self._close_shielded(close)
        except BaseException as error:
            if isinstance(error, ChatError):
                error.usage = self.usage
            if self._observed_run is not None:
                self._observed_run.end(self.last, self.usage, error)
            raise
        if self._observed_run is not None:
            self._observed_run.end(self.last, self.usage, None)

    @property
    def is_responding(self) -> bool:
        """Whether a request was sent to the model and its response is not complete."""
        return self._model_call is not None

    def _create_observed_run(self) -> ObservedRun:
        from chat_core.engine.observation import ObservedRun  # noqa: PLC0415 - most chats have no observers
        from chat_core.observer import RunRecord  # noqa: PLC0415 - as above

        meta, id = self._plan.model.metadata, self._checkpoint.id
        record = RunRecord(self._messages, meta, self._streaming, id, self._name, self._is_resumption())
        return ObservedRun(self._observers, record, self._plan.settings.now)

    async def _advance(self, group: TaskGroup | None) -> Sequence[StreamEvent[OutT, PauseT]]:
        """Return the next events of the current phase, or start the next phase."""
        if self._model_call is not None:
            return await self._advance_model_call(self._model_call)
        if self._tool_pass is None and (unresolved := self._messages.pending()):
            self._is_requesting = False
            self._tool_pass = ToolPass(
                self._plan,
                self._checkpoint,
                group,
                unresolved,
                deliver_events=self._deliver_events,
                observed_run=self._observed_run,
            )
        if self._tool_pass is not None:
            batch = await self._tool_pass.next()
            return await self._finish_tool_pass(self._tool_pass) if batch is None else batch
        if self._answer is not None:
            return await self._finish_run(self._answer)
        if self._decided_before:
            decided, self._decided_before = self._decided_before, []
            return [ToolResult(tool) for tool in decided]
        self._is_requesting = True
        if await apply_posts(self._checkpoint, self._live):
            await self._read_input()
        events = None if self._plan.settings.context is None else await self._fit_context()
        if events is None:
            self._model_call = self._start_model_call()
        return events or ()

    async def _prepare_conversation(self, group: TaskGroup | None) -> None:
        """Prepare the claimed conversation: lease renewal, values, instructions, posted input and client tools."""
        self._checkpoint.start_renewal(group)
        if self._uses_values or self._instructions:
            await self._open_values_and_instructions(group)
        self._answer = await self._take_answer()
        await self._read_input()
        self._decided_before = calls_decided_before(self._messages) if self._deliver_events else []

    async def _take_answer(self) -> Turn | None:
        return await take_answer(self._checkpoint, self._live, hooks=self._plan.settings.after)

    async def _read_input(self) -> None:
        """Process new input: declare its client tools, and add notes from the memory."""
        self._plan = self._plan.for_messages(self._messages)
        if self._plan.settings.recall is not None:
            await add_recalled(self._plan.settings.recall, self._checkpoint)

    async def _open_values_and_instructions(self, group: TaskGroup | None) -> None:
        from chat_core.engine.instructions import evaluate_instructions  # noqa: PLC0415 - most chats have none

        if self._uses_values:
            await self._checkpoint.open_values(self._plan.tools, self._inject, group)
        self._options = await evaluate_instructions(self._instructions, self._checkpoint.run, self._options)

    def _record_error(self, error: BaseException) -> None:
        self._has_failed = isinstance(error, Exception)
        if self._uses_values:
            self._error = error
        if self._is_requesting:
            self._checkpoint.rest_after(error, self._plan.settings.now)

    async def _close_shielded(self, close: Callable[[], Awaitable[None]]) -> None:
        if (
            self._tool_pass is not None
            or self._model_call is not None
            or self._context_fit is not None
            or self._checkpoint.conversation is not None
            or self._uses_values
        ):
            with CancelScope(shield=True):
                await close()

    async def _close_run(self) -> None:
        """Cancel running tools, close the model connection and the injected values, and release the lease, in order."""
        try:
            if self._tool_pass is not None:
                await finish(self._tool_pass.aclose)
                self.usage += self._tool_pass.usage
            if self._context_fit is not None:
                self._context_fit.aclose()
            if self._model_call is not None:
                call, live = self._model_call, None if self._has_failed else self._live
                self.usage += await close_model_call(call, self._checkpoint, live)
        finally:
            try:
                if self._uses_values:
                    await self._checkpoint.close_values(self._error)
            finally:
                self._error = None
                await self._checkpoint.release()

    # --- Tool pass ------------------------------------------------------------------------------------------

    async def _finish_tool_pass(self, tools: ToolPass[PauseT]) -> Sequence[PauseT]:
        """End the run with a pause if calls are waiting, unless one of them was decided in the meantime."""
        self._tool_pass = None
        self._answer = None
        self.usage += tools.usage
        pause = tools.pause
        if pause is None or tools.is_outdated:
            return ()
        self._checkpoint.looked_at = tools.looked_at
        self.last = pause.with_usage(self.usage)
        return (self.last,)

    async def _fit_context(self) -> Sequence[Compacting | Compacted] | None:
        """Apply the context policy. Return the events of a reduction, or `None` if the request can be sent."""
        fit = self._context_fit
        if fit is None:
            from chat_core.engine.context_fit import ContextFit  # noqa: PLC0415 - most chats have no context policy

            fit = self._context_fit = ContextFit(self._plan, self._checkpoint, self._options)
        try:
            return await fit.next(self._plan, self._steps + 1)
        finally:
            self.usage += fit.report(self._observed_run)

    # --- Model call ---------------------------------------------------------------------------------------

    def _start_model_call(self) -> ModelCall:
        limit = self._plan.settings.max_steps
        if self._steps >= limit:
            msg = f"no response after {limit} model calls: run again, or raise the limit by with_max_steps(...)"
            raise MaxStepsExceededError(msg)
        self._steps += 1
        plan = self._plan
        options = relax_tool_choice(self._options, self._messages)
        max_calls = plan.settings.max_calls
        request = ModelRequest(self._messages, plan.declarations, options, plan.output.schema, max_calls=max_calls)
        call = self._create_model_call(request)
        return call if self._observed_run is None else self._observed_run.call(call, request, self._retry_budget)

    def _create_model_call(self, request: ModelRequest) -> ModelCall:
        plan, model = self._plan, self._plan.wrapped_model
        if not self._streaming:
            return CompleteCall(model, request, self._retry_budget)
        if not isinstance(plan.model, StreamProvider) or not isinstance(model, StreamProvider):
            msg = f"stream() needs a model that streams; {type(plan.model).__name__} does not"
            raise UsageError(msg)
        return StreamCall(model, request, self._retry_budget)

    async def _advance_model_call(self, call: ModelCall) -> Sequence[StreamEvent[OutT, PauseT]]:
        """Return the next events. If the provider refuses a request as too long, let the policy reduce it once."""
        try:
            batch = await call.next()
        except ContextLengthError as error:
            fit, budget = self._context_fit, self._retry_budget
            if fit is None or (budget.delivered and not budget.after_delivery) or not fit.refuse(error):
                raise
            self._model_call = None
            self._steps -= 1
            self.usage += call.usage
            await self._checkpoint.record_failed_usage(call.usage, call.failed_requests)
            return (AttemptReset(error.attempts + 1, str(error)),) if budget.delivered else ()
        if batch is None and self._live is not None:
            # After an interruption, only the delivered part of the response is stored.
            await checkpoint_if_cancelled()
        return await self._finish_model_call(call) if batch is None else batch

    async def _finish_model_call(self, call: ModelCall) -> Sequence[StreamEvent[OutT, PauseT]]:
        """Append the turn to the history and return its events. Calls of truncated responses fail.

        Raises:
            InvalidResponseError: a response with tool calls has an unknown finish reason. No turn is appended.
        """
        self._model_call = None
        self.usage += call.usage
        turn = call.turn
        assert turn is not None  # noqa: S101 - the call has succeeded
        tools = turn.tools
        withdrawn = turn.finish_reason in WITHDRAWN_REASONS
        if withdrawn or turn.finish_reason == "length":
            for tool in tools:
                if not tool.resolved:
                    tool.fail(model_texts.ANSWER_WITHDRAWN if withdrawn else model_texts.ANSWER_TRUNCATED)
        elif tools and turn.finish_reason not in _COMPLETE_REASONS:
            await self._checkpoint.record_failed_usage(call.usage, call.failed_requests + 1)
            raise unknown_reason_error(turn)
        if is_final(turn):
            self._answer = turn
            if self._plan.settings.after:
                self._checkpoint.mark_undelivered(turn)
        turn.view_offset = self._messages.view().offset
        await self._checkpoint.append_turn("model", turn)
        if not self._deliver_events:
            return ()
        events: list[ToolCall | ToolResult | StepFinished] = [ToolCall(tool) for tool in tools]
        events += [ToolResult(tool) for tool in tools if tool.resolved]
        events.append(StepFinished(self._steps, call.usage))
        return events

    async def _finish_run(self, turn: Turn) -> Sequence[ProgressEvent | Done[OutT]]:
        """Decode the final turn and end the run, or request a correction from the model."""
        self._answer, self._is_requesting = None, False
        try:
            output = self._plan.output.decode(ChatResponse(turn, self.usage))
        except (InvalidResponseError, RefusalError) as error:
            error.partial = turn
            if isinstance(error, RefusalError) or self._corrections_left <= 0:
                # Another run would fail in the same way, so no worker should start a run to call the hooks.
                self._checkpoint.looked_at = self._plan.settings.now()
                raise
            self._corrections_left -= 1
            await self._checkpoint.append_turn("user", Turn([Text(model_texts.correction(error))], by="engine"))
            return ()
        await self._call_after_hooks(turn, output)
        self.last = Done(output)
        # The turn was stored by an earlier run, so no model call of this run has yielded its deltas.
        is_replayed = self._streaming and not self._steps
        return (*(replayed_events(turn, self._plan.output.schema) if is_replayed else ()), self.last)

    # --- Hooks ----------------------------------------------------------------------------------------------

    async def _call_before_hooks(self) -> None:
        """Call the before-hooks, unless this run resumes an earlier run that called them.

        Raises:
            ConversationBusyError: the messages are in use by another run. Raised before any hook is called.
        """
        hooks = self._plan.settings.before
        if hooks and not self._is_resumption():
            with self._messages.lend():
                pass
            for hook in hooks:
                await _await_result(hook(self._messages))

    def _is_resumption(self) -> bool:
        role, turn = self._messages.last_turn or (None, None)
        has_calls = role == "model" and turn is not None and bool(turn.tools)
        return has_calls or self._checkpoint.stored_answer() is not None or bool(self._messages.pending())

    async def _call_after_hooks(self, turn: Turn, output: OutT) -> None:
        """Call the after-hooks with the final response, unless an earlier run has called them for this turn."""
        hooks = self._plan.settings.after
        if not hooks and turn.delivered is False:
            # A chat with other settings left these hooks to call. Another run of this chat cannot call them either.
            self._checkpoint.looked_at = self._plan.settings.now()
        if hooks and not turn.delivered:
            delivery = Delivery(self._checkpoint.answer_key(turn), output, self.usage)
            for hook in hooks:
                await _await_result(hook(self._messages, delivery))
            await self._checkpoint.mark_delivered(turn)


async def _await_result(result: Awaitable[None] | None) -> None:
    if inspect.isawaitable(result):
        await result
