"""What a policy would do with each call, with nothing done: for the review of a policy, and of what waits under it.

    print(await dry_run(chat, messages))

It is the judgement that a run makes before anything runs, on copies. A call that is not resolved is judged as the next
run would find it. One that is resolved is judged as if the model had just made it, so that a new policy can be tried on
an old history.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, final

from chat_core.chat import AnyChat, Chat
from chat_core.conversation import Conversation
from chat_core.engine.checkpoint import Checkpoint
from chat_core.engine.plan import ChatPlan, Settings
from chat_core.engine.subchat_report import InnerChat
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
from chat_core.output import TextOutput
from chat_core.response import Paused
from chat_core.tools.action import Action
from chat_core.tools.definition import ToolDefinition, ToolScope
from chat_core.tools.scope import ScopedCollection, require_unique_names

if TYPE_CHECKING:
    from chat_core.provider import CompletionProvider

Policy: TypeAlias = AnyChat | ToolScope[Paused] | Sequence[ToolScope[Paused]]
DryRunOutcome: TypeAlias = Literal["run", "approval", "schedule", "interrupted", "held", "reject", "fail"]


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
    """Tell what a policy would do with calls. Nothing runs and nothing is changed; strategies are asked as ever.

    Each call is judged by itself: that one waits for another, or for a free place, is not looked at.

    Args:
        policy: a chat, or scopes of tools.
        calls: a conversation, all calls in it; or calls that a model might make.
        conversation_id: what strategies are told; of a `Conversation`, its own.
        now: the clock; a chat's own unless given.

    Raises:
        UsageError: one of the two is something else, or two scopes have tools of one name.
    """
    ear = _Ear()
    plan = _plan_of(policy, now, ear)
    if isinstance(calls, Conversation):
        conversation_id = conversation_id or calls.id
    return DryRun(tuple([call async for call in _Rehearsal(plan, ear, conversation_id).of(_messages_of(calls))]))


@final
class _Ear:
    """Hears what is said while one call is judged."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.shown: FunctionCall | None = None
        self.action: Action[Paused] | None = None
        self.raised: Exception | None = None


@final
class _Watched(ToolScope[Paused]):
    """A scope, and an ear at its door."""

    __slots__ = ("_ear", "_scope")

    def __init__(self, scope: ToolScope[Paused], ear: _Ear) -> None:
        self._ear = ear
        self._scope: ToolScope[Paused] = scope
        if isinstance(scope, ScopedCollection):
            self._scope = _telling(cast("ScopedCollection[object, Paused]", scope), ear)

    def definitions(self) -> Sequence[ToolDefinition]:
        return self._scope.definitions()

    async def decide(self, call: FunctionCall, /) -> Action[Paused]:
        self._ear.shown = call
        self._ear.action = await self._scope.decide(call)
        return self._ear.action


def _telling(scope: ScopedCollection[object, Paused], ear: _Ear) -> ScopedCollection[object, Paused]:
    """The same scope, whose strategy tells what it raises before the scope makes an action of that."""
    twin, strategy = copy(scope), scope._strategy  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - of the scope, nobody else hears it

    async def tell(call: FunctionCall, meta: object) -> Action[Paused]:
        try:
            decided = strategy(call, meta)
            return decided if isinstance(decided, Action) else await decided
        except Exception as error:
            ear.raised = error
            raise

    twin._strategy = tell  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its own copy
    return twin


@final
@dataclass(frozen=True, slots=True)
class _Past:
    """The history as it was."""

    contents: Sequence[Content]


@final
class _Nowhere:
    """A conversation that keeps nothing: what of one a judgement needs."""

    def __init__(self, id: str | None, messages: Messages | _Past) -> None:  # noqa: A002 - the field's own name
        self.id = id
        self.messages = messages

    async def write_tool(self, tool: Tool, /) -> None:
        """Keep nothing."""


