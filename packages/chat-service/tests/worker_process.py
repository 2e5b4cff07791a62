"""A process that serves an agent: `python worker_process.py SECONDS FILE` or `… SECONDS DSN SCHEMA`.

It prints its port. SECONDS is the length of its leases, and the interval in which its followers read the store.
"""

from __future__ import annotations

import sys

import anyio
import uvicorn
from chat_inbox.__main__ import listen
from chat_service import ServiceSettings
from chat_store import SqliteStore
from chat_store.postgres import PostgresStore
from service_helpers import SteppedModel, build_service, scripted

ANSWER = "One moment please, I am thinking."


def open_store(address: str, schema: str | None = None, *, seconds: int = 2) -> SqliteStore | PostgresStore:
    """Return a store in a SQLite file, or in a schema of a PostgreSQL database."""
    if schema is None:
        return SqliteStore(address, lease_seconds=seconds)
    return PostgresStore(address, schema=schema, lease_seconds=seconds)


async def serve(seconds: int, address: list[str]) -> None:
    async with open_store(*address, seconds=seconds) as store:
        model = SteppedModel(scripted(ANSWER), 3)  # the stream stops there for good
        service = build_service(store, model, settings=ServiceSettings(poll_seconds=seconds / 10, ping_seconds=seconds))
        listener = listen(0)
        with listener:
            sys.stdout.write(f"{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            await uvicorn.Server(uvicorn.Config(service, log_level="warning", ws="none")).serve(sockets=[listener])


if __name__ == "__main__":
    anyio.run(serve, int(sys.argv[1]), sys.argv[2:])
