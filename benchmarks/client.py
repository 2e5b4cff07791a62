"""Process of one benchmark client: runs a slot of work on request and reports its cost.

Usage: client.py WHO WORK WIRE PORT, then a line on standard input for each slot.
"""

from __future__ import annotations

import asyncio
import importlib
import sys

from work import Works, serve


def works(who: str, work: str, wire: str, port: int) -> Works:
    """Return the work that a client supports. Import only the modules of that client."""
    name, _, over = who.partition("-")
    path = f"/{work}/{who}"
    base = f"http://127.0.0.1:{port}{path}"
    if who == "sockets":
        from raw import Sockets

        return Sockets(port, path).works()
    if name in {"raw", "bytes"}:
        from raw import Counting, Raw

        library = importlib.import_module(over or "httpx")
        return Raw(library, base, work, wire).works() if name == "raw" else Counting(library, base).works()
    if who == "chat-agent":
        from agent import Agent

        return Agent(base, wire).works()
    if who in {"chat-router", "chat-talk"}:
        from layers import Routed, Talk

        return (Routed if who == "chat-router" else Talk)(base, wire).works()
    if name == "chat":
        from ours import Ours

        return Ours(base, work, wire, over).works()
    from peers import peer

    return peer(who, base)


async def main(who: str, work: str, wire: str, port: str) -> None:
    """Create the client and serve slots of work."""
    # Libraries may print while they are imported or used. Keep their output out of the protocol.
    answers, sys.stdout = sys.stdout, sys.stderr
    await serve(works(who, work, wire, int(port)), work, answers)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
