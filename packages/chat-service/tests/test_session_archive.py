"""Export, import and reopening of sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.messages import Messages
from chat_service.session_archive import ExportSignatures
from chat_store import MemoryStore
from service_helpers import BO, CALL, UNKNOWN_ID, Client, approve, build_service, scripted, serving

pytestmark = pytest.mark.anyio


async def export_session(client: Client) -> dict[str, Any]:
    """Answer a message in a new session, and return the exported session."""
    session_id = (await client.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
    await client.request("PATCH", f"/api/v1/sessions/{session_id}", {"title": "First", "metadata": {"color": "red"}})
    return (await client.get(f"/api/v1/sessions/{session_id}/export")).json


async def test_an_export_becomes_a_new_session_with_the_same_history(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning.", "Good night."))) as client:
        exported = await export_session(client)
        (first,) = (await client.get("/api/v1/sessions")).json["sessions"]
        imported = await client.post("/api/v1/import", exported)
        asked = await client.post("/api/v1/chat", {"message": "And now?", "session_id": imported.json["id"]})
        original = await store.load(first["id"])
        copy = await store.load(imported.json["id"])

    assert (imported.status, imported.json["title"], imported.json["metadata"]) == (201, "First", {"color": "red"})
    assert (imported.json["turn_count"], imported.json["id"] != first["id"]) == (1, True)
    assert (asked.status, asked.json["response"]) == (200, "Good night.")
    assert original.messages.to_json() == exported["document"]
    assert [content.text for content in copy.messages] == ["Hello.", "Good morning.", "And now?", "Good night."]
    assert (copy.owner, Messages.from_json(exported["document"])) == ("ana", original.messages)


async def test_an_export_is_accepted_by_another_process_with_the_same_secret(store: MemoryStore) -> None:
    secret = b"s" * 32
    async with serving(build_service(store, scripted("Good morning."), secret=secret)) as client:
        exported = await export_session(client)
    async with serving(build_service(store, scripted(), secret=secret)) as client:
        same = await client.post("/api/v1/import", exported)
    async with serving(build_service(store, scripted())) as client:
        other = await client.post("/api/v1/import", exported)

    assert (same.status, other.status) == (201, 400)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({"document": '{"version":1,"contents":[]}'}, "signature", id="fabricated"),
        pytest.param({"document": '{"version":1,"contents":[{'}, "signature", id="truncated"),
        pytest.param({"signature": "ä" * 64}, "signature", id="signature-not-ascii"),
        pytest.param({"document": {}}, "must be strings", id="document-not-text"),
        pytest.param({"version": 2}, "version", id="version"),
        pytest.param({"format": "other"}, "format", id="format"),
        pytest.param({"title": 5}, "title", id="title"),
        pytest.param({"metadata": []}, "metadata", id="metadata"),
        pytest.param({"title": "a\x00"}, "cannot be stored", id="title-not-storable"),
    ],
)
async def test_a_changed_export_is_refused(store: MemoryStore, changes: dict[str, Any], text: str) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        exported = await export_session(client)
        reply = await client.post("/api/v1/import", {**exported, **changes})
        total = (await client.get("/api/v1/sessions")).json["total"]

    assert (reply.status, reply.json["code"], total) == (400, "bad_request", 1)
    assert text in reply.json["message"]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        pytest.param("{", "damaged", id="not-json"),
        pytest.param('{"version": 1, "contents": [{"role": "pilot"}]}', "damaged", id="unknown-role"),
        pytest.param('{"version": 2, "contents": []}', "newer version", id="newer-version"),
    ],
)
async def test_a_damaged_document_is_refused(store: MemoryStore, document: str, text: str) -> None:
    secret = b"s" * 32
    signature = ExportSignatures(secret).sign("ana", document)
    body = {"format": "chat-service/session", "version": 1, "document": document, "signature": signature}
    async with serving(build_service(store, scripted(), secret=secret)) as client:
        reply = await client.post("/api/v1/import", body)

    assert reply.status == 400
    assert text in reply.json["message"]


async def test_sessions_of_another_user_are_neither_exported_nor_imported_nor_reopened(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        exported = await export_session(client)
        session_id = (await client.get("/api/v1/sessions")).json["sessions"][0]["id"]
        path = f"/api/v1/sessions/{session_id}"
        await client.request("DELETE", path)
        bo = client.as_user(BO)
        replies = [await bo.get(f"{path}/export"), await bo.post(f"{path}/reopen"), await bo.get(path)]
        imported = await bo.post("/api/v1/import", exported)
        unknown = await client.post(f"/api/v1/sessions/{UNKNOWN_ID}/reopen")

    assert [reply.status for reply in replies] == [404, 404, 404]
    assert (imported.status, unknown.status) == (400, 404)
    assert (await store.meta(session_id)).state == "closed"


async def test_a_waiting_call_is_exported_but_not_imported(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted(["I will pay.", CALL], "It is paid."))) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay."})).json
        path = f"/api/v1/sessions/{paused['session_id']}"
        waiting = (await client.get(f"{path}/export")).json
        refused = await client.post("/api/v1/import", waiting)
        await client.post(f"{path}/decisions", approve(paused["waiting"]))
        async with client.stream("GET", f"/api/v1/runs/{paused['run_id']}/events") as events:
            assert [event async for event in events][-1].name == "done"
        imported = await client.post("/api/v1/import", (await client.get(f"{path}/export")).json)

    assert (refused.status, refused.json["code"]) == (409, "conflict")
    assert (imported.status, imported.json["turns"][0]["assistant_response"]) == (201, "It is paid.")


async def test_grants_of_an_export_are_not_imported(store: MemoryStore) -> None:
    document = json.dumps(
        {
            "version": 1,
            "contents": [],
            "grants": [
                {
                    "id": "g1",
                    "tools": ["pay"],
                    "by": "ana",
                    "at": "2026-01-01T00:00:00+00:00",
                    "until": "2126-01-01T00:00:00+00:00",
                }
            ],
        }
    )
    assert len(Messages.from_json(document).grants) == 1
    secret = b"s" * 32
    signature = ExportSignatures(secret).sign("ana", document)
    body = {"format": "chat-service/session", "version": 1, "document": document, "signature": signature}
    async with serving(build_service(store, scripted(), secret=secret)) as client:
        reply = await client.post("/api/v1/import", body)

    assert reply.status == 201
    assert len((await store.load(reply.json["id"])).messages.grants) == 0


async def test_a_closed_session_is_listed_and_can_be_reopened(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning.", "Good night."))) as client:
        session_id = (await client.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        path = f"/api/v1/sessions/{session_id}"
        await client.request("DELETE", path)
        closed = (await client.get("/api/v1/sessions?state=closed")).json
        exported = await client.get(f"{path}/export")
        first, again = await client.post(f"{path}/reopen"), await client.post(f"{path}/reopen")
        asked = await client.post("/api/v1/chat", {"message": "And now?", "session_id": session_id})

    assert ([item["id"] for item in closed["sessions"]], closed["total"], exported.status) == ([session_id], 1, 200)
    assert (first.status, first.json["turn_count"], again.status) == (200, 1, 200)
    assert (asked.status, asked.json["response"]) == (200, "Good night.")
    assert exported.headers["content-disposition"] == f'attachment; filename="session-{session_id}.json"'