@final
class _Rehearsal:
    """Judges every call of a conversation."""

    def __init__(self, plan: ChatPlan[object, Paused], ear: _Ear, id: str | None) -> None:  # noqa: A002
        self._plan = plan
        self._ear = ear
        self._id = id

    async def of(self, messages: Messages, above: tuple[str, ...] = ()) -> AsyncIterator[DryRunCall]:
        before = messages.contents
        for place, content in enumerate(before):
            for number, turn in enumerate(content.turns, 1):
                for tool in turn.tools:
                    past = _Past((*before[:place], Content(content.role, content.turns[:number])))
                    yield await self._call(tool, past if tool.resolved else messages, above)
                    async for call in self._inside(tool, above):
                        yield call

    async def _inside(self, tool: Tool, above: tuple[str, ...]) -> AsyncIterator[DryRunCall]:
        definition, _ = self._plan.owners.get(tool.name, (None, None))
        if isinstance(definition, InnerChat) and isinstance(tool.status, Suspended):
            plan = cast("ChatPlan[object, Paused]", getattr(definition, "_plan"))  # noqa: B009 - nobody else asks for it
            inner = _Rehearsal(_watched(plan, plan.scopes, self._ear, plan.settings), self._ear, None)
            async for call in inner.of(tool.status.inner, (*above, tool.id)):
                yield call

    async def _call(self, tool: Tool, messages: Messages | _Past, above: tuple[str, ...]) -> DryRunCall:
        again = Tool(tool.call, id=tool.id, call_id=tool.call_id) if tool.resolved else codec.copy_tool(tool, Messages)
        checkpoint = Checkpoint(cast("Conversation", _Nowhere(self._id, messages)))
        self._ear.forget()
        found = await Triage(self._plan, checkpoint).look([again])
        shown, raised = self._ear.shown, self._ear.raised
        call = DryRunCall(
            (*above, tool.id),
            tool.name,
            again.effective_arguments if shown is None else shown.arguments,
            "run",
            tool.status,
            action=self._ear.action,
            raised=None if raised is None else f"{type(raised).__name__}: {raised}",
        )
        return _told(call, found, again)


def _told(call: DryRunCall, found: TriageResult[Paused], tool: Tool) -> DryRunCall:
    """What a judgement comes to."""
    if isinstance(found.error, InterruptedToolsError):
        return replace(call, outcome="interrupted", reason="it was interrupted, and this chat has no rule for that")
    if isinstance(found.error, PendingToolsError):
        return replace(call, outcome="held", reason="it was promised to a person or a time")
    if found.error is not None:
        raise found.error
    for ready in found.ready:
        return replace(call, arguments=ready.arguments)
    for pause in found.pauses.values():
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


# --- What is asked, and about what ---------------------------------------------------------------------------------


def _plan_of(policy: object, now: Callable[[], datetime] | None, ear: _Ear) -> ChatPlan[object, Paused]:
    if isinstance(policy, Chat):
        chat = cast("AnyChat", policy)
        plan = chat._plan  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - a chat shows it to nobody else
        return _watched(plan, plan.scopes, ear, replace(plan.settings, now=now) if now else plan.settings)
    scopes = _items(policy, ToolScope)
    if scopes is None:
        msg = f"dry_run() needs a chat, a ScopedCollection, or a list of those, not {policy!r}"
        raise UsageError(msg)
    known = tuple(cast("list[ToolScope[Paused]]", scopes))
    require_unique_names(known)
    # No model is asked.
    plan = ChatPlan(cast("CompletionProvider", None), TextOutput(), (), None, Settings())
    return _watched(plan, known, ear, Settings(now=now) if now else Settings())


def _watched(
    plan: ChatPlan[object, Paused], scopes: Sequence[ToolScope[Paused]], ear: _Ear, settings: Settings
) -> ChatPlan[object, Paused]:
    watched = tuple([_Watched(scope, ear) for scope in scopes])
    return ChatPlan(plan.model, plan.output, watched, plan.interrupted, settings)


def _messages_of(calls: object) -> Messages:
    if isinstance(calls, Messages):
        return calls
    if isinstance(calls, Conversation):
        return calls.messages
    made = _items(calls, FunctionCall)
    if made is None:
        msg = f"dry_run() needs Messages, a Conversation, or function calls, not {calls!r}"
        raise UsageError(msg)
    tools = [Tool(call, id=call.id) for call in cast("list[FunctionCall]", made)]
    messages = Messages()
    messages.append("model", Turn(tools))
    return messages


def _items(value: object, kind: type) -> list[object] | None:
    """One or several of a kind, as a list; `None` where something else is among them."""
    items: list[object] = list(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else [value]
    return items if all(isinstance(item, kind) for item in items) else None
