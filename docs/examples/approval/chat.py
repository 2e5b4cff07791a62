"""The chat: a model, two tools and an approval policy. The other modules handle users and processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, final

from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    ChatResponse,
    Execute,
    FunctionCall,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolContext,
)
from pydantic import Field

BUDGET = 10_000_00
LIMIT = 1_000_00


@final
@dataclass(frozen=True)
class Risk:
    """Metadata of a tool for the policy. The application defines its fields."""

    moves_money: bool


@final
@dataclass(frozen=True)
class Payment:
    """Arguments of a tool that moves money, for the policy."""

    cents: int


def policy(call: FunctionCall, risk: Risk) -> Execute | RequireApproval | Reject:
    """Return whether a call runs, needs approval or is rejected.

    The arguments have been validated and are exactly those that would run.
    """
    if not risk.moves_money:
        return Execute()
    if call.arguments_as(Payment).cents > LIMIT:
        return Reject(f"payments of more than {LIMIT} cents are made at the counter")
    return RequireApproval(expires_in=timedelta(hours=24))


@final
@dataclass(frozen=True)
class Ledger:
    """The bank's ledger: a file with one line per payment, separate from the conversation, so duplicates are visible.

    `hold` is for crash tests: a FIFO at which a payment waits after the money has been sent.
    """

    path: Path
    hold: Path | None = None

    def pay(self, to: str, cents: int, key: str) -> None:
        """Append a payment to the ledger."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}  {cents} cents to {to}  {key}\n")

    def payments(self, key: str = "") -> list[str]:
        """Return all payments, or those of the call with the given idempotency key."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return [line for line in lines if line.endswith(key)]

    def left(self) -> int:
        """Return the remaining budget in cents."""
        return BUDGET - sum(int(line.split()[2]) for line in self.payments())


def make_tools(ledger: Ledger) -> ToolCollection[Risk]:
    """Create the tools. The model sees a function's name, docstring and parameters, but not the `ToolContext`."""
    tools = ToolCollection(Risk)

    @tools.tool(Risk(moves_money=True))
    def pay(to: str, cents: Annotated[int, Field(gt=0)], context: ToolContext) -> str:
        """Pay somebody money.

        Args:
            to: who gets it
            cents: how much
            context: which call this is
        """
        ledger.pay(to, cents, context.idempotency_key)
        if ledger.hold is not None:
            context.progress("the money has gone, and this process waits: a good moment for kill -9")
            ledger.hold.read_bytes()
        return f"Paid {cents} cents to {to}. The payment is done."

    @tools.tool(Risk(moves_money=False))
    def budget() -> str:
        """Tell how much is left in the budget."""
        return f"{ledger.left()} cents are left"

    return tools


def make_chat(model: ChatProvider, options: ChatOptions, ledger: Ledger) -> StreamingChat[ChatResponse, Paused]:
    """Build the chat. Its type states that a run ends with a response or a pause.

    A run can pause for two reasons: the policy requires an approval, or the process died during a payment and the user
    must decide what happened.
    """
    return (
        ChatBuilder()
        .with_model(model)
        .with_options(options)
        .with_scoped_tools(ScopedCollection(make_tools(ledger), policy))
        .with_interrupted(RequireApproval())
        .with_max_steps(4)
        .build()
    )
