"""The triage of tool calls, which decides about all unresolved calls before any of their tools runs.

Each status change is stored before the next call is considered.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Generic, cast, final

from typing_extensions import TypeVar

from chat_core import model_texts
from chat_core.clock import add
from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.subchat_report import prefix_error
from chat_core.engine.triage_result import ReadyCall, TriageResult, join_pauses, missing_tool
from chat_core.errors import ConflictError, InterruptedToolsError, PendingToolsError
from chat_core.messages import (
    Approved,
    FunctionCall,
    Interrupted,
    Messages,
    Pending,
    Rejected,
    Running,
    Suspended,
    Tool,
)
from chat_core.messages.function_call import CallContext
from chat_core.response import Paused, Wait
from chat_core.tools.action import Action, Defer, Execute, Reject, RequireApproval, Schedule
from chat_core.tools.chat_tools import ChatTools, SubchatDefinition
from chat_core.tools.definition import InvalidArgumentsError, ToolDefinition, ToolScope, check_arguments

PauseT = TypeVar("PauseT", bound=Paused)


class _InvalidCallError(Exception):
    """Error for a call that cannot run because its arguments are invalid. The model receives the message."""


class _StrategyError(Exception):
    """Error for an exception that a strategy raised for a waiting or decided call. `__cause__` is the exception."""


class _StaleToolError(Exception):
    """Error for a call that another process decided while its triage was in progress."""


@final
class Triage(Generic[PauseT]):
    """A triage, which decides about tool calls by their status, their schema and the strategy of their scope.

    Args:
        tools: the tools of the chat.
        checkpoint: messages of the run, and the stored conversation that receives their changes.
        looks_inside: whether to examine the calls of a suspended inner chat before the chat is resumed. If all of them
            wait, the chat stays suspended. If False, the chat is always resumed.
    """

    def __init__(self, tools: ChatTools[PauseT], checkpoint: Checkpoint, *, looks_inside: bool = True) -> None:
        self._tools = tools
        self._checkpoint = checkpoint
        self._result: TriageResult[PauseT] = TriageResult()
        self._held: list[Tool] = []
        self._interrupted: list[Tool] = []
        self._undecided_inside: dict[str, Exception] = {}
        self._looks_inside = looks_inside
        self._context: CallContext | None = None

    async def decide_all(self, tools: list[Tool]) -> TriageResult[PauseT]:
        """Decide about every unresolved call, and return the result. Errors are stored in the result, not raised.

        The error is `InterruptedToolsError` if a crash interrupted calls and the chat has no rule for them. It is
        `PendingToolsError` if the strategy would execute a call that waits for an approver or a time. Any error that a
        write of the conversation raises is stored, too.
        """
        try:
            for tool in tools:
                await self._decide_durably(tool)
            self._raise_if_undecided()
        except Exception as error:  # noqa: BLE001 - the pass raises it
            self._result.error = error
        return self._result

    async def _decide_durably(self, tool: Tool) -> None:
        """Triage a call and store the result. Repeat the triage if another process decided the call."""
        had_conflict = False
        while not tool.resolved:
            before = tool.revision
            try:
                await self._triage_call(tool)
                if tool.revision == before:
                    return
                await self._checkpoint.write_tool(tool)
            except _StaleToolError:
                continue
            except ConflictError:
                if had_conflict or not is_decided(tool):
                    raise
                had_conflict = True
                self._remove_from_result(tool)
                continue
            break
        if tool.resolved:
            self._result.resolved.append(tool)

    def _remove_from_result(self, tool: Tool) -> None:
        self._result.ready = [ready for ready in self._result.ready if ready.tool is not tool]
        self._result.pauses.pop(tool.id, None)
        self._result.blocked.pop(tool.id, None)
        self._undecided_inside.pop(tool.id, None)
        self._interrupted = [other for other in self._interrupted if other is not tool]

    def _raise_if_undecided(self) -> None:
        # Another process may have decided a call while later calls were triaged. The next pass examines it.
        if ids := [tool.id for tool in self._interrupted if isinstance(tool.status, Interrupted)]:
            msg = (
                f"{len(ids)} call(s) were interrupted and may have taken effect ({', '.join(ids)}): call "
                "complete(result), retry() or fail(reason) on each, or build the chat with_interrupted(...)"
            )
            raise InterruptedToolsError(msg, ids)
        if ids := [tool.id for tool in self._held if isinstance(tool.status, Pending)]:
            msg = (
                f"{len(ids)} call(s) wait for an approver or a time ({', '.join(ids)}), but the policy of this chat "
                "does not let calls wait: approve or reject them, or call messages.cancel_pending(reason)"
            )
            raise PendingToolsError(msg, ids)
        for error in self._undecided_inside.values():
            raise error

    async def _triage_call(self, tool: Tool) -> None:
        status, owner = tool.status, self._tools.owners.get(tool.name)
        if owner is None or not isinstance(status, (Pending, Approved)):
            await self._triage_other(tool, owner)
            return
        definition, scope = owner
        try:
            if isinstance(status, Pending):
                await self._triage_pending(tool, status, definition, scope)
            else:
                await self._triage_approved(tool, definition, scope)
        except (_InvalidCallError, InvalidArgumentsError) as error:
            tool.fail(str(error))
        except _StrategyError as error:
            self._result.block(tool, error.__cause__ or error)

    # --- By status -----------------------------------------------------------------------------------------

    async def _triage_other(self, tool: Tool, owner: tuple[ToolDefinition, ToolScope[PauseT]] | None) -> None:
        """Triage a call that has started, or whose tool is missing."""
        if _is_resumable(tool) and tool.inner is not None:
            # A process died, or a write failed. The conversation inside shows everything that happened.
            tool.suspend(tool.inner)
        status, definition = tool.status, None if owner is None else owner[0]
        if isinstance(status, (Running, Interrupted)):
            self._triage_interrupted(tool, owner)
        elif isinstance(status, Suspended) and isinstance(definition, SubchatDefinition):
            await self._triage_suspended(tool, status.inner, definition, definition.tools_for(status.inner))
        else:
            self._triage_without_tool(tool)

    def _triage_without_tool(self, tool: Tool) -> None:
        """Fail a call whose tool is missing, but block a call that waits or was decided.

        The missing tool of a blocked call may be deployed or renamed later.
        """
        status = tool.status
        if isinstance(status, Pending) and status.kind == "approval" and self._end_expired_wait(tool, status):
            return
        if _waits_or_was_decided(tool):
            self._result.block(tool, missing_tool(tool.name))
        else:
            tool.fail(model_texts.unknown_tool(tool.name, self._tools.owners))

    async def _triage_suspended(
        self, tool: Tool, inner: Messages, definition: ToolDefinition, tools_inside: ChatTools[Paused]
    ) -> None:
        """Resume a suspended inner chat. If all its calls must still wait, keep it suspended and report its pause.

        Args:
            tool: the tool call that runs the inner chat.
            inner: conversation of the inner chat.
            definition: definition of the inner chat as a tool.
            tools_inside: tools of the inner chat.
        """
        if self._looks_inside and _appears_to_only_wait(tools_inside, inner):
            waiting = inner.pending()
            # The scope of the chat has the pauses of the chats inside it.
            tools = cast("ChatTools[PauseT]", tools_inside)
            inside = await self._checkpoint.inner(tool, tools, self._tools.grant_rule)
            result = await Triage(tools, inside).decide_all(waiting)
            if isinstance(result.error, (InterruptedToolsError, PendingToolsError)):
                self._undecided_inside[tool.id] = prefix_error(result.error, tool.id)
                return
            if result.error is not None:
                raise result.error
            resolved = [*[((), item) for item in result.resolved], *result.resolved_inside]
            self._result.resolved_inside += [((tool.id, *path), item) for path, item in resolved]
            pause = join_pauses(result.pauses, [item.id for item in waiting])
            # A chat whose strategy raised is started, to report the calls that its strategy raised on.
            if pause is not None and not result.blocked and not result.startable(waiting):
                self._result.pauses[tool.id] = pause.prefixed(tool.id)
                return
        self._result.ready.append(ReadyCall(tool, definition, tool.effective_arguments))

    def _triage_interrupted(self, tool: Tool, owner: tuple[ToolDefinition, ToolScope[PauseT]] | None) -> None:
        if isinstance(tool.status, Running):
            if owner is not None and owner[0].idempotent:
                with suppress(_InvalidCallError):
                    self._result.ready.append(ReadyCall(tool, owner[0], self._validate_arguments(tool, owner[0])))
                    return
            tool.lost(model_texts.PROCESS_ENDED)
        status, action = tool.status, self._tools.interrupted
        assert isinstance(status, Interrupted)  # noqa: S101 - see above
        if action is None:
            self._interrupted.append(tool)
        elif isinstance(action, Reject):
            tool.fail(model_texts.interrupted(action.reason))
        else:
            self._wait_for_outcome(tool, action)

    def _wait_for_outcome(self, tool: Tool, action: Action[PauseT]) -> None:
        """Make an interrupted call wait until its outcome is recorded. Fail the call after the deadline."""
        tool.await_outcome(self._expires_at(action), _scheduled_at(action))
        status = tool.status
        assert isinstance(status, Interrupted)  # noqa: S101 - awaiting the outcome does not change the type
        deadline = status.at or status.expires_at
        if deadline is not None and self._tools.now() >= deadline:
            tool.fail(model_texts.interrupted(model_texts.no_outcome(deadline)))
            return
        self._add_pause(tool, action, tool.effective_arguments)

    async def _triage_approved(self, tool: Tool, definition: ToolDefinition, scope: ToolScope[PauseT]) -> None:
        if self._checkpoint.has_lost_grant(tool, self._tools.now):
            tool.reconsider()
            await self._triage_pending(tool, Pending(), definition, scope)
            return
        if tool.edited is None:
            self._result.ready.append(ReadyCall(tool, definition, self._validate_arguments(tool, definition)))
            return
        try:
            arguments = check_arguments(definition, tool.edited)
        except InvalidArgumentsError as error:
            await self._handle_invalid_edit(tool, definition, scope, str(error))
            return
        action = scope.always or await self._ask_scope(tool, scope, arguments)
        if isinstance(action, Reject):
            tool.refuse(action.reason)
        elif _is_deferred(action) or _scheduled_at(action) is not None:
            tool.reconsider()
            self._begin_wait(tool, definition, action, arguments)
        else:
            # The call is approved, so RequireApproval is satisfied.
            self._result.ready.append(ReadyCall(tool, definition, arguments))

    async def _handle_invalid_edit(
        self, tool: Tool, definition: ToolDefinition, scope: ToolScope[PauseT], error: str
    ) -> None:
        """Make a call with invalid edited arguments wait for another approval, if the chat can wait.

        Otherwise, reject or fail the call. If the policy would execute a call that still waits, the call is not changed
        and the run raises `PendingToolsError`.

        Args:
            tool: the call with edited arguments.
            definition: definition of the tool.
            scope: scope that owns the tool.
            error: validation error of the edited arguments.
        """
        arguments = check_arguments(definition, tool.call.arguments)
        action = scope.always or await self._ask_scope(tool, scope, arguments)
        if isinstance(action, Reject):
            tool.refuse(action.reason)
        elif isinstance(action, Execute) and isinstance(tool.status, Pending):
            self._held.append(tool)
        elif isinstance(action, Execute):
            raise _InvalidCallError(model_texts.invalid_edit(error))
        else:
            if isinstance(tool.status, Approved):
                tool.reconsider(error)
            self._add_pause(tool, action, tool.effective_arguments)

    async def _triage_pending(
        self, tool: Tool, status: Pending, definition: ToolDefinition, scope: ToolScope[PauseT]
    ) -> None:
        if status.expires_at is not None and self._end_expired_wait(tool, status):
            return
        if status.error is not None and tool.edited is not None:
            await self._handle_invalid_edit(tool, definition, scope, status.error)
            return
        arguments = self._validate_arguments(tool, definition)
        if status.kind == "schedule" and status.at is not None and self._tools.now() >= status.at:
            self._result.ready.append(ReadyCall(tool, definition, arguments))
            return
        action = scope.always or await self._ask_scope(tool, scope, arguments)
        if isinstance(action, Execute):
            if status.kind is None:
                self._result.ready.append(ReadyCall(tool, definition, arguments))
            else:
                self._held.append(tool)
        elif isinstance(action, Reject):
            tool.refuse(action.reason)
        else:
            self._begin_wait(tool, definition, action, arguments)

    # --- Waiting ---------------------------------------------------------------------------------------------

    def _end_expired_wait(self, tool: Tool, status: Pending) -> bool:
        """End a wait for an approval or a result that has expired, and return whether the call was resolved."""
        if status.expires_at is None or self._tools.now() < status.expires_at:
            return False
        if status.kind == "approval":
            tool.refuse(model_texts.not_approved(status.expires_at), "expiry")
        elif status.kind == "result":
            tool.fail(model_texts.no_result(status.expires_at))
        return tool.resolved

    def _begin_wait(
        self, tool: Tool, definition: ToolDefinition, action: Action[PauseT], arguments: Mapping[str, object]
    ) -> None:
        rule_error: Exception | None = None
        try:
            if self._approve_under_grant(tool, action, arguments):
                self._result.ready.append(ReadyCall(tool, definition, arguments))
                return
        except Exception as error:  # noqa: BLE001 - a grant rule may raise anything; the pass reports it
            rule_error = error
        status = tool.status
        if isinstance(status, Pending) and status.kind is None:
            if (at := _scheduled_at(action)) is not None:
                tool.schedule(at, canonical=arguments)
                if self._tools.now() >= at:
                    self._result.ready.append(ReadyCall(tool, definition, arguments))
                    return
            elif _is_deferred(action):
                tool.await_result(self._expires_at(action), canonical=arguments)
            else:
                tool.await_approval(self._expires_at(action), canonical=arguments, of=_required_approver(action))
        if rule_error is not None:
            self._result.block(tool, rule_error)
        self._add_pause(tool, action, arguments)

    def _approve_under_grant(self, tool: Tool, action: Action[Paused], arguments: Mapping[str, object]) -> bool:
        """Approve a call that needs an approval if a grant covers the call. Return whether the call was approved."""
        status, now = tool.status, self._tools.now()
        if (
            not isinstance(action, RequireApproval)
            or not isinstance(status, Pending)
            or status.kind not in {None, "approval"}
        ):
            return False
        run = self._checkpoint.run
        owner = run.owner
        wait = Wait.from_tool(tool, (tool.id,), conversation=run.conversation_id, owner=owner, arguments=arguments)
        grant = self._checkpoint.find_grant(tool, replace(wait, of=action.of), now, self._tools.grant_rule)
        if grant is None:
            return False
        tool.await_approval(canonical=arguments, of=action.of)
        tool.approve(by=grant.by, at=now)
        *before, last = tool.decisions
        tool.decisions = (*before, replace(last, grant=grant.id))
        return True

    def _add_pause(self, tool: Tool, action: Action[PauseT], arguments: Mapping[str, object]) -> None:
        run = self._checkpoint.run
        wait = Wait.from_tool(tool, (tool.id,), conversation=run.conversation_id, owner=run.owner, arguments=arguments)
        self._result.pauses[tool.id] = action.pause(wait)

    def _expires_at(self, action: Action[PauseT]) -> datetime | None:
        if isinstance(action, (RequireApproval, Defer)) and action.expires_in is not None:
            return add(self._tools.now(), action.expires_in)
        return None

    # --- Helpers -----------------------------------------------------------------------------------------------

    async def _ask_scope(self, tool: Tool, scope: ToolScope[PauseT], arguments: Mapping[str, object]) -> Action[PauseT]:
        """Ask a scope to decide about a call, and return its action.

        Args:
            tool: the call to decide.
            scope: scope that owns the tool.
            arguments: validated arguments of the call.

        Raises:
            _StrategyError: the strategy raised an exception, and its fallback action must not change the call.
            _StaleToolError: another process decided the call while the strategy ran.
        """
        before = tool.revision
        errors: list[BaseException] = []
        action = await scope.decide(self._call_for_strategy(tool, arguments), on_error=errors.append)
        if tool.revision != before:
            raise _StaleToolError
        if errors and _waits_or_was_decided(tool):
            pauses = not isinstance(action, (Execute, Reject))
            if not pauses or not isinstance(tool.status, Pending):
                raise _StrategyError from errors[0]
        return action

    def _validate_arguments(self, tool: Tool, definition: ToolDefinition) -> Mapping[str, object]:
        if tool.call.problem is not None and tool.edited is None:
            raise _InvalidCallError(model_texts.not_run(tool.name, tool.call.problem))
        try:
            return check_arguments(definition, tool.effective_arguments)
        except InvalidArgumentsError as error:
            raise _InvalidCallError(model_texts.not_run(tool.name, error)) from error

    def _call_for_strategy(self, tool: Tool, arguments: Mapping[str, object]) -> FunctionCall:
        context = self._context
        if context is None or tool.decisions or len(context.messages) != len(self._checkpoint.messages):
            context = CallContext(self._checkpoint.messages.contents, self._checkpoint.run, tool.decisions)
            # A context without decisions can be shared by all calls of a response.
            self._context = None if tool.decisions else context
        return tool.call.shown(arguments, tool.id, context)


def is_decided(tool: Tool) -> bool:
    """Return whether another process changed a call by deciding it, and not by running it."""
    return isinstance(tool.status, (Pending, Approved, Rejected, Suspended)) or is_resolved_by_decision(tool)


def is_resolved_by_decision(tool: Tool) -> bool:
    """Return whether a call was resolved by a decision, such as a rejection, without running its tool."""
    return bool(tool.decisions) and tool.decisions[-1].action not in {"approve", "retry"}


def _waits_or_was_decided(tool: Tool) -> bool:
    status = tool.status
    return bool(tool.decisions) or not isinstance(status, Pending) or status.kind is not None


def _required_approver(action: Action[Paused]) -> str | None:
    return action.of if isinstance(action, RequireApproval) else None


def _is_deferred(action: Action[Paused]) -> bool:
    return isinstance(action, Defer)


def _scheduled_at(action: Action[Paused]) -> datetime | None:
    return action.at if isinstance(action, Schedule) else None


def _is_resumable(tool: Tool) -> bool:
    """Return whether an earlier run left the inner chat of a tool call running, so that the chat can resume."""
    return isinstance(tool.status, Running) and tool.status.write_ahead and tool.inner is not None


def _appears_to_only_wait(tools: ChatTools[Paused], messages: Messages) -> bool:
    """Return whether the unresolved calls of an inner chat appear to be waiting, so that none can run yet.

    This is an estimate from statuses and times. If True, the strategies of the inner chat are asked before the chat
    starts.

    Args:
        tools: tools of the inner chat.
        messages: conversation of the inner chat.
    """
    waits = False
    for tool in messages.pending():
        definition, _ = tools.owners.get(tool.name, (None, None))
        if definition is None:
            return False
        if _is_only_waiting(tool, definition, tools):
            waits = True
        elif waits and definition.sequential:
            # This call and all later ones stay behind the waiting call.
            break
        else:
            return False
    return waits


def _is_only_waiting(tool: Tool, definition: ToolDefinition, tools: ChatTools[Paused]) -> bool:
    status = tool.status
    if isinstance(status, Pending):
        end = status.at if status.kind == "schedule" else status.expires_at
        return status.kind is not None and (end is None or tools.now() < end)
    if isinstance(definition, SubchatDefinition) and (isinstance(status, Suspended) or _is_resumable(tool)):
        return tool.inner is not None and _appears_to_only_wait(definition.tools_for(tool.inner), tool.inner)
    if isinstance(status, Running) and definition.idempotent:
        return False
    return isinstance(status, (Running, Interrupted)) and not isinstance(tools.interrupted, Reject)


def calls_decided_before(messages: Messages) -> list[Tool]:
    """Return the calls of the last turn that an approver resolved before this run."""
    _, turn = messages.last_turn or (None, None)
    return [] if turn is None else [tool for tool in turn.tools if tool.resolved and is_resolved_by_decision(tool)]
