"""Flows, tools and helpers that several tests of agents share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession, Data, Done, Error, Text, ToolStatus
from chat_core import Data as ToolPayload
from chat_core import (
    Execute,
    FunctionCall,
    Paused,
    Reject,
    RequireApproval,
    Retry,
    RunContext,
    ScopedCollection,
    ToolCollection,
    ToolOutput,
    ToolScope,
)
from chat_core.testing import ScriptedProvider

NO_RETRIES = Retry(times=0)


class Desk(AgentFlow[Paused]):
    """A flow whose tools record their effects: `find` runs, `pay` needs an approval, `boom` raises."""

    name = "desk"

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.prompts = 0

    def instructions(self, context: RunContext, /) -> str:
        self.prompts += 1
        return f"You help {context.owner}."

    def scopes(self) -> Sequence[ToolScope[Paused]]:
        tools = ToolCollection()

        @tools.tool
        async def find(parcel: str, doing: str = "") -> ToolOutput:
            """Find a parcel."""
            del doing
            self.effects.append(f"find {parcel}")
            return ToolOutput(
                f"{parcel} is in Utrecht", data=ToolPayload("map", {"parcel": parcel}), state={"last": parcel}
            )

        @tools.tool
        async def pay(amount: int) -> str:
            """Pay an amount."""
            self.effects.append(f"pay {amount}")
            return f"paid {amount}"

        @tools.tool
        async def boom() -> str:
            """Fail."""
            self.effects.append("boom")
            msg = "projects/secret at https://vertex.example/v1?key=sk-123 failed with 404 in /etc/passwd"
            raise LookupError(msg)

        return [ScopedCollection(tools, decide)]


def decide(call: FunctionCall, meta: None) -> Execute | Reject | RequireApproval:
    del meta
    if call.name == "pay":
        return RequireApproval() if call.arguments["amount"] != 0 else Reject("nothing to pay")
    return Execute()


def call_find(parcel: str = "P1", **arguments: object) -> FunctionCall:
    return FunctionCall("find", {"parcel": parcel, **arguments}, id=f"find_{parcel}")


def call_pay(amount: int = 5) -> FunctionCall:
    return FunctionCall("pay", {"amount": amount}, id=f"pay_{amount}")


def call_boom(number: int = 1) -> FunctionCall:
    return FunctionCall("boom", id=f"boom_{number}")


def new_engine(*script: Any, **config: Any) -> tuple[AgentEngine, ScriptedProvider]:
    """An engine over a script, without retries unless the configuration has them."""
    provider = ScriptedProvider(*script)
    settings: dict[str, Any] = {"retry": NO_RETRIES, **config}
    return AgentEngine(provider, AgentConfig(**settings)), provider


async def collect(
    engine: AgentEngine,
    flow: AgentFlow[Paused],
    session: AgentSession,
    message: str | None = None,
    *,
    inject: Mapping[Any, object] | None = None,
) -> list[object]:
    async with engine.run(flow, session, message, inject=inject) as run:
        return [event async for event in run]


def short(events: Sequence[object]) -> list[str]:
    """Each event in a few characters, such as `text hello` or `find calling`; pieces of one text are joined."""
    found: list[str] = []
    for event in events:
        match event:
            case Text(delta):
                if found and found[-1].startswith("text "):
                    found[-1] += delta
                else:
                    found.append(f"text {delta}")
            case ToolStatus(tool, _, status):
                found.append(f"{tool} {status}")
            case Data(kind):
                found.append(f"data {kind}")
            case Error(code):
                found.append(f"error {code}")
            case Paused(waiting):
                found.append(f"paused {len(waiting)}")
            case Done(_, outcome):
                found.append(f"done {outcome}")
            case _:
                found.append(repr(event))
    return found
