"""Dry runs, which predict a policy's decision about each call without executing the call.

print(await dry_run(chat, messages))

The dry run applies the triage of a run (`engine/triage.py`) to copies of the calls. Unresolved calls are decided in
their current state, as in the next run. Resolved calls are decided as if the model had just made them, so that a new
policy can be tried on an old history.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, cast, final
from uuid import uuid4

from chat_core.arguments import require_type
from chat_core.concurrency import finish
from chat_core.conversation import Conversation
from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.plan import Settings
from chat_core.engine.tasks import RunTaskGroup
from chat_core.engine.triage import Triage
from chat_core.engine.triage_result import TriageResult
from chat_core.engine.values import RunValues
from chat_core.errors import InterruptedToolsError, PendingToolsError, ToolMissingError, UsageError
from chat_core.json import dumps
from chat_core.messages import (
    Content,
    Failed,
    FunctionCall,
    Grants,
    Messages,
    Rejected,
    Running,
    Suspended,
    Tool,
    ToolStatus,
    Turn,
    codec,
)
from chat_core.response import Paused
from chat_core.run_context import RunContext
from chat_core.tools.action import Action
from chat_core.tools.chat_tools import ChatTools, GrantRule, SubchatDefinition
from chat_core.tools.definition import ToolDefinition, ToolScope
from chat_core.tools.scope import require_unique_names

DryRunOutcome: TypeAlias = Literal["run", "approval", "schedule", "result", "interrupted", "held", "reject", "fail"]
"""The predicted outcome of a call. `DryRunCall.outcome` describes the values."""


class HasTools(Protocol):
    """Protocol for objects with chat tools, such as a `Chat`."""

    @property
    def tools(self) -> ChatTools[Paused]:
        """The tools of the chat."""
        ...


Policy: TypeAlias = HasTools | ToolScope[Paused] | Sequence[ToolScope[Paused]]


@final
@dataclass(frozen=True, slots=True)
class DryRunCall:
    """The predicted outcome of one tool call.

    Attributes:
        path: path of the call, for use as `messages.tool(*path)`.
        name: name of the tool.
        arguments: validated arguments, or the model's arguments if they are invalid.
        outcome: `run` if the tool would run. `approval`, `schedule` or `result` if the call would wait. `interrupted`
            if an approver must resolve the call. `held` if the call waits and a run would raise an error, because the
            policy would now run the call, the policy raises, or the chat lacks the tool. `reject` if the call would be
            rejected. `fail` if the arguments are invalid or the tool is unknown.
        status: status of the call in the history.
        reason: error or reason that the model would receive, or an explanation of the outcome.
        action: action of the policy. `None` if the policy is not asked: for calls that are approved, expired or
            invalid.
        expires_at: time at which the approval would expire.
        at: time at which a scheduled call would run.
        raised: exception that the strategy raised, if any. `action` is then the fallback.
    """

    path: tuple[str, ...]
    name: str
    arguments: Mapping[str, object] = field(hash=False)
    outcome: DryRunOutcome
    status: ToolStatus = field(hash=False)
    reason: str | None = None
    action: Action[Paused] | None = None
    expires_at: datetime | None = None
    at: datetime | None = None
    raised: str | None = None

    def __str__(self) -> str:
        times = "".join(
            [f", {label} {time.isoformat()}" for label, time in (("until", self.expires_at), ("at", self.at)) if time]
        )
        reason = f": {self.reason}" if self.reason else ""
        raised = f" (the policy raised {self.raised})" if self.raised else ""
        return f"{'/'.join(self.path)}: {self.name}({dumps(self.arguments)}) → {self.outcome}{times}{reason}{raised}"


@final
@dataclass(frozen=True, slots=True)
class DryRun:
    """The predicted outcomes of all calls, oldest first. Inner calls follow the tool call of their suspended chat."""

    calls: tuple[DryRunCall, ...]

    def __iter__(self) -> Iterator[DryRunCall]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls))


async def dry_run(
    policy: Policy,
    calls: Messages | Conversation | FunctionCall | Sequence[FunctionCall],
    *,
    conversation_id: str | None = None,
    owner: str | None = None,
    inject: Mapping[Any, object] | None = None,
    now: Callable[[], datetime] | None = None,
) -> DryRun:
    """Predict the decisions of a policy. No tool runs, and no message changes.

    Strategies are called as in a run. Each call is decided independently: sequential tools and the concurrency limit
    are ignored. Factories of values are called as in a run, because policies may read the values.

    Args:
        policy: a chat, or one or more scopes of tools.
        calls: a conversation whose calls are all decided, or function calls that a model might make.
        conversation_id: conversation ID passed to strategies. Default: the ID of the `Conversation`, if any.
        owner: owner passed to strategies. Default: the owner of the `Conversation`, if any.
        inject: values for injected parameters, by type.
        now: function that returns the current time. Default: the clock of the chat.

    Raises:
        UsageError: an argument has the wrong type, or two scopes have tools of the same name.
    """
    if inject is not None:
        require_type("inject", inject, Mapping, "a mapping of types to values")
    tools = _find_chat_tools(policy, now)
    if isinstance(calls, Conversation):
        conversation_id = conversation_id or calls.id
        owner = owner or getattr(calls, "owner", None)
    run, messages = RunContext(conversation_id, owner, uuid4().hex), _to_messages(calls)
    values = RunValues(tools, inject or {})
    error: BaseException | None = None
    async with RunTaskGroup() as group:
        try:
            runner = _DryRunner(tools, await values.open(run, group), values, messages.grants)
            return DryRun(tuple([call async for call in runner.decide_all(messages)]))
        except BaseException as caught:
            error = caught
            raise
        finally:
            await finish(partial(values.aclose, error))
            del error


@final
class _Consultation:
    """The record of one call to a strategy, with its argument, the returned action and any exception."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.shown: FunctionCall | None = None
        self.action: Action[Paused] | None = None
        self.raised: Exception | None = None

    def record_error(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self.raised = error


@final
class _RecordingScope(ToolScope[Paused]):
    """A wrapper around a tool scope that records the scope's decisions."""

    __slots__ = ("_consultation", "_scope")

    def __init__(self, scope: ToolScope[Paused], consultation: _Consultation) -> None:
        self._consultation = consultation
        self._scope = scope

    def definitions(self) -> Sequence[ToolDefinition]:
        return self._scope.definitions()

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[Paused]:
        consultation = self._consultation
        consultation.shown = call

        def record_error(error: BaseException) -> None:
            consultation.record_error(error)
            if on_error is not None:
                on_error(error)

        consultation.action = await self._scope.decide(call, on_error=record_error)
        return consultation.action


@final
@dataclass(frozen=True, slots=True)
class _History:
    """The part of a history that precedes a tool call."""

    contents: Sequence[Content]


@final
class _UnstoredConversation:
    """A stand-in for a stored conversation in a dry run. It ignores all writes."""

    def __init__(self, id: str | None, messages: Messages | _History) -> None:
        self.id = id
        self.messages = messages

    async def write_tool(self, path: tuple[str, ...], tool: Tool, /) -> None:
        """Ignore the write."""


@final
class _DryRunner:
    """Runner that predicts the outcome of every call in a conversation and in its inner chats."""

    def __init__(
        self,
        tools: ChatTools[Paused],
        run: RunContext,
        values: RunValues,
        grants: Grants,
        names: tuple[str, ...] = (),
        *,
        rules: tuple[GrantRule, ...] = (),
    ) -> None:
        self._consultation = consultation = _Consultation()
        scopes = [_RecordingScope(scope, consultation) for scope in tools.scopes]
        self._tools = ChatTools(scopes, tools.interrupted, tools.now, grant_rule=tools.grant_rule)
        self._run = run
        self._values = values
        self._grants = grants
        self._names = names
        self._rules = rules

    async def decide_all(self, messages: Messages, parents: tuple[str, ...] = ()) -> AsyncIterator[DryRunCall]:
        """Yield the predicted outcome of each call in a conversation, including calls of inner chats.

        Args:
            messages: the conversation.
            parents: path of the tool call that contains this conversation. Empty for the outermost conversation.
        """
        contents = messages.contents
        for index, content in enumerate(contents):
            for count, turn in enumerate(content.turns, 1):
                for tool in turn.tools:
                    history = _History((*contents[:index], Content(content.role, content.turns[:count])))
                    yield await self._predict_outcome(tool, history if tool.resolved else messages, parents)
                    async for call in self._predict_inner_outcomes(tool, parents):
                        yield call

    async def _predict_inner_outcomes(self, tool: Tool, parents: tuple[str, ...]) -> AsyncIterator[DryRunCall]:
        """Yield the predicted outcomes of the calls inside a tool call, if its inner chat would resume."""
        definition = self._tools.definition(tool.name)
        resumable = isinstance(tool.status, Suspended) or (isinstance(tool.status, Running) and tool.status.write_ahead)
        if isinstance(definition, SubchatDefinition) and resumable and tool.inner is not None:
            tools = definition.tools_for(tool.inner)
            run = await self._values.inner(tool.id, tools, self._run)
            values, names = self._values.inner_values(tool.id), (*self._names, tool.name)
            rules = self._rules if self._tools.grant_rule is None else (*self._rules, self._tools.grant_rule)
            inner = _DryRunner(tools, run, values, self._grants, names, rules=rules)
            async for call in inner.decide_all(tool.inner, (*parents, tool.id)):
                yield call

    async def _predict_outcome(self, tool: Tool, messages: Messages | _History, parents: tuple[str, ...]) -> DryRunCall:
        copy = Tool(tool.call, id=tool.id, call_id=tool.call_id) if tool.resolved else codec.copy_tool(tool, Messages)
        conversation = _UnstoredConversation(self._run.conversation_id, messages)
        # A resolved call is decided as if the model had just made it, without grants.
        grants = Grants() if tool.resolved else self._grants
        checkpoint = Checkpoint(cast("Conversation", conversation)).begin_as(self._run, grants, self._names)
        checkpoint.grant_rules = self._rules
        self._consultation.reset()
        result = await Triage(self._tools, checkpoint, looks_inside=False).decide_all([copy])
        shown, raised = self._consultation.shown, self._consultation.raised
        call = DryRunCall(
            (*parents, tool.id),
            tool.name,
            copy.effective_arguments if shown is None else shown.arguments,
            "run",
            tool.status,
            action=self._consultation.action,
            raised=None if raised is None else f"{type(raised).__name__}: {raised}",
        )
        return _with_outcome(call, result, copy)


def _with_outcome(call: DryRunCall, result: TriageResult[Paused], tool: Tool) -> DryRunCall:
    """Return a copy of `call` with the outcome, reason and times that follow from its triage.

    Args:
        call: the prediction, with a placeholder as its outcome.
        result: result of the triage.
        tool: the copy of the call that was triaged.
    """
    if isinstance(result.error, InterruptedToolsError):
        return replace(
            call, outcome="interrupted", reason="the call was interrupted, and the chat has no with_interrupted() rule"
        )
    if isinstance(result.error, PendingToolsError) or result.blocked:
        return replace(call, outcome="held", reason=_held_reason(result))
    if result.error is not None:
        raise result.error
    for ready in result.ready:
        return replace(call, arguments=ready.arguments)
    for pause in result.pauses.values():
        (wait,) = pause.waiting
        return replace(
            call,
            arguments=wait.arguments,
            outcome=wait.kind,
            reason=wait.error,
            expires_at=wait.expires_at,
            at=wait.at,
        )
    status = tool.status
    if isinstance(status, Failed):
        return replace(call, outcome="fail", reason=status.error)
    return replace(call, outcome="reject", reason=status.reason if isinstance(status, Rejected) else None)


def _held_reason(result: TriageResult[Paused]) -> str:
    for error in result.blocked.values():
        if result.pauses:
            return "a grant rule raised, so the call waits for an approver"
        cause = str(error) if isinstance(error, ToolMissingError) else "the policy raised"
        return f"{cause}, so the call stays as it is"
    return "the call waits for an approver or a time"


# --- Arguments -----------------------------------------------------------------------------------------------------


def _find_chat_tools(policy: object, now: Callable[[], datetime] | None) -> ChatTools[Paused]:
    """Return the chat tools of a chat or of tool scopes. `now`, if given, replaces their clock."""
    tools = getattr(policy, "tools", None)
    if isinstance(tools, ChatTools):
        chat_tools = cast("ChatTools[Paused]", tools)
        clock = now or chat_tools.now
        return ChatTools(chat_tools.scopes, chat_tools.interrupted, clock, chat_tools.factories, chat_tools.grant_rule)
    items = _to_list(policy, ToolScope)
    if items is None:
        msg = f"dry_run() needs a chat, a ScopedCollection, or a list of scopes, not {policy!r}"
        raise UsageError(msg)
    scopes = tuple(cast("list[ToolScope[Paused]]", items))
    require_unique_names(scopes)
    return ChatTools(scopes, None, now or Settings().now)


def _to_messages(calls: object) -> Messages:
    if isinstance(calls, Messages):
        return calls
    if isinstance(calls, Conversation):
        return calls.messages
    items = _to_list(calls, FunctionCall)
    if items is None:
        msg = f"dry_run() needs Messages, a Conversation, or function calls, not {calls!r}"
        raise UsageError(msg)
    tools = [Tool(call, id=call.id) for call in cast("list[FunctionCall]", items)]
    messages = Messages()
    messages.append("model", Turn(tools))
    return messages


def _to_list(value: object, kind: type) -> list[object] | None:
    """Return a single value or a sequence as a list, or `None` if any item is not an instance of `kind`."""
    items: list[object] = list(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else [value]
    return items if all(isinstance(item, kind) for item in items) else None
