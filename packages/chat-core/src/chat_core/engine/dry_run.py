"""Dry run of a policy: what it would do with each call, without doing it.

    print(await dry_run(chat, messages))

It is the triage of a run (`engine/triage.py`), applied to copies of the calls. An unresolved call is judged as the next
run would find it. A resolved one is judged as if the model had just made it, so that a new policy can be tried on an
old history.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, cast, final

from chat_core.conversation import Conversation
from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.plan import Settings
from chat_core.engine.triage import Triage, TriageResult
from chat_core.errors import InterruptedToolsError, PendingToolsError, UsageError
from chat_core.json import dumps
from chat_core.messages import (
    Content,
    Failed,
    FunctionCall,
    Messages,
    Rejected,
    Suspended,
    Tool,
    ToolStatus,
    Turn,
    codec,
)
from chat_core.response import Paused
from chat_core.tools.action import Action
from chat_core.tools.chat_tools import ChatTools, SubchatDefinition
from chat_core.tools.definition import ToolDefinition, ToolScope
from chat_core.tools.scope import ScopedCollection, require_unique_names

DryRunOutcome: TypeAlias = Literal["run", "approval", "schedule", "interrupted", "held", "reject", "fail"]
"""What would become of a call; see `DryRunCall.outcome`."""


class HasTools(Protocol):
    """A chat, as far as a dry run needs it."""

    @property
    def tools(self) -> ChatTools[Paused]:
        """The tools of the chat."""
        ...


Policy: TypeAlias = HasTools | ToolScope[Paused] | Sequence[ToolScope[Paused]]


@final
@dataclass(frozen=True, slots=True)
class DryRunCall:
    """What would become of one call.

    Attributes:
        path: leads to the call: `messages.tool(*path)`.
        name: of the tool.
        arguments: what would run, validated; as the model wrote them, where they do not fit.
        outcome: `run`; `approval` or `schedule`: it would wait; `interrupted`: somebody must say what became of it;
            `held`: it waits for a person or a time, the policy would run it now, and the run refuses to; `reject`, or
            `fail` where the arguments do not fit, or nobody has the tool.
        status: what has become of it in the history.
        reason: what the model would be told of a rejection or a failure; else what there is to say.
        action: what the policy says, `None` where it is not asked: an approved call, a late one, one that cannot run.
        expires_at: when an approval would come too late.
        at: when a scheduled call would be due.
        raised: what the strategy raised, where it did; `action` is then the fallback.
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
            [f", {word} {when.isoformat()}" for word, when in (("until", self.expires_at), ("at", self.at)) if when]
        )
        reason = f": {self.reason}" if self.reason else ""
        raised = f" (the policy raised {self.raised})" if self.raised else ""
        return f"{'/'.join(self.path)}: {self.name}({dumps(self.arguments)}) → {self.outcome}{times}{reason}{raised}"


@final
@dataclass(frozen=True, slots=True)
class DryRun:
    """What would become of each call, oldest first; those of a chat that is a tool, and waits, stand behind it."""

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
    now: Callable[[], datetime] | None = None,
) -> DryRun:
    """Return what a policy would do with calls. No tool runs and nothing changes; strategies are called as in a run.

    Each call is judged by itself: neither barriers nor the limit of concurrency are considered.

    Args:
        policy: a chat, or scopes of tools.
        calls: a conversation, all calls in it; or calls that a model might make.
        conversation_id: the id that strategies are given; that of a `Conversation` unless given.
        now: the clock; a chat's own unless given.

    Raises:
        UsageError: one of the two is something else, or two scopes have tools of one name.
    """
    tools = _tools_of(policy, now)
    if isinstance(calls, Conversation):
        conversation_id = conversation_id or calls.id
    judge = _Judge(tools, conversation_id)
    return DryRun(tuple([call async for call in judge.judge_all(_messages_of(calls))]))


@final
class _Consultation:
    """What a scope was asked about one call, and what it said."""

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
    """A scope whose decisions are recorded."""

    __slots__ = ("_consultation", "_scope")

    def __init__(self, scope: ToolScope[Paused], consultation: _Consultation) -> None:
        self._consultation = consultation
        self._scope = scope

    def definitions(self) -> Sequence[ToolDefinition]:
        return self._scope.definitions()

    async def decide(self, call: FunctionCall, /) -> Action[Paused]:
        consultation, scope = self._consultation, self._scope
        consultation.shown = call
        if isinstance(scope, ScopedCollection):
            collection = cast("ScopedCollection[object, Paused]", scope)
            consultation.action = await collection.decide(call, on_error=consultation.record_error)
        else:
            consultation.action = await scope.decide(call)
        return consultation.action


