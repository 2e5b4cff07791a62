"""A chat of a bank with scripted answers, for the tests of several modules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from chat_core import (
    ChatBuilder,
    ClientTools,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.approvals import Principal, owner_may_decide
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_streams import Decider

if TYPE_CHECKING:
    from collections.abc import Callable

    from chat_core import ReadyChatBuilder, StreamingChat
    from chat_core.response import ChatResponse
    from chat_core.testing.scripted import Scripted

    PausingChat = StreamingChat[ChatResponse, Paused]
    PausingBuilder = ReadyChatBuilder[ScriptedProvider, ChatResponse, Paused]

ANA = Principal("ana")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LOCATE: dict[str, object] = {
    "name": "locate",
    "description": "Find the user's position.",
    "parameters": {"type": "object", "properties": {}},
}

PAY = FunctionCall("pay", {"cents": 500}, id="call_1")
PAY_MORE = FunctionCall("pay", {"cents": 900}, id="call_2")
BALANCE = FunctionCall("balance", {}, id="call_3")


class Clock:
    """A clock that changes only when a test advances it."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time

    def advance(self, by: timedelta) -> None:
        self.time += by


def bank(*script: Scripted, now: Callable[[], datetime] | None = None) -> PausingChat:
    """Return the chat of `bank_builder()`."""
    return bank_builder(*script, now=now).build()


def bank_builder(*script: Scripted, now: Callable[[], datetime] | None = None) -> PausingBuilder:
    """Return the builder of a chat with a tool that needs approval, one that does not, and tools of the client."""
    tools = ToolCollection()
    guarded = ToolCollection()

    @guarded.tool
    def pay(cents: int) -> str:
        """Pay an amount."""
        return f"paid {cents}"

    @tools.tool
    def balance() -> dict[str, int]:
        """Return the balance."""
        return {"cents": 1200}

    def ask(_call: FunctionCall, _meta: None) -> RequireApproval:
        return RequireApproval(expires_in=timedelta(hours=1))

    def allow(_call: FunctionCall, _meta: None) -> Execute:
        return Execute()

    builder = ChatBuilder().with_model(ScriptedProvider(*script, by_history=True))
    if now is not None:
        builder = builder.with_clock(now)
    return (
        builder.with_scoped_tools(ScopedCollection(guarded, ask))
        .with_scoped_tools(ScopedCollection(tools, allow))
        .with_scoped_tools(ClientTools(expires_in=timedelta(minutes=5)))
    )


async def interrupted(*texts: str, asks: bool = True) -> tuple[PausingChat, MemoryConversation]:
    """Return a chat, and its conversation in which an approved payment was interrupted while it ran.

    Args:
        texts: the answers after the payment.
        asks: whether interrupted calls wait for a decision. Otherwise, the chat has no rule for them.
    """
    clock = Clock()
    builder = bank_builder(PAY, *texts, now=clock)
    chat = builder.with_interrupted(RequireApproval()).build() if asks else builder.build()
    conversation = conversation_of("Pay.")
    await chat.complete(conversation)
    tool = conversation.messages.tool("call_1")
    tool.approve(by="ana", at=clock())
    tool.start(clock())
    tool.lost("the process died")
    return chat, conversation


def conversation_of(*texts: str, owner: str = "ana") -> MemoryConversation:
    """Return a stored conversation of ana, with one user message for each text."""
    messages = Messages()
    for text in texts:
        messages.user(text)
    return MemoryConversation(messages, id="c-1", owner=owner)


def ana(now: Callable[[], datetime] = lambda: NOW) -> Decider:
    """Return ana, who may decide the calls of her own conversations."""
    return Decider(ANA, owner_may_decide, now)
