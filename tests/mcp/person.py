"""An approver's decision, in a process of its own: `person.py STORE`. It uses neither a server nor MCP."""

from __future__ import annotations

import sys

import anyio
from chat_store import SqliteStore


async def main() -> None:
    async with SqliteStore(sys.argv[1]) as store, store.open("c") as conversation:
        (tool,) = conversation.messages.pending()
        sys.stdout.write(f"{tool.name} {tool.call.arguments}")
        tool.approve(by="ana")


if __name__ == "__main__":
    anyio.run(main)
