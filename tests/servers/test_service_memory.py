"""A service with a memory in SQLite: random requests, and a fact that reaches the model until the user forgets it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_agents import AgentConfig, AgentEngine, PromptFlow
from chat_core.approvals import owner_may_decide
from chat_core.testing import ScriptedProvider
from chat_memory import SqliteMemory
from chat_memory.owner_memory import OwnerMemory
from chat_memory.recall import Recall
from chat_service import Service, ServiceSettings
from chat_store import SqliteStore
from openapi_helpers import send_requests
from service_helpers import BO, TOKENS, Client, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[Client]:
    model = ScriptedProvider("You live in Paris.", "I do not know.", by_history=True)
    async with SqliteStore(tmp_path / "sessions.db") as store, SqliteMemory(tmp_path / "memory.db") as memory:
        recall = Recall(memory)
        config = AgentConfig(memory=recall, memory_scope=lambda context: context.owner)
        service = Service(
            AgentEngine(model, config),
            PromptFlow("clerk", "You are a clerk."),
            store,
            authenticate=TOKENS,
            may_decide=owner_may_decide,
            settings=ServiceSettings(poll_seconds=0.2, requests_per_minute=0, address_requests_per_minute=0),
            memory=OwnerMemory(memory, store, recall=recall),
        )
        async with serving(service) as opened:
            yield opened


async def test_random_requests_get_only_described_responses(client: Client) -> None:
    document: dict[str, Any] = (await client.get("/openapi.json")).json
    document["paths"] = {path: found for path, found in document["paths"].items() if "/memory" in path}
    sent = await anyio.to_thread.run_sync(partial(send_requests, client, document, [], []))

    assert (len(document["paths"]), sent >= 50) == (5, True)


async def test_a_fact_reaches_the_model_until_it_is_forgotten(client: Client) -> None:
    statement = {"subject": "user", "predicate": "lives in", "object": "Paris"}
    added = await client.post("/api/v1/memory/facts", statement)
    fact = added.json["fact"]["id"]
    session = (await client.post("/api/v1/chat", {"message": "Where do I live?"})).json["session_id"]
    path = f"/api/v1/sessions/{session}/recalled"
    recalled = (await client.get(path)).json["recalled"]
    stranger = await client.as_user(BO).request("DELETE", f"/api/v1/memory/facts/{fact}")
    forgotten = await client.request("DELETE", f"/api/v1/memory/facts/{fact}")
    after = (await client.get(path)).json["recalled"]
    found = (await client.get("/api/v1/memory/search?q=Where+do+I+live%3F")).json

    assert (added.status, added.json["outcome"]) == (201, "inserted")
    assert [note["text"] for note in recalled[0]["notes"]] == [added.json["fact"]["text"]]
    assert (stranger.status, forgotten.status, forgotten.json["redacted"]) == (404, 200, [session])
    assert (after, found["matches"]) == ([], [])
