"""Endpoints of the Responses API without a method of their own are reached with `fetch()`, over a loopback server."""

from __future__ import annotations

import json

import pytest
from chat_responses import ResponsesBuilder
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio

KEY = "sk-test-1234567890"
COMPACTED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "abc"}


@pytest.mark.parametrize("path", ["/responses/compact", "/conversations"])
async def test_fetch_sends_a_request_to_another_endpoint_with_the_key(path: str) -> None:
    def serve(exchange: Exchange) -> None:
        exchange.answer(200, (("content-type", "application/json"),), json.dumps({"output": [COMPACTED]}).encode())

    with LoopbackServer(serve) as server:
        provider = (
            ResponsesBuilder().with_base_url(f"http://{server.host}/v1").with_api_key(KEY).with_model("m").build()
        )
        async with provider:
            request = provider.endpoint.request(path, b'{"model": "m"}', None, stream=False)
            found = json.loads(await provider.fetch(request))

    assert found["output"] == [COMPACTED]
    (exchange,) = server.exchanges
    assert (exchange.method, exchange.path) == ("POST", f"/v1{path}")
    assert exchange.headers["authorization"] == f"Bearer {KEY}"
    assert exchange.body == b'{"model": "m"}'
