"""Tool calls and policy decisions without a model: `chat.call()`, `chat.resolve_calls()` and `chat.decide()`.

A direct call is stored in the history as a turn with the role `model` and `by="application"`. The call is then
processed like a call from a model: a tool pass validates the arguments, asks the policy, stores `Running` before the
tool function starts, and pauses the run if the call must wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, final

from typing_extensions import TypeVar

from chat_core.arguments import argument_error
from chat_core.engine.complete import run_to_end
from chat_core.engine.plan import ChatPlan
from chat_core.engine.run import Run
from chat_core.engine.tasks import RunTaskGroup
from chat_core.errors import InvalidResponseError, PendingToolsError, RefusalError, UsageError
from chat_core.events import Done
from chat_core.messages import APPLICATION, FunctionCall, Tool, Turn
from chat_core.messages.function_call import CallContext
from chat_core.response import ChatResponse, Paused
from chat_core.tools.definition import InvalidArgumentsError, check_arguments

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from chat_core.conversation import Conversation
    from chat_core.events import StreamEvent
    from chat_core.messages import Messages
    from chat_core.tools.action import Action
    from chat_core.tools.chat_tools import ChatTools

PauseT = TypeVar("PauseT", bound=Paused)


async def decide(tools: ChatTools[PauseT], call: FunctionCall) -> Action[PauseT]:
    """Return the policy's action for a call, without running the tool or storing anything.

    Args:
        tools: tools of the chat.
        call: the call to decide. Its arguments are validated first.

    Raises:
        UsageError: the chat has no such tool, or the arguments are invalid.
    """
    if not isinstance(call, FunctionCall):
        raise argument_error("call", "a FunctionCall, such as FunctionCall('pay', {'cents': 100})", call)
    _, scope = tools.owners[_require_known_tool(tools, call.name)]
    arguments = _validate_arguments(tools, call)
    if scope.always is not None:
        return scope.always
    return await scope.decide(call.shown(arguments, call.id, call.context or CallContext(())))


async def call_tool(
    plan: ChatPlan[Any, PauseT],
    target: Messages | Conversation,
    call: FunctionCall,
    inject: Mapping[Any, object] | None = None,
    owner: str | None = None,
) -> Tool | PauseT:
    """Run one tool call, and return its finished `Tool` or a pause.

    Args:
        plan: configuration of the chat.
        target: plain messages or a stored conversation.
        call: the call to run. If the conversation has a call with this ID, that call is resumed, not repeated.
        inject: values for injected parameters, by type.
        owner: owner of the conversation. Used only for plain messages.

    Raises:
        UsageError: the chat has no such tool, the arguments are invalid, or the id belongs to another call.
        PendingToolsError: other calls of the conversation are unresolved.
        ChatError: the run failed. The history is valid and contains all completed work.
        Exception: an after-hook of the last stored answer raised this exception. The call is not in the history.
    """
    _require_known_tool(plan.tools, call.name)
    run = _DirectRun(plan, target, call, inject, owner)
    async with RunTaskGroup() as group:
        await run_to_end(run, group)
    last = run.last
    assert last is not None  # noqa: S101 - a run that does not raise sets it
    return cast("Tool", last.response) if isinstance(last, Done) else last


async def resolve_calls(
    plan: ChatPlan[Any, PauseT],
    target: Messages | Conversation,
    inject: Mapping[Any, object] | None = None,
    owner: str | None = None,
) -> PauseT | None:
    """Run the unresolved tool calls of a conversation, and return the pause if calls wait.

    Args:
        plan: configuration of the chat.
        target: plain messages or a stored conversation.
        inject: values for injected parameters, by type.
        owner: owner of the conversation. Used only for plain messages.

    Raises:
        ChatError: the run failed. The history is valid and contains all completed work.
    """
    run = _DirectRun(plan, target, None, inject, owner)
    async with RunTaskGroup() as group:
        await run_to_end(run, group)
    last = run.last
    return None if last is None or isinstance(last, Done) else last


@final
class _DirectRun(Run[Any, PauseT]):
    """A run that executes one tool call, or the unresolved calls of the conversation, and sends no model request."""

    def __init__(
        self,
        plan: ChatPlan[Any, PauseT],
        target: Messages | Conversation,
        call: FunctionCall | None,
        inject: Mapping[Any, object] | None,
        owner: str | None,
    ) -> None:
        name = None if call is None else call.name
        super().__init__(
            plan, target, None, streaming=False, deliver_events=False, inject=inject, owner=owner, tool=name
        )
        self._instructions = ()
        self._call = call
        self._tool_id: str | None = None

    async def _advance(self, group: TaskGroup | None) -> Sequence[StreamEvent[Any, PauseT]]:
        if self._call is not None and self._tool_id is None:
            self._tool_id = await self._add_missing_call(self._call)
        elif self._tool_pass is not None or self._messages.pending():
            return await super()._advance(group)
        else:
            self.last = Done(None if self._tool_id is None else self._messages.tool(self._tool_id))
        return ()

    async def _call_before_hooks(self) -> None:
        """Do nothing: before-hooks are not called, because this run sends no model request."""

    async def _read_input(self) -> None:
        """Do nothing, because a direct call uses neither client tools nor the memory."""

    async def _take_answer(self) -> Turn | None:
        """Return the stored final turn. Unlike other runs, a direct call does not append posted input."""
        return self._checkpoint.stored_answer()

    async def _add_missing_call(self, call: FunctionCall) -> str:
        """Add the call to the history if it is missing, and return its ID."""
        messages = self._messages
        others = [tool.id for tool in messages.pending() if tool.id != call.id]
        if others:
            msg = (
                f"{len(others)} other tool call(s) of this conversation are unresolved ({', '.join(others)}): "
                "resume or decide them first"
            )
            raise PendingToolsError(msg, others)
        if call.id:
            try:
                tool = messages.tool(call.id)
            except KeyError:
                pass
            else:
                if tool.name != call.name or dict(tool.call.arguments) != dict(call.arguments):
                    msg = f"the id {call.id!r} belongs to a call of {tool.name}() with other arguments: use another id"
                    raise UsageError(msg)
                return tool.id
        _validate_arguments(self._plan.tools, call)
        await self._deliver_earlier_answer()
        tool = Tool(FunctionCall(call.name, call.arguments), id=call.id)
        await self._checkpoint.append_turn("model", Turn([tool], finish_reason="tool_calls", by=APPLICATION))
        return tool.id

    async def _deliver_earlier_answer(self) -> None:
        """Call the after-hooks for the stored answer, unless an earlier run has called them for it.

        This run appends a turn, so the answer is no longer the last turn, and later runs would not call the hooks.
        """
        answer, self._answer = self._answer, None
        if answer is None or answer.delivered is not False or not self._plan.settings.after:
            return
        try:
            output = self._plan.output.decode(ChatResponse(answer, self.usage))
        except (InvalidResponseError, RefusalError):
            # No hook is called for an answer that cannot be decoded.
            return
        await self._call_after_hooks(answer, output)


def _require_known_tool(tools: ChatTools[PauseT], name: str) -> str:
    if not isinstance(name, str) or name not in tools.owners:
        msg = f"this chat has no tool {name!r}: its tools are {', '.join(tools.owners) or 'none'}"
        raise UsageError(msg)
    return name


def _validate_arguments(tools: ChatTools[PauseT], call: FunctionCall) -> Mapping[str, object]:
    definition, _ = tools.owners[call.name]
    if call.problem is not None:
        msg = f"the arguments of {call.name}() are invalid: {call.problem}"
        raise UsageError(msg)
    try:
        return check_arguments(definition, call.arguments)
    except InvalidArgumentsError as error:
        msg = f"the arguments of {call.name}() are invalid: {error}"
        raise UsageError(msg) from error
