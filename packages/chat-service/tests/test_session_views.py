"""Changes of a session, and recalled notes, as the chat page reads them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime

import pytest
from chat_core.messages import Content, Messages, Recalled, RecalledNote, Text, Turn
from chat_service import ServiceSettings
from chat_service.run_records import Run
from chat_service.runs import Runs
from chat_service.session_views import recalled_notes
from chat_store import MemoryStore
from service_helpers import BO, Event, build_service, scripted, serving

pytestmark = pytest.mark.anyio


async def test_changes_of_a_session_are_streamed_until_it_is_closed(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        session = (await client.post("/api/v1/sessions", {"title": "Greetings"})).json["id"]
        async with client.stream("GET", f"/api/v1/sessions/{session}/events") as events:
            first = await anext(events)
            reply = await client.post("/api/v1/chat", {"message": "Hello.", "session_id": session})
            states = [event.data["state"] async for event in _until(events, "answered")]
            await client.request("DELETE", f"/api/v1/sessions/{session}")
            names = [event.name async for event in events]

    assert first.data == {"title": "Greetings", "run_id": None, "state": None}
    assert states[-1] == "answered"
    assert {*states} <= {"queued", "running", "answered"}
    assert (reply.status, names[-1]) == (200, "closed")


async def test_a_stream_without_comments_waits_for_changes_of_its_session(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_session, reads = Runs.of_session, list[str]()

    async def reading(runs: Runs, session_id: str) -> list[Run]:
        reads.append(session_id)
        return await of_session(runs, session_id)

    monkeypatch.setattr(Runs, "of_session", reading)
    async with serving(build_service(store, scripted(), settings=ServiceSettings(ping_seconds=0))) as client:
        session = (await client.post("/api/v1/sessions", {})).json["id"]
        async with client.stream("GET", f"/api/v1/sessions/{session}/events") as events:
            await anext(events)
            for _ in range(5):
                await client.get("/health")

    assert reads == [session]


async def _until(events: AsyncIterator[Event], state: str) -> AsyncGenerator[Event]:
    async for event in events:
        yield event
        if event.data["state"] == state:
            return


async def test_a_session_of_another_user_is_not_found(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        session = (await client.post("/api/v1/sessions", {})).json["id"]
        found = [
            (await client.as_user(BO).get(f"/api/v1/sessions/{session}/{name}")).status
            for name in ("events", "recalled")
        ]

    assert found == [404, 404]


async def test_recalled_notes_are_listed_with_the_number_of_their_message(store: MemoryStore) -> None:
    note = RecalledNote("Ana likes tea.", "session 1", datetime(2026, 1, 2, tzinfo=UTC), 0.5)
    recalled = Turn([Recalled((note,))], by="engine")
    messages = Messages([
        Content("user", [Turn([Text("Hello.")])]),
        Content("model", [Turn([Text("Hello.")])]),
        Content("user", [Turn([Text("Tea?")]), recalled]),
    ])  # fmt: skip
    async with serving(build_service(store, scripted())) as client:
        session = "6b1e0a4c-5d0f-4c39-9f0e-2a7d8f6b3c11"
        await store.create(messages, id=session, owner="ana")
        reply = await client.get(f"/api/v1/sessions/{session}/recalled")

    described = {
        "text": "Ana likes tea.",
        "source": "session 1",
        "said_at": "2026-01-02T00:00:00+00:00",
        "confidence": 0.5,
    }
    assert reply.json == {"recalled": [{"message": 1, "notes": [described]}]}
    assert recalled_notes(messages) == reply.json["recalled"]
