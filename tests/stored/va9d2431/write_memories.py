"""Write memories.db and memories.sql. Runs against commit a9d2431 alone: python write_memories.py."""

from __future__ import annotations

import asyncio
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from chat_memory import Entity, Memory, Passage, Relation, SessionCitation, SqliteMemory, Statement
from chat_memory.postgres import PostgresMemory
from chat_store.testing.postgres_server import PostgresServer, _programs_folder

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
SCHEMA = "stored_a9d2431"


async def fill(memory: Memory) -> None:
    async with memory:
        ana, ben = memory.scope("ana"), memory.scope("ben")
        texts = ["I live in Berlin.", "How is the weather?", "It rains.", "I bought a kayak."]
        await ana.add_passages([Passage(text, "chat-1", n, speaker="Ana", said_at=NOON) for n, text in enumerate(texts)])
        home = Statement("Ana", "lives in", "Berlin", said_at=NOON, citation=SessionCitation("chat-1", 0))
        await ana.add(home)
        await ana.add(Statement("Ana", "lives in", "Paris", source="inferred", said_at=NOON))
        await ana.add_entity(Entity("Berlin", "place"))
        await ana.relate(Relation("Berlin", "part of", "Germany"))
        await ana.put_record("chat-1", "report", {"facts": 2})
        await ana.set_block("persona", "Short answers.")
        documents = await ana.documents()
        await ana.put_vectors("first", {item.id: [1.0, float(item.id)] for item in documents if item.position != 3})
        await ana.put_vectors("second", {documents[0].id: [1.0, 2.0, 3.0]})
        await ben.add_passages([Passage("Tea, please.", "chat-2")])


def main() -> None:
    folder = Path(__file__).parent
    (folder / "memories.db").unlink(missing_ok=True)
    asyncio.run(fill(SqliteMemory(folder / "memories.db", now=lambda: NOON)))
    with PostgresServer() as server:
        asyncio.run(fill(PostgresMemory(server.dsn, schema=SCHEMA, now=lambda: NOON)))
        program = [_programs_folder() / "pg_dump", f"--schema={SCHEMA}", "--inserts", "--no-owner", server.dsn]
        dump = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    lines = [line for line in dump.splitlines() if line and not line.startswith(("--", "SET ", "\\", "SELECT pg_catalog.set_config("))]
    (folder / "memories.sql").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
