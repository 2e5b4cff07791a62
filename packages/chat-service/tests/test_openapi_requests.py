"""Random requests that the OpenAPI document describes: no response has status 5xx, and the document describes each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest
import schemathesis
from chat_service import ServiceSettings
from chat_store import MemoryStore
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks
from service_helpers import CALL, Client, build_service, scripted, serving

pytestmark = pytest.mark.anyio
EXAMPLES = 300 if os.environ.get("CHAT_THOROUGH") else 8
"""Requests for each operation, for each kind of data and for each session or run."""
_GENERAL: Any = checks
_OPENAPI: Any = openapi_checks
CHECKS = [
    _GENERAL.not_a_server_error,
    _OPENAPI.status_code_conformance,
    _OPENAPI.content_type_conformance,
    _OPENAPI.response_headers_conformance,
    _OPENAPI.response_schema_conformance,
]


async def create_objects(client: Client) -> tuple[list[str], list[str]]:
    """Create an answered and a waiting session, and return the ids of sessions and runs."""
    answered = (await client.post("/api/v1/chat", {"message": "Hello."})).json
    waiting = (await client.post("/api/v1/chat", {"message": "Hello."})).json
    waiting = (await client.post("/api/v1/chat", {"message": "Pay.", "session_id": waiting["session_id"]})).json
    assert waiting["status"] == "paused"
    return [found["session_id"] for found in (answered, waiting)], [found["run_id"] for found in (answered, waiting)]


def send_requests(client: Client, document: Mapping[str, Any], sessions: Sequence[str], runs: Sequence[str]) -> int:
    """Send requests of each operation, check the responses, and return the number of requests."""
    schema: Any = schemathesis.openapi.from_dict(dict(document))
    sent = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        ids = sessions if "{session}" in operation.path else runs if "{run}" in operation.path else ()
        name = "session" if ids is sessions else "run"
        if operation.path.endswith("{session}/events"):
            ids = ()  # this stream does not end while the session exists
        for known in [None, *({name: found} for found in ids)]:
            for mode in schemathesis.GenerationMode:
                strategy = operation.as_strategy(generation_mode=mode, path_parameters=known)

                @settings(
                    max_examples=EXAMPLES,
                    deadline=None,
                    derandomize=True,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=[
                        HealthCheck.too_slow,
                        HealthCheck.filter_too_much,
                        HealthCheck.data_too_large,
                    ],
                )
                @given(case=strategy)
                def send(case: Any) -> None:
                    nonlocal sent
                    headers = {"authorization": f"Bearer {client.token}"}
                    response = case.call(base_url=f"http://127.0.0.1:{client.port}", headers=headers)
                    case.validate_response(response, checks=CHECKS)
                    sent += 1

                with suppress(Unsatisfiable):  # an operation without parameters has no invalid data
                    send()
    return sent


async def test_random_requests_get_only_described_responses(store: MemoryStore) -> None:
    limits = ServiceSettings(poll_seconds=0.2, requests_per_minute=0)
    model = scripted("Good morning.", ["I will pay. ", CALL], *["It is paid."] * 1000)
    async with serving(build_service(store, model, settings=limits)) as client:
        document = (await client.get("/openapi.json")).json
        for path in ("/v1/responses", "/v1/chat/completions"):  # a random name is no model
            body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
            body["properties"]["model"] = {"const": "clerk"}
        sessions, runs = await create_objects(client)
        sent = await anyio.to_thread.run_sync(partial(send_requests, client, document, sessions, runs))

    assert sent > EXAMPLES * len(document["paths"])
