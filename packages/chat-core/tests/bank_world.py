"""A bank with two tools and a policy, for tests of the triage of calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from chat_core import (
    Action,
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.messages import Tool, Turn
from chat_core.testing import ScriptedProvider

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Risk:
    high: bool


class Bank:
    """Two tools with risks, a record of executed calls, and a clock."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []
        self.now = NOON
        self.tools = ToolCollection(Risk)

        @self.tools.tool(Risk(high=True))
        async def pay(to: str, cents: int = 100) -> str:
            self.paid.append((to, cents))
            return f"paid {cents} to {to}"

        @self.tools.tool(Risk(high=False))
        async def balance() -> int:
            return 7

    def chat(self, model: ScriptedProvider, policy: Policy) -> StreamingChat[ChatResponse, Paused]:
        scope = ScopedCollection(self.tools, policy)
        return ChatBuilder().with_model(model).with_scoped_tools(scope).with_clock(lambda: self.now).build()


class Policy:
    """Policy whose actions a test can change."""

    def __init__(self, action: Action[Paused]) -> None:
        self.action = action
        self.asked: list[FunctionCall] = []

    def __call__(self, call: FunctionCall, risk: Risk) -> Action[Paused]:
        self.asked.append(call)
        return self.action if risk.high else Execute()


PAY = FunctionCall("pay", {"to": "bo"}, id="call_1")
BALANCE = FunctionCall("balance", {}, id="call_2")


async def paused(bank: Bank, policy: Policy, *script: FunctionCall) -> tuple[Messages, Paused]:
    messages = Messages.from_user("pay bo")
    end = await bank.chat(ScriptedProvider(list(script) or [PAY]), policy).complete(messages)
    assert isinstance(end, Paused)
    return messages, end


def left_running(bank: Bank, call: FunctionCall = PAY) -> Messages:
    del bank
    messages = Messages.from_user("pay")
    tool = Tool(call, call_id=call.id)
    messages.append("model", Turn([tool], finish_reason="tool_calls"))
    tool.start(NOON)
    return Messages.from_json(messages.to_json())
