"""The first half of a pass over tools: what becomes of every unresolved call, before anything runs.

Nothing here runs a tool. Every change of a status is durable before the next call is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, final

from typing_extensions import TypeVar

from chat_core import model_texts
from chat_core.engine.checkpoint import Checkpoint
from chat_core.errors import ConflictError, InterruptedToolsError, PendingToolsError
from chat_core.messages import Approved, FunctionCall, Interrupted, Pending, Rejected, Running, Suspended, Tool
from chat_core.response import Paused, Wait
from chat_core.tools.action import Action, Execute, Reject, RequireApproval, Schedule
from chat_core.tools.chat_tools import ChatTools, SubchatDefinition
from chat_core.tools.context import CallContext
from chat_core.tools.definition import InvalidArgumentsError, ToolDefinition, ToolScope

PauseT = TypeVar("PauseT", bound=Paused)

_PLAIN = frozenset({str, int, float, bool})


@final
@dataclass(slots=True)
class Ready:
    """A call that may run, with the arguments that will run."""

    tool: Tool
    definition: ToolDefinition
    arguments: Mapping[str, object]
    revision: int = field(init=False)
    """Of the tool, when it was looked at: one that has moved since is for the next pass to judge."""
    raised: BaseException | None = field(default=None, init=False)
    """What the body raised; the model is told. A body that did not end in time has raised a `TimeoutError`."""

    def __post_init__(self) -> None:
        self.revision = self.tool.revision


@final
@dataclass(slots=True)
class TriageResult(Generic[PauseT]):
    """What a pass found: calls to run, calls already resolved, in order of emission, and the pauses of the others.

    With an `error` nothing may run: it is raised when what was resolved has been told.
    """

    ready: list[Ready] = field(default_factory=list[Ready])
    resolved: list[Tool] = field(default_factory=list[Tool])
    pauses: dict[str, PauseT] = field(default_factory=dict[str, PauseT])
    error: Exception | None = None


class _InvalidCallError(Exception):
    """The call cannot run; the message is for the model."""


class _StaleToolError(Exception):
    """Somebody decided the call while it was looked at."""


@final
class Triage(Generic[PauseT]):
    """Decides about calls: by their status, by their schema, and by the strategy of the scope that owns them."""

    def __init__(self, tools: ChatTools[PauseT], checkpoint: Checkpoint) -> None:
        self._tools = tools
        self._checkpoint = checkpoint
        self._found: TriageResult[PauseT] = TriageResult()
        self._promised: list[str] = []
        self._lost: list[str] = []
        self._context: CallContext | None = None

    async def look(self, tools: list[Tool]) -> TriageResult[PauseT]:
        """Look at every unresolved call. Nothing is raised: what went wrong is the triage's `error`.

        That is `InterruptedToolsError` where a crash left calls behind, and the chat has no rule for them,
        `PendingToolsError`
        where the strategy would now execute what was promised to a person or a time, and what the conversation raises.
        """
        try:
            for tool in tools:
                await self._settle(tool)
            self._require_decided()
        except Exception as error:  # noqa: BLE001 - the pass raises it
            self._found.error = error
        return self._found

    async def _settle(self, tool: Tool) -> None:
        """Judge a call, durably; again where a person decided it meanwhile."""
        overruled = False
        while not tool.resolved:
            before = tool.revision
            try:
                await self._judge(tool)
                if tool.revision != before:
                    await self._checkpoint.write_tool(tool)
            except _StaleToolError:
                continue
            except ConflictError:
                if overruled or not decided(tool):
                    raise
                overruled = True
                self._forget(tool)
                continue
            if tool.resolved:
                self._found.resolved.append(tool)
            return

    def _forget(self, tool: Tool) -> None:
        self._found.ready = [ready for ready in self._found.ready if ready.tool is not tool]
        self._found.pauses.pop(tool.id, None)
        self._lost = [lost for lost in self._lost if lost != tool.id]

    def _require_decided(self) -> None:
        if self._lost:
            msg = (
                f"{len(self._lost)} call(s) were interrupted and may have taken effect ({', '.join(self._lost)}): say "
                "complete(result), retry() or fail(reason) for each, or build the chat with_interrupted(...)"
            )
            raise InterruptedToolsError(msg, self._lost)
        if self._promised:
            msg = (
                f"{len(self._promised)} call(s) wait for a person or a time ({', '.join(self._promised)}), and this "
                "chat's strategy would execute them; approve or reject them, or call messages.cancel_pending(reason)"
            )
            raise PendingToolsError(msg, self._promised)

    async def _judge(self, tool: Tool) -> None:
        owner = self._tools.owners.get(tool.name)
        status = tool.status
        if isinstance(status, (Running, Interrupted)):
            self._interrupted(tool, owner)
            return
        if owner is None:
            _give_up(tool, model_texts.unknown_tool(tool.name, self._tools.owners))
            return
        definition, scope = owner
        if isinstance(status, Suspended):
            self._suspended(tool, definition)
            return
        try:
            if isinstance(status, Approved):
                await self._approved(tool, definition, scope)
            elif isinstance(status, Pending):
                await self._pending(tool, status, definition, scope)
        except (_InvalidCallError, InvalidArgumentsError) as error:
            tool.fail(str(error))

    # --- By status -----------------------------------------------------------------------------------------

    def _suspended(self, tool: Tool, definition: ToolDefinition) -> None:
        if isinstance(definition, SubchatDefinition):
            self._found.ready.append(Ready(tool, definition, tool.effective_arguments))
        else:
            # Another tool has the name now: nobody has allowed that one.
            tool.cancel(model_texts.not_a_chat(tool.name))

    def _interrupted(self, tool: Tool, owner: tuple[ToolDefinition, ToolScope[PauseT]] | None) -> None:
        if isinstance(tool.status, Running):
            if owner is not None and owner[0].idempotent:
                with suppress(_InvalidCallError):
                    self._found.ready.append(Ready(tool, owner[0], self._validated(tool, owner[0])))
                    return
            tool.lost(model_texts.PROCESS_ENDED)
        action = self._tools.interrupted
        reason = tool.status.reason if isinstance(tool.status, Interrupted) else ""
        if action is None:
            self._lost.append(tool.id)
        elif isinstance(action, Reject):
            tool.fail(model_texts.interrupted(action.reason))
        else:
            self._wait(
                tool,
                action,
                Wait("interrupted", tool.id, (tool.id,), tool.name, tool.effective_arguments, error=reason),
            )

    async def _approved(self, tool: Tool, definition: ToolDefinition, scope: ToolScope[PauseT]) -> None:
        if tool.edited is None:
            self._found.ready.append(Ready(tool, definition, self._validated(tool, definition)))
            return
        try:
            arguments = definition.validate(tool.edited)
        except InvalidArgumentsError as error:
            await self._edit_refused(tool, definition, scope, str(error))
            return
        action = await self._decide(tool, scope, arguments)
        if isinstance(action, Reject):
            tool.refuse(action.reason)
        elif _due(action) is not None:
            tool.reconsider()
            self._begin_wait(tool, definition, action, arguments)
        else:
            # An approval is what RequireApproval asks for.
            self._found.ready.append(Ready(tool, definition, arguments))

    async def _edit_refused(self, tool: Tool, definition: ToolDefinition, scope: ToolScope[PauseT], error: str) -> None:
        """An approver's arguments do not fit: a person must look again, if this chat can wait for one."""
        action = await self._decide(tool, scope, definition.validate(tool.call.arguments))
        if isinstance(action, Reject):
            tool.refuse(action.reason)
        elif isinstance(action, Execute) and isinstance(tool.status, Pending):
            self._promised.append(tool.id)
        elif isinstance(action, Execute):
            raise _InvalidCallError(model_texts.invalid_edit(error))
        else:
            if isinstance(tool.status, Approved):
                tool.reconsider(error)
            self._wait(tool, action, self._as_wait(tool, tool.effective_arguments))

    async def _pending(self, tool: Tool, status: Pending, definition: ToolDefinition, scope: ToolScope[PauseT]) -> None:
        now = self._tools.now()
        if status.kind == "approval" and status.expires_at is not None and now >= status.expires_at:
            tool.refuse(model_texts.not_approved(status.expires_at), "expiry")
            return
        if status.error is not None and tool.edited is not None:
            await self._edit_refused(tool, definition, scope, status.error)
            return
        arguments = self._validated(tool, definition)
        if status.kind == "schedule" and status.at is not None and now >= status.at:
            self._found.ready.append(Ready(tool, definition, arguments))
            return
        action = await self._decide(tool, scope, arguments)
        if isinstance(action, Reject):
            tool.refuse(action.reason)
        elif not isinstance(action, Execute):
            self._begin_wait(tool, definition, action, arguments)
        elif status.kind is None:
            self._found.ready.append(Ready(tool, definition, arguments))
        else:
            self._promised.append(tool.id)

    # --- Waiting ---------------------------------------------------------------------------------------------

    def _begin_wait(
        self, tool: Tool, definition: ToolDefinition, action: Action[PauseT], arguments: Mapping[str, object]
    ) -> None:
        status = tool.status
        if isinstance(status, Pending) and status.kind is None:
            if (at := _due(action)) is not None:
                tool.schedule(at, canonical=arguments)
                if self._tools.now() >= at:
                    self._found.ready.append(Ready(tool, definition, arguments))
                    return
            else:
                tool.await_approval(self._expiry(action), canonical=arguments)
        self._wait(tool, action, self._as_wait(tool, arguments))

    def _wait(self, tool: Tool, action: Action[PauseT], wait: Wait) -> None:
        self._found.pauses[tool.id] = action.pause(wait)

    def _as_wait(self, tool: Tool, arguments: Mapping[str, object]) -> Wait:
        status = tool.status
        assert isinstance(status, Pending)  # noqa: S101 - a wait has just begun, or goes on
        kind = status.kind or "approval"
        return Wait(kind, tool.id, (tool.id,), tool.name, arguments, status.expires_at, status.at, status.error)

    def _expiry(self, action: Action[PauseT]) -> datetime | None:
        if isinstance(action, RequireApproval) and action.expires_in is not None:
            return self._tools.now() + action.expires_in
        return None

    # --- Below -------------------------------------------------------------------------------------------------

    async def _decide(self, tool: Tool, scope: ToolScope[PauseT], arguments: Mapping[str, object]) -> Action[PauseT]:
        """What the scope says of a call, unless a person has decided it in the time that this took."""
        always = scope.always
        if always is not None:
            return always
        before = tool.revision
        action = await scope.decide(self._shown(tool, arguments))
        if tool.revision != before:
            raise _StaleToolError
        return action

    def _validated(self, tool: Tool, definition: ToolDefinition) -> Mapping[str, object]:
        if tool.edited is None and tool.call.problem is not None:
            raise _InvalidCallError(model_texts.not_run(tool.name, tool.call.problem))
        try:
            return definition.validate(tool.effective_arguments)
        except InvalidArgumentsError as error:
            raise _InvalidCallError(model_texts.not_run(tool.name, error)) from error

    def _shown(self, tool: Tool, arguments: Mapping[str, object]) -> FunctionCall:
        context = self._context
        if context is None or tool.decisions or len(context.messages) != len(self._checkpoint.messages):
            context = CallContext(self._checkpoint.messages.contents, self._checkpoint.id, tool.decisions)
            # One that says nothing of its call serves for all calls of an answer.
            self._context = None if tool.decisions else context
        # A copy: whatever a strategy does with what it is shown, what runs was validated.
        return tool.call.shown({name: _copied(value) for name, value in arguments.items()}, tool.id, context)


def _copied(value: object) -> object:
    # Most arguments are texts and numbers, which need no copy, and deepcopy is long in finding that out.
    return value if value is None or type(value) in _PLAIN else deepcopy(value)


def decided(tool: Tool) -> bool:
    """Whether what somebody did elsewhere with a call was to decide about it, or in it, and not to run it."""
    return isinstance(tool.status, (Pending, Approved, Rejected, Suspended))


def _due(action: Action[Paused]) -> datetime | None:
    return action.at if isinstance(action, Schedule) else None


def _give_up(tool: Tool, error: str) -> None:
    if isinstance(tool.status, Suspended):
        tool.cancel(error)
    else:
        tool.fail(error)
