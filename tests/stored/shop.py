"""The chat that resumes stored conversations, and the expected results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import final

from chat_core import (
    Action,
    ApprovalKeys,
    ChatBuilder,
    ChatResponse,
    Conversation,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    Schedule,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolContext,
    Wait,
)
from chat_core.testing import ScriptedProvider
from chat_store.history import HistoryEntry

STORED = Path(__file__).parent / "v57cd8b0"
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
"""When everything was written."""
SOON = NOON + timedelta(hours=1)
"""No scheduled call is due."""
LATER = NOON + timedelta(days=2)
"""Leases have run out, and scheduled calls are due."""
TOO_LATE = NOON + timedelta(days=31)
"""Approvals have expired."""
KEYS = ApprovalKeys("k1", {"k1": b"the key of the stored conversations"}, may_decide=None, now=lambda: LATER)
TOKENS: dict[str, str] = json.loads((STORED / "tokens.json").read_bytes())

RENT: dict[str, object] = {"cents": 700, "to": "landlord"}
PLUMBER: dict[str, object] = {"cents": 800, "to": "plumber"}
CORRECTED: dict[str, object] = {"cents": 900, "to": "landlord"}
ITEM: dict[str, object] = {"item": "x"}
REMINDER: dict[str, object] = {"text": "the rent"}

OFFICE = ("delegate_1", "ask_clerk")
WaitKey = tuple[str, tuple[str, ...]]
ToolRun = tuple[str, dict[str, object]]


@final
@dataclass(frozen=True)
class Expected:
    """What happens to a conversation that is resumed at `LATER`, with everything approved that waits.

    Attributes:
        waits: kind and path of every call that a pause reports.
        runs: name and arguments of every tool that runs.
    """

    waits: Sequence[WaitKey] = ()
    runs: Sequence[ToolRun] = ()


ANSWERED = ("answered", "finished", "ends", "many_turns", "structured")
"""Conversations in which nothing is left to do."""
KILLED = ("asking", "idempotent", "interrupted", "nested_interrupted", "unjudged")
"""Conversations whose process was killed, so that its lease was never given back."""
EXPECTED = {
    **dict.fromkeys(ANSWERED, Expected()),
    "approval": Expected([("approval", ("pay_1",))], [("pay", RENT)]),
    "asking": Expected(),
    "edited": Expected([], [("pay", {**RENT, "cents": 650})]),
    "idempotent": Expected([], [("note", {"text": "x"})]),
    "interrupted": Expected([("interrupted", ("ship_1",))]),
    "mixed": Expected([("approval", ("pay_1",))], [("remind", REMINDER), ("pay", RENT)]),
    "nested": Expected(
        [("approval", (*OFFICE, "pay_1")), ("approval", (*OFFICE, "pay_2"))], [("pay", RENT), ("pay", PLUMBER)]
    ),
    "nested_decided": Expected([], [("pay", {**RENT, "cents": 1})]),
    "nested_interrupted": Expected([("interrupted", ("delegate_1",))]),
    "nested_partly": Expected([("approval", (*OFFICE, "pay_1"))], [("pay", RENT)]),
    "overtaken": Expected([("interrupted", ("ship_1",))]),
    "partly": Expected([("approval", ("pay_1",))], [("pay", PLUMBER), ("remind", REMINDER), ("pay", RENT)]),
    "parts": Expected(),
    "reconsidered": Expected([("approval", ("pay_1",))], [("pay", CORRECTED)]),
    "reported": Expected([("interrupted", ("ship_1",))]),
    "retried": Expected([], [("ship", ITEM)]),
    "scheduled": Expected([], [("remind", REMINDER)]),
    "token": Expected([("approval", ("pay_1",))], [("pay", RENT)]),
    "token_used": Expected([], [("pay", {**RENT, "cents": 600})]),
    "torn": Expected([], [("ship", ITEM)]),
    "unjudged": Expected([], [("ship", ITEM)]),
}


@final
class Shop:
    """One process that resumes a conversation: its chat, and a record of the tools that ran.

    Each model is asked exactly once, after all of its calls are resolved.
    """

    def __init__(self, now: datetime = LATER) -> None:
        self.runs: list[ToolRun] = []
        self.keys: list[str] = []
        self.waits: list[WaitKey] = []
        self._now = now
        self._scope: ScopedCollection[None, Paused] = ScopedCollection(self._tools(), _policy)
        self.model = ScriptedProvider("Done.")
        clerk = self._chat(ScriptedProvider("The clerk is done."), ask=None)
        office = self._chat(ScriptedProvider("The office is done."), ask=("ask", clerk))
        self.chat = self._chat(self.model, ask=("delegate", office))

    def _tools(self) -> ToolCollection[None]:
        tools = ToolCollection()

        def record(name: str, context: ToolContext, **arguments: object) -> str:
            self.runs.append((name, arguments))
            self.keys.append(context.idempotency_key)
            return f"{name} done"

        @tools.tool
        async def pay(cents: int, context: ToolContext, to: str = "landlord") -> str:
            return record("pay", context, cents=cents, to=to)

        @tools.tool
        async def ship(item: str, context: ToolContext) -> str:
            return record("ship", context, item=item)

        @tools.tool(idempotent=True)
        async def note(text: str, context: ToolContext) -> str:
            return record("note", context, text=text)

        @tools.tool
        async def remind(text: str, context: ToolContext) -> str:
            return record("remind", context, text=text)

        return tools

    def _chat(
        self, model: ScriptedProvider, ask: tuple[str, StreamingChat[ChatResponse, Paused]] | None
    ) -> StreamingChat[ChatResponse, Paused]:
        builder = ChatBuilder().with_model(model).with_clock(lambda: self._now)
        chat = builder.with_scoped_tools(self._scope).with_interrupted(RequireApproval())
        if ask is None:
            return chat.build()
        name, inner = ask
        return chat.with_scoped_tools(inner.as_tool(name=name, description="Ask.")).build()

    async def finish(self, target: Messages | Conversation) -> None:
        """Run the chat, decide about what waits, and run it again until it answers."""
        messages = target if isinstance(target, Messages) else target.messages
        if not messages.pending() and messages.contents[-1].role == "model":
            messages.user("And now?")
        for _ in range(3):
            outcome = await self.chat.complete(target)
            if isinstance(outcome, ChatResponse):
                assert outcome.text == "Done."
                return
            self.waits += [(wait.kind, wait.path) for wait in outcome.waiting]
            for wait in outcome.waiting:
                decide(messages, wait)
        msg = f"the chat still pauses: {self.waits}"
        raise AssertionError(msg)

    def require(self, name: str) -> None:
        """Check that everything expected happened, once."""
        expected = EXPECTED[name]
        assert sorted(self.waits) == sorted(expected.waits)
        assert sorted(self.runs, key=repr) == sorted(expected.runs, key=repr)
        assert len(self.model.asked) == 1


def _policy(call: FunctionCall, _: None) -> Action[Paused]:
    match call.name:
        case "pay":
            return RequireApproval(timedelta(days=30))
        case "remind":
            return Schedule(NOON + timedelta(days=1))
        case "steal":
            return Reject("stealing is wrong")
        case _:
            return Execute()


def decide(messages: Messages, wait: Wait) -> None:
    """Approve a call that waits for approval, correct a bad edit, complete an interrupted call."""
    tool = messages.tool(*wait.path)
    if wait.kind == "interrupted":
        tool.complete("looked up", by="ben", at=LATER)
    else:
        tool.approve(arguments=CORRECTED if wait.error else None, by="ben", at=LATER)


def require_finished(messages: Messages) -> None:
    """Check that nothing waits and that the model has the last word."""
    assert messages.pending() == []
    assert messages.contents[-1].turns[-1].text == "Done."


def history_of(entries: Sequence[HistoryEntry]) -> list[object]:
    """Return a history as `*.expected.json` has it."""
    return [[entry.number, entry.event, list(entry.path), entry.role] for entry in entries]