@final
@dataclass(frozen=True, slots=True)
class _History:
    """The history as it was when a call was made."""

    contents: Sequence[Content]


@final
class _UnstoredConversation:
    """As much of a conversation as a triage needs; its writes are dropped."""

    def __init__(self, id: str | None, messages: Messages | _History) -> None:  # noqa: A002 - the field's own name
        self.id = id
        self.messages = messages

    async def write_tool(self, path: tuple[str, ...], tool: Tool, /) -> None:
        """Drop the write."""


@final
class _Judge:
    """Judges every call of a conversation, and of the chats inside it."""

    def __init__(self, tools: ChatTools[Paused], id: str | None) -> None:  # noqa: A002 - the field's own name
        self._consultation = consultation = _Consultation()
        scopes = [_RecordingScope(scope, consultation) for scope in tools.scopes]
        self._tools = ChatTools(scopes, tools.interrupted, tools.now)
        self._id = id

    async def judge_all(self, messages: Messages, parents: tuple[str, ...] = ()) -> AsyncIterator[DryRunCall]:
        """Judge the calls of `messages`; `parents` is the path of the tool that the conversation belongs to."""
        contents = messages.contents
        for place, content in enumerate(contents):
            for number, turn in enumerate(content.turns, 1):
                for tool in turn.tools:
                    history = _History((*contents[:place], Content(content.role, content.turns[:number])))
                    yield await self._judge(tool, history if tool.resolved else messages, parents)
                    async for call in self._judge_inner(tool, parents):
                        yield call

    async def _judge_inner(self, tool: Tool, parents: tuple[str, ...]) -> AsyncIterator[DryRunCall]:
        """Judge the calls of the chat that a suspended tool is."""
        definition = self._tools.definition(tool.name)
        if isinstance(definition, SubchatDefinition) and isinstance(tool.status, Suspended):
            async for call in _Judge(definition.tools, None).judge_all(tool.status.inner, (*parents, tool.id)):
                yield call

    async def _judge(self, tool: Tool, messages: Messages | _History, parents: tuple[str, ...]) -> DryRunCall:
        again = Tool(tool.call, id=tool.id, call_id=tool.call_id) if tool.resolved else codec.copy_tool(tool, Messages)
        checkpoint = Checkpoint(cast("Conversation", _UnstoredConversation(self._id, messages)))
        self._consultation.reset()
        result = await Triage(self._tools, checkpoint).decide_all([again])
        shown, raised = self._consultation.shown, self._consultation.raised
        call = DryRunCall(
            (*parents, tool.id),
            tool.name,
            again.effective_arguments if shown is None else shown.arguments,
            "run",
            tool.status,
            action=self._consultation.action,
            raised=None if raised is None else f"{type(raised).__name__}: {raised}",
        )
        return _with_outcome(call, result, again)


def _with_outcome(call: DryRunCall, result: TriageResult[Paused], tool: Tool) -> DryRunCall:
    """Return `call` with what the triage decided about it."""
    if isinstance(result.error, InterruptedToolsError):
        return replace(call, outcome="interrupted", reason="it was interrupted, and this chat has no rule for that")
    if isinstance(result.error, PendingToolsError):
        return replace(call, outcome="held", reason="it was promised to a person or a time")
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


# --- Arguments -----------------------------------------------------------------------------------------------------


def _tools_of(policy: object, now: Callable[[], datetime] | None) -> ChatTools[Paused]:
    """Return the tools of a chat, or those of scopes."""
    tools = getattr(policy, "tools", None)
    if isinstance(tools, ChatTools):
        found = cast("ChatTools[Paused]", tools)
        return ChatTools(found.scopes, found.interrupted, now or found.now)
    items = _items(policy, ToolScope)
    if items is None:
        msg = f"dry_run() needs a chat, a ScopedCollection, or a list of those, not {policy!r}"
        raise UsageError(msg)
    scopes = tuple(cast("list[ToolScope[Paused]]", items))
    require_unique_names(scopes)
    return ChatTools(scopes, None, now or Settings().now)


def _messages_of(calls: object) -> Messages:
    if isinstance(calls, Messages):
        return calls
    if isinstance(calls, Conversation):
        return calls.messages
    items = _items(calls, FunctionCall)
    if items is None:
        msg = f"dry_run() needs Messages, a Conversation, or function calls, not {calls!r}"
        raise UsageError(msg)
    tools = [Tool(call, id=call.id) for call in cast("list[FunctionCall]", items)]
    messages = Messages()
    messages.append("model", Turn(tools))
    return messages


def _items(value: object, kind: type) -> list[object] | None:
    """Return one value or several as a list, or None if one of them is of another kind."""
    items: list[object] = list(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else [value]
    return items if all(isinstance(item, kind) for item in items) else None
