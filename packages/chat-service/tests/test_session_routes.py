"""Sessions over HTTP: create, list, show, rename, close and delete."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.lowlevel
import pytest
from chat_service import ServiceSettings
from chat_store import ConversationMeta, Job, MemoryStore, Snapshot, UnknownConversationError
from service_helpers import BO, CALL, UNKNOWN_ID, SteppedModel, build_service, scripted, serving

pytestmark = pytest.mark.anyio


def index_job(meta: ConversationMeta) -> Sequence[Job]:
    return [Job("index", meta.id)]


async def test_a_session_is_created_renamed_and_shown(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        created = await client.post("/api/v1/sessions", {"title": "First", "metadata": {"color": "red"}})
        path = f"/api/v1/sessions/{created.json['id']}"
        changed = await client.request("PATCH", path, {"title": "Second"})
        await client.post("/api/v1/chat", {"message": "Hello.", "session_id": created.json["id"]})
        shown = (await client.get(path)).json
        messages = (await client.get(f"{path}/messages")).json

    assert (created.status, created.json["title"], created.json["turns"]) == (201, "First", [])
    assert (changed.status, changed.json["title"]) == (200, "Second")
    assert (shown["title"], shown["metadata"], shown["turn_count"]) == ("Second", {"color": "red"}, 1)
    assert [(turn["user_message"], turn["assistant_response"]) for turn in shown["turns"]] == [
        ("Hello.", "Good morning.")
    ]
    assert [(item["role"], item["content"]) for item in messages["messages"]] == [
        ("user", "Hello."),
        ("assistant", "Good morning."),
    ]
    assert messages["count"] == 2


async def test_a_repeated_idempotency_key_creates_one_session(store: MemoryStore) -> None:
    body = {"title": "First"}
    async with serving(build_service(store, scripted())) as client:
        first, again = [await client.post("/api/v1/sessions", body, idempotency_key="k") for _ in range(2)]
        other = await client.post("/api/v1/sessions", {"title": "Second"}, idempotency_key="k")
        second = await client.post("/api/v1/sessions", body, idempotency_key="l")
        theirs = await client.as_user(BO).post("/api/v1/sessions", body, idempotency_key="k")
        total = (await client.get("/api/v1/sessions")).json["total"]
        await client.request("DELETE", f"/api/v1/sessions/{first.json['id']}")
        closed = await client.post("/api/v1/sessions", body, idempotency_key="k")

    assert [reply.status for reply in (first, again, other, second, theirs, closed)] == [201, 201, 422, 201, 201, 404]
    assert again.json == first.json
    assert (len({reply.json["id"] for reply in (first, second, theirs)}), total) == (3, 2)


async def test_an_expired_idempotency_key_creates_another_session(store: MemoryStore) -> None:
    settings = ServiceSettings(idempotency_seconds=0.0, poll_seconds=0.2)
    async with serving(build_service(store, scripted(), settings=settings)) as client:
        replies = [await client.post("/api/v1/sessions", {"title": f"{n}"}, idempotency_key="k") for n in range(3)]

    assert [reply.json["title"] for reply in replies] == ["0", "1", "2"]
    assert len({reply.json["id"] for reply in replies}) == 3


@pytest.mark.parametrize("end", ["close", "delete"])
async def test_a_session_that_is_closed_during_a_request_is_a_404(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async with serving(build_service(store, scripted(CALL))) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        load = store.load

        async def end_first(id: str) -> Snapshot:
            snapshot = await load(id)
            await getattr(store, end)(id)
            return snapshot

        monkeypatch.setattr(store, "load", end_first)
        reply = await client.post(f"/api/v1/runs/{paused['run_id']}/cancel")

    assert (reply.status, reply.json["code"]) == (404, "not_found")


async def test_a_list_has_pages_with_the_last_active_session_first(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        ids = [(await client.post("/api/v1/sessions", {"title": f"{n}"})).json["id"] for n in range(5)]
        await client.as_user(BO).post("/api/v1/sessions", {})
        found: list[str] = []
        query = ""
        while True:
            page = (await client.get(f"/api/v1/sessions?limit=2{query}")).json
            found += [item["id"] for item in page["sessions"]]
            if page["next"] is None:
                break
            query = f"&after={page['next']}"

    assert found == ids[::-1]


async def test_a_list_has_a_total_and_an_offset(store: MemoryStore) -> None:
    async with store.open("agui-1234", owner="ana") as conversation:
        conversation.messages.user("Hello.")
    async with serving(build_service(store, scripted())) as client:
        ids = [(await client.post("/api/v1/sessions", {"title": f"{n}"})).json["id"] for n in range(3)]
        await client.as_user(BO).post("/api/v1/sessions", {})
        pages = [(await client.get(f"/api/v1/sessions?limit=2&offset={offset}")).json for offset in (0, 1, 2, 9)]

    found = [[item["id"] for item in page["sessions"]] for page in pages]
    newest = ids[::-1]
    assert found == [newest[:2], newest[1:], newest[2:], []]
    assert [(page["total"], page["limit"], page["offset"]) for page in pages] == [(3, 2, n) for n in (0, 1, 2, 9)]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=-1", "limit=x", "limit=1e3", "after=x", "offset=-1", "state=all"]
)
async def test_a_wrong_page_is_refused(store: MemoryStore, query: str) -> None:
    async with serving(build_service(store, scripted())) as client:
        reply = await client.get(f"/api/v1/sessions?{query}")

    assert (reply.status, reply.json["code"]) == (400, "bad_request")


async def test_a_closed_session_returns_404_and_queues_its_jobs_once(store: MemoryStore) -> None:
    service = build_service(store, scripted("Good morning."), close_jobs=index_job)
    async with serving(service) as client:
        session_id = (await client.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        path = f"/api/v1/sessions/{session_id}"
        closed, again = await client.request("DELETE", path), await client.request("DELETE", path)
        shown, listed = await client.get(path), (await client.get("/api/v1/sessions")).json
        asked = await client.post("/api/v1/chat", {"message": "Hello.", "session_id": session_id})
    jobs = await store.jobs(kind="index")

    assert (closed.status, closed.body, again.status, shown.status, asked.status) == (204, b"", 404, 404, 404)
    assert listed["sessions"] == []
    assert [(job.conversation, job.state) for job in jobs] == [(session_id, "queued")]
    assert (await store.load(session_id)).messages.last_turn is not None  # kept for the jobs and for audits


async def test_an_empty_session_queues_no_jobs(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted(), close_jobs=index_job)) as client:
        session_id = (await client.post("/api/v1/sessions", {})).json["id"]
        closed = await client.request("DELETE", f"/api/v1/sessions/{session_id}")

    assert (closed.status, await store.jobs(kind="index")) == (204, [])


async def test_an_erased_session_is_deleted(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        session_id = (await client.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        erased = await client.request("DELETE", f"/api/v1/sessions/{session_id}?erase=true")
        wrong = await client.request("DELETE", f"/api/v1/sessions/{session_id}?erase=yes")

    assert (erased.status, wrong.status) == (204, 404)
    with pytest.raises(UnknownConversationError):
        await store.load(session_id)


async def test_a_session_with_an_active_run_is_closed_only_with_force(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    async with (
        serving(build_service(store, model)) as client,
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events,
    ):
        path = f"/api/v1/sessions/{(await anext(events)).data['session_id']}"
        await model.reached.wait()
        refused = await client.request("DELETE", path)
        while (reply := await client.request("DELETE", f"{path}?force=true")).status == 409:
            await anyio.lowlevel.checkpoint()  # the worker is stopping

    assert (refused.status, reply.status) == (409, 204)


@pytest.mark.parametrize(
    ("body", "status"),
    [({"title": 5}, 400), ({"metadata": []}, 400), ({"metadata": {"a": None}}, 201), ({"title": "a\x00b"}, 400)],
)
async def test_the_fields_of_a_session_are_validated(store: MemoryStore, body: object, status: int) -> None:
    async with serving(build_service(store, scripted())) as client:
        reply = await client.post("/api/v1/sessions", body)

    assert reply.status == status


@pytest.mark.parametrize(("name", "status"), [("17", 400), (UNKNOWN_ID, 404), (UNKNOWN_ID.upper(), 400)])
async def test_a_malformed_id_is_a_400_and_an_unknown_one_a_404(store: MemoryStore, name: str, status: int) -> None:
    async with serving(build_service(store, scripted())) as client:
        reply = await client.get(f"/api/v1/sessions/{name}")

    assert reply.status == status


async def test_conversations_of_other_programs_are_not_sessions(store: MemoryStore) -> None:
    async with store.open("agui-1234", owner="ana") as conversation:
        conversation.messages.user("Hello.")
    async with serving(build_service(store, scripted())) as client:
        listed = (await client.get("/api/v1/sessions")).json
        shown = await client.get("/api/v1/sessions/agui-1234")

    assert (listed["sessions"], shown.status) == ([], 400)


async def test_a_title_is_limited_wherever_it_is_set(store: MemoryStore) -> None:
    long = {"title": "x" * 201}
    async with serving(build_service(store, scripted())) as client:
        session = (await client.post("/api/v1/sessions", {"title": "x" * 200})).json
        exported = (await client.get(f"/api/v1/sessions/{session['id']}/export")).json
        replies = [
            await client.post("/api/v1/sessions", long),
            await client.request("PATCH", f"/api/v1/sessions/{session['id']}", long),
            await client.post("/api/v1/import", exported | long),
        ]
        listed = (await client.get("/api/v1/sessions")).json

    assert [reply.status for reply in replies] == [400] * 3
    assert [found["title"] for found in listed["sessions"]] == ["x" * 200]
