"""The chat: a model, two tools, and who may use them. Everything else in this folder is about people and processes."""

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
    """What the policy is told about a tool. The library has no opinion on what belongs here."""

    moves_money: bool


def policy(call: FunctionCall, risk: Risk) -> Execute | RequireApproval | Reject:
    """Say who decides about a call. Its arguments have been validated: they are exactly what would run."""
    cents = call.arguments.get("cents")
    if not risk.moves_money:
        return Execute()
    if isinstance(cents, int) and cents > LIMIT:
        return Reject(f"payments of more than {LIMIT} cents are made at the counter")
    return RequireApproval(expires_in=timedelta(hours=24))


@final
@dataclass(frozen=True)
class Ledger:
    """The bank's side: a line for each payment, in a file that no conversation knows of, so that twice would show.

    `hold` is for trying what a crash does: a fifo that a payment waits at, after the money has gone.
    """

    path: Path
    hold: Path | None = None

    def pay(self, to: str, cents: int, key: str) -> None:
        """Write a payment, durably or not at all."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}  {cents} cents to {to}  {key}\n")

    def payments(self, key: str = "") -> list[str]:
        """Every payment; or those of one call, by its idempotency key."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return [line for line in lines if line.endswith(key)]

    def left(self) -> int:
        """What can still be spent."""
        return BUDGET - sum(int(line.split()[2]) for line in self.payments())


def make_tools(ledger: Ledger) -> ToolCollection[Risk]:
    """The tools. The model sees a function's name, its docstring and its parameters; never the `ToolContext`."""
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
    """Build the chat. Its type says that a run ends in an answer or in a pause.

    The pause is in the type twice: the policy may require an approval, and a payment in which the process died is a
    question for a person, too.
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
