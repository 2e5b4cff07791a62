"""Health checks, which need no token."""

from __future__ import annotations

import pytest
from chat_store import MemoryStore
from service_helpers import build_service, scripted, serving

pytestmark = pytest.mark.anyio


async def test_a_service_is_live_and_ready(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        replies = [await client.as_user(None).get(path) for path in ("/health", "/health/live", "/health/ready")]

    assert [(reply.status, reply.json["status"]) for reply in replies] == [(200, "ok")] * 3
    assert replies[0].json["version"]


async def test_a_service_without_its_store_is_live_and_not_ready(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(**_: object) -> None:
        msg = "cannot connect to db.internal"
        raise OSError(msg)

    async with serving(build_service(store, scripted())) as client:
        monkeypatch.setattr(store, "conversations", failing)
        live, ready = await client.get("/health/live"), await client.get("/health/ready")

    assert (live.status, ready.status, ready.json["status"]) == (200, 503, "store_unavailable")
    assert b"db.internal" not in ready.body
