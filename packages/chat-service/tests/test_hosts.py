"""Requests to foreign host names and from pages of other sites."""

from __future__ import annotations

import pytest
from chat_service import ServiceSettings
from chat_store import MemoryStore
from service_helpers import build_service, scripted, serving

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("[::1]:8080", 200),
        ("chat.example.org", 200),
        ("evil.example.org", 403),
        ("127.0.0.1.evil.example.org", 403),
        ("localhost:80:80", 403),
        ("", 403),
    ],
)
async def test_only_known_host_names_are_served(store: MemoryStore, host: str, status: int) -> None:
    settings = ServiceSettings(hosts=("Chat.example.org",), workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client:
        found = [(await client.get(path, host=host)).status for path in ("/health", "/api/v1/sessions")]

    assert found == [status, status]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"origin": "http://localhost"}, 201),
        ({"origin": "http://evil.example.org"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "http://localhost"}, 201),
    ],
)
async def test_a_page_of_another_site_cannot_change_anything(
    store: MemoryStore, headers: dict[str, str], status: int
) -> None:
    async with serving(build_service(store, scripted(), settings=ServiceSettings(workers=0))) as client:
        reply = await client.request("POST", "/api/v1/sessions", {}, headers={"host": "localhost", **headers})

    assert reply.status == status
    assert len(await store.conversations()) == (status == 201)
