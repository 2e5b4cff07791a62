"""A service answers while its PostgreSQL tables are upgraded, by processes of this version or of a later one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, LiteralString
from uuid import uuid4

import anyio
import anyio.to_thread
import httpx
import psycopg
import pytest
from chat_agents import AgentConfig, AgentEngine, PromptFlow
from chat_core.approvals import Principal, owner_may_decide
from chat_core.errors import NewerVersionError
from chat_core.testing import ScriptedProvider
from chat_service import BearerTokens, Service, ServiceSettings, hash_token
from chat_store.postgres import PostgresStore
from chat_store.sql.postgres_migrations import migrate
from chat_store.testing.postgres_server import PostgresServer
from psycopg import sql

from .test_stores import CONVERSATIONS, restored

pytestmark = pytest.mark.anyio
CLIENTS = 4
"""Clients that send messages at the same time, each to a session of its own."""
LATER_STEPS: list[LiteralString] = [
    "ALTER TABLE chat_jobs ADD COLUMN added BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE chat_entries ADD COLUMN added TEXT",
    "ALTER TABLE chat_conversations ADD COLUMN added BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX chat_conversations_added ON chat_conversations (added)",
]
"""Steps of a later version. Each locks its table until the end of the migration."""


@asynccontextmanager
async def serving(server: PostgresServer, schema: str) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve an agent as a process with a store of its own does."""
    model = ScriptedProvider(*["It is noted."] * 100, by_history=True)
    flow = PromptFlow("clerk", "Be brief.")
    tokens = BearerTokens({hash_token("t"): Principal("ana")})
    settings = ServiceSettings(workers=4, poll_seconds=0.1, requests_per_minute=0, address_requests_per_minute=0)
    async with PostgresStore(server.dsn, schema=schema) as store:
        engine = AgentEngine(model, AgentConfig())
        service = Service(engine, flow, store, authenticate=tokens, may_decide=owner_may_decide, settings=settings)
        transport = httpx.ASGITransport(service)
        headers = {"authorization": "Bearer t"}
        async with (
            service,
            httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers, timeout=60) as client,
        ):
            yield client


async def send(client: httpx.AsyncClient, session: str | None, message: str) -> str:
    """Send a message to a session or to a new one, and return the id of the session."""
    reply = await client.post("/api/v1/chat", json={"session_id": session, "message": message})
    body: dict[str, Any] = reply.json()
    assert (reply.status_code, body.get("response")) == (200, "It is noted."), body
    return str(body["session_id"])


async def messages_of(client: httpx.AsyncClient, session: str) -> list[str]:
    """Return the messages of the user in a session."""
    found: dict[str, Any] = (await client.get(f"/api/v1/sessions/{session}/messages")).json()
    return [message["content"] for message in found["messages"] if message["role"] == "user"]


async def test_processes_that_upgrade_a_database_at_the_same_time_answer_at_once(postgres: PostgresServer) -> None:
    with restored(postgres) as schema:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(serving(postgres, schema)) for _ in range(CLIENTS)]
            sessions: dict[int, str] = {}

            async def converse(number: int) -> None:
                sessions[number] = await send(clients[number], None, f"first {number}")
                await send(clients[number], sessions[number], f"second {number}")

            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    for number in range(CLIENTS):
                        group.start_soon(converse, number)
            for number, session in sessions.items():
                found = await messages_of(clients[number - 1], session)
                assert found == [f"first {number}", f"second {number}"]
        async with PostgresStore(postgres.dsn, schema=schema) as store:
            listed = {meta.id for meta in await store.conversations(limit=1000)}
        assert listed == {*CONVERSATIONS, *sessions.values()}


async def test_a_service_answers_while_a_later_version_upgrades_its_tables(postgres: PostgresServer) -> None:
    schema = f"later_{uuid4().hex}"
    sent: dict[int, list[str]] = {number: [] for number in range(CLIENTS)}
    sessions: dict[int, str] = {}
    is_upgraded = anyio.Event()

    async with serving(postgres, schema) as client:

        async def converse(number: int) -> None:
            rounds_after = 0
            while rounds_after < 2:
                rounds_after += is_upgraded.is_set()
                sent[number].append(f"message {len(sent[number])} of {number}")
                sessions[number] = await send(client, sessions.get(number), sent[number][-1])

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(CLIENTS):
                    sent[number].append("hello")
                    sessions[number] = await send(client, None, "hello")
                    group.start_soon(converse, number)
                await anyio.to_thread.run_sync(upgrade, postgres.dsn, schema)
                is_upgraded.set()
        for number, session in sessions.items():
            assert await messages_of(client, session) == sent[number]
        with pytest.raises(NewerVersionError, match="upgrade the library"):
            async with PostgresStore(postgres.dsn, schema=schema) as late:
                await late.conversations()
        assert (await client.get("/health/ready")).status_code == 200


def upgrade(dsn: str, schema: str) -> None:
    """Upgrade the tables as a process of a later version does."""
    with psycopg.connect(dsn) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        row = connection.execute("SELECT version FROM chat_schema").fetchone()
        assert row is not None
        earlier: list[list[LiteralString]] = [[] for _ in range(int(row[0]))]
        migrate(connection, schema, [*earlier, LATER_STEPS])
