"""Agent example: a model requests a payment, an approver decides in the terminal, and the front end sees each event.

    python docs/examples/agent.py                   asks in the terminal
    python docs/examples/agent.py --unattended      approves by itself
    python docs/examples/agent.py --script          with a scripted model, which needs no weights

The events are printed as the server-sent events that a browser receives.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from json import dumps
from pathlib import Path

from chat_agents import AgentConfig, AgentEngine, AgentSession, Done, to_sse_event
from chat_core import Tool
from chat_core.approvals import escape_invisible
from chat_store import SqliteStore
from clerk import QUESTION, Clerk, open_model

EXPLANATION = """\
Lines on the left are the server-sent events that a browser receives: "event:" names an event, "data:" is its content.
Lines on the right are from the user and the approver.
"""


async def show(engine: AgentEngine, session: AgentSession, message: str | None) -> str:
    """Run the agent, print its events, and return the outcome."""
    async with engine.run(Clerk(), session, message) as run:
        async for event in run:
            sys.stdout.write(to_sse_event(event).decode())
            if isinstance(event, Done):
                return event.outcome
    return "failed"


def decide(call: Tool, *, unattended: bool) -> None:
    """Let the approver decide about a call that waits."""
    arguments = escape_invisible(dumps(dict(call.effective_arguments), ensure_ascii=False))
    question = f"{'':>60}? {call.name} {arguments}: approve? [y/n] "
    answer = "y" if unattended else input(question)
    if unattended:
        sys.stdout.write(f"{question}{answer}\n")
    if answer.strip().lower().startswith("y"):
        call.approve(by="the approver")
    else:
        call.reject("The approver said no.", by="the approver")


async def tell(folder: Path, *, script: bool, unattended: bool) -> int:
    """Ask, decide until nothing waits, and print the usage. Return the exit status."""
    async with open_model(script=script) as (model, options), SqliteStore(folder / "sessions.db") as store:
        engine = AgentEngine(model, AgentConfig(options=options))
        session = await AgentSession.open(store, flow="clerk", owner="ana")
        sys.stdout.write(f"{EXPLANATION}\n{'':>60}ana: {QUESTION}\n")
        outcome = await show(engine, session, QUESTION)
        while outcome == "paused":
            async with session.edit() as messages:
                for call in messages.pending():
                    decide(call, unattended=unattended)
            outcome = await show(engine, session, None)
        sys.stdout.write(f"{'':>60}{session.usage.totals.total_tokens} tokens in {session.usage.totals.calls} calls\n")
    return 0 if outcome == "answered" else 1


def main() -> int:
    """Run the example, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("agent-demo"), help="folder of the stored sessions")
    parser.add_argument("--script", action="store_true", help="use a scripted model")
    parser.add_argument("--unattended", action="store_true", help="approve without asking")
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True, exist_ok=True)
    unattended = flags.unattended or not sys.stdin.isatty()
    return asyncio.run(tell(flags.folder, script=flags.script, unattended=unattended))


if __name__ == "__main__":
    sys.exit(main())
