"""The routes for the memory of a user, with a memory in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from chat_core import UsageError
from chat_service.memory_routes import MAX_FACT_TEXT, MAX_QUESTION
from chat_store import MemoryStore
from service_helpers import BO, build_service, scripted, serving

pytestmark = pytest.mark.anyio
ROUTES = [
    ("GET", "/api/v1/memory/facts", None),
    ("POST", "/api/v1/memory/facts", {"subject": "user", "predicate": "likes", "object": "tea"}),
    ("DELETE", "/api/v1/memory/facts/1", None),
    ("GET", "/api/v1/memory/search?q=tea", None),
    ("GET", "/api/v1/memory/export", None),
    ("DELETE", "/api/v1/memory", None),
]


@dataclass
class DictMemory:
    """A memory that keeps the facts of each owner in a dictionary."""

    owners: dict[str, dict[str, Mapping[str, object]]] = field(
        default_factory=dict[str, dict[str, Mapping[str, object]]]
    )
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def facts(self, owner: str, status: str) -> list[Mapping[str, object]]:
        return [{**fact, "status": status} for fact in self.owners.get(owner, {}).values()]

    async def search(self, owner: str, question: str, limit: int) -> Mapping[str, object]:
        self.asked.append((question, limit))
        found = [fact for fact in self.owners.get(owner, {}).values() if question in str(fact["object"])]
        return {"matches": found[:limit], "searched": len(self.owners.get(owner, {})), "degraded": False}

    async def add(self, owner: str, statement: Mapping[str, object]) -> Mapping[str, object]:
        if "object" not in statement:
            msg = "the field object is missing: send a text"
            raise UsageError(msg)
        facts = self.owners.setdefault(owner, {})
        fact = {"id": str(len(facts) + 1), **statement}
        facts[str(fact["id"])] = fact
        return {"outcome": "inserted", "fact": fact}

    async def forget(self, owner: str, fact: str) -> Mapping[str, object] | None:
        found = self.owners.get(owner, {}).pop(fact, None)
        return None if found is None else {"redacted": ["a session"], "busy": [], "damaged": []}

    async def export(self, owner: str) -> Mapping[str, object]:
        return {"facts": [*self.owners.get(owner, {}).values()]}

    async def delete_all(self, owner: str) -> None:
        self.owners.pop(owner, None)


def like(thing: str) -> Mapping[str, object]:
    return {"subject": "user", "predicate": "likes", "object": thing}


async def test_a_user_adds_lists_searches_and_forgets_facts(store: MemoryStore) -> None:
    memory = DictMemory()
    async with serving(build_service(store, scripted(), memory=memory)) as client:
        added = [await client.post("/api/v1/memory/facts", like(thing)) for thing in ("tea", "jazz", "rain")]
        page = (await client.get("/api/v1/memory/facts?limit=1&offset=1&status=candidate")).json
        found = (await client.get("/api/v1/memory/search?q=jazz&limit=7")).json
        default = (await client.get("/api/v1/memory/search?q=tea")).json
        forgotten = await client.request("DELETE", "/api/v1/memory/facts/2")
        again = await client.request("DELETE", "/api/v1/memory/facts/2")
        exported = (await client.get("/api/v1/memory/export")).json
        deleted = await client.request("DELETE", "/api/v1/memory")

    assert [(reply.status, reply.json["fact"]["id"]) for reply in added] == [(201, "1"), (201, "2"), (201, "3")]
    assert [(fact["id"], fact["status"]) for fact in page["facts"]] == [("2", "candidate")]
    assert (page["total"], page["limit"], page["offset"]) == (3, 1, 1)
    assert [match["id"] for match in found["matches"]] == ["2"]
    assert (memory.asked, len(default["matches"])) == ([("jazz", 7), ("tea", 10)], 1)
    assert (forgotten.status, forgotten.json["redacted"], again.status) == (200, ["a session"], 404)
    assert [fact["id"] for fact in exported["facts"]] == ["1", "3"]
    assert (deleted.status, deleted.body, memory.owners) == (204, b"", {})


async def test_the_memory_of_another_user_is_neither_shown_nor_changed(store: MemoryStore) -> None:
    memory = DictMemory({"ana": {"1": {"id": "1", **like("tea")}}})
    async with serving(build_service(store, scripted(), memory=memory)) as client:
        bo = client.as_user(BO)
        replies = [(await bo.request(method, path, body)).body for method, path, body in ROUTES if method == "GET"]
        forgotten = await bo.request("DELETE", "/api/v1/memory/facts/1")
        await bo.request("DELETE", "/api/v1/memory")

    assert all(b"tea" not in reply for reply in replies)
    assert (forgotten.status, list(memory.owners["ana"])) == (404, ["1"])


async def test_the_memory_needs_a_token(store: MemoryStore) -> None:
    memory = DictMemory({"ana": {"1": {"id": "1", **like("tea")}}})
    async with serving(build_service(store, scripted(), memory=memory)) as client:
        for user in (client.as_user(None), client.as_user("a wrong token")):
            assert {(await user.request(method, path, body)).status for method, path, body in ROUTES} == {401}

    assert list(memory.owners) == ["ana"]


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("GET", "/api/v1/memory/facts?status=any", None, "status must be current"),
        ("GET", "/api/v1/memory/facts?limit=101", None, "limit must be an integer from 1 to 100"),
        ("GET", "/api/v1/memory/facts?offset=-1", None, "offset must be"),
        ("GET", "/api/v1/memory/search", None, "q must be a question"),
        ("GET", "/api/v1/memory/search?q=%20", None, "q must be a question"),
        ("GET", f"/api/v1/memory/search?q={'a' * (MAX_QUESTION + 1)}", None, "q must be a question"),
        ("GET", "/api/v1/memory/search?q=tea&limit=0", None, "limit must be"),
        ("POST", "/api/v1/memory/facts", {"subject": "user"}, "the field object is missing"),
        ("POST", "/api/v1/memory/facts", like("a" * (MAX_FACT_TEXT + 1)), "object has more than 2000 characters"),
    ],
)
async def test_wrong_values_are_refused(store: MemoryStore, method: str, path: str, body: object, text: str) -> None:
    memory = DictMemory()
    async with serving(build_service(store, scripted(), memory=memory)) as client:
        reply = await client.request(method, path, body)

    assert (reply.status, reply.json["code"], memory.owners) == (400, "bad_request", {})
    assert text in reply.json["detail"]


async def test_an_id_with_control_characters_is_not_sent_to_the_memory(store: MemoryStore) -> None:
    memory = DictMemory({"ana": {"\x00": {"id": "\x00", **like("tea")}}})
    async with serving(build_service(store, scripted(), memory=memory)) as client:
        path = "/api/v1/memory/facts/"
        found = [(await client.request("DELETE", path + fact)).status for fact in ("%00", "%C3%A9", "..")]

    assert (found[:2], list(memory.owners["ana"])) == ([404, 404], ["\x00"])
    assert found[2] == 404


async def test_a_service_without_a_memory_has_no_such_routes(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        found = {(await client.request(method, path, body)).status for method, path, body in ROUTES}
        document = (await client.get("/openapi.json")).json

    assert found == {404}
    assert not [path for path in document["paths"] if "/memory" in path]
