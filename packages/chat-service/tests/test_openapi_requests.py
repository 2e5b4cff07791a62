"""Random requests that the OpenAPI document describes: no response has status 5xx, and the document describes each."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from chat_service import ServiceSettings
from chat_store import MemoryStore
from openapi_helpers import EXAMPLES, send_requests
from service_helpers import CALL, Client, build_service, scripted, serving

pytestmark = pytest.mark.anyio


async def create_objects(client: Client) -> tuple[list[str], list[str]]:
    """Create an answered and a waiting session, and return the ids of sessions and runs."""
    answered = (await client.post("/api/v1/chat", {"message": "Hello."})).json
    waiting = (await client.post("/api/v1/chat", {"message": "Hello."})).json
    waiting = (await client.post("/api/v1/chat", {"message": "Pay.", "session_id": waiting["session_id"]})).json
    assert waiting["status"] == "paused"
    return [found["session_id"] for found in (answered, waiting)], [found["run_id"] for found in (answered, waiting)]


async def test_random_requests_get_only_described_responses(store: MemoryStore) -> None:
    limits = ServiceSettings(poll_seconds=0.2, requests_per_minute=0, address_requests_per_minute=0)
    model = scripted("Good morning.", ["I will pay. ", CALL], *["It is paid."] * 1000)
    async with serving(build_service(store, model, settings=limits)) as client:
        document = (await client.get("/openapi.json")).json
        for path in ("/v1/responses", "/v1/chat/completions"):  # a random name is no model
            body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
            body["properties"]["model"] = {"const": "clerk"}
        sessions, runs = await create_objects(client)
        sent = await anyio.to_thread.run_sync(partial(send_requests, client, document, sessions, runs))

    assert sent > EXAMPLES * len(document["paths"])
