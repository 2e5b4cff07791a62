"""Types, tools and policies of the corpora."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

from chat_core import Execute, FunctionCall, Messages, Reject, RequireApproval, ToolCollection

from fakes import FakeComplete, FakeEmbed, FakeFull, FakeStream

LATER = datetime(2999, 1, 1, tzinfo=UTC)


@final
@dataclass(frozen=True)
class City:
    name: str


@final
@dataclass(frozen=True)
class Risk:
    high: bool


full = FakeFull()
complete_only = FakeComplete()
embed_only = FakeEmbed()
stream_only = FakeStream()
city = FakeFull('{"name": "Utrecht"}')
pays = FakeFull(FunctionCall("pay", {"amount": 500}), "paid")

plain = ToolCollection()
risky = ToolCollection(Risk)
more = ToolCollection(Risk)


@plain.tool
def clock(zone: str = "UTC") -> str:
    """Return the time."""
    return f"noon in {zone}"


@risky.tool(Risk(high=True))
async def pay(amount: int, *, to: str = "nobody") -> str:
    """Pay a bill."""
    return f"{amount} to {to}"


@more.tool(Risk(high=False))
def balance(account: str) -> int:
    """Read a balance."""
    return len(account)


def ask_if_high(call: FunctionCall, risk: Risk) -> Execute | RequireApproval:
    del call
    return RequireApproval() if risk.high else Execute()


def refuse_if_high(call: FunctionCall, risk: Risk) -> Execute | Reject:
    del call
    return Reject("too risky") if risk.high else Execute()


async def ask_if_high_async(call: FunctionCall, risk: Risk) -> Execute | RequireApproval:
    del call
    return RequireApproval() if risk.high else Execute()


async def refuse_if_high_async(call: FunctionCall, risk: Risk) -> Execute | Reject:
    del call
    return Reject("too risky") if risk.high else Execute()


def hi() -> Messages:
    """Return a conversation that has just begun."""
    return Messages.from_user("hi")


def true(claim: object) -> None:
    """Assert something about the run without narrowing any type."""
    if not claim:
        raise AssertionError
