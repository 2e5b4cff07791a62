"""The memory of an owner as JSON objects: facts, search, statements, forgetting, export and deletion."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from chat_core import ChatBuilder, UsageError
from chat_core.testing import ScriptedProvider
from chat_memory import Passage, SqliteMemory, Statement, UserCitation
from chat_memory.owner_memory import OwnerMemory
from chat_memory.recall import Recall
from chat_store import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncGenerator[SqliteMemory]:
    async with SqliteMemory(tmp_path / "memory.db") as opened:
        yield opened


@pytest.fixture
async def store() -> AsyncGenerator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


def lives_in(city: str, **more: object) -> Mapping[str, object]:
    return {"subject": "user", "predicate": "lives in", "object": city, **more}


async def test_a_statement_is_stored_as_stated_by_the_owner(memory: SqliteMemory, store: MemoryStore) -> None:
    owners = OwnerMemory(memory, store)
    first = await owners.add("ana", lives_in("Berlin", valid_from="2020-01-01T00:00:00+00:00"))
    again = await owners.add("ana", lives_in("Berlin", valid_from="2021-01-01T00:00:00Z"))
    second = await owners.add("ana", lives_in("Paris", valid_from="2024-03-01T00:00:00Z", text="She lives in Paris."))
    current, historical = [await owners.facts("ana", status) for status in ("current", "historical")]
    stored = (await memory.scope("ana").facts())[0]

    assert [found["outcome"] for found in (first, again, second)] == ["inserted", "reinforced", "superseded"]
    assert [(fact["object"], fact["text"], fact["source"]) for fact in current] == [
        ("Paris", "She lives in Paris.", "stated")
    ]
    assert [(fact["object"], fact["valid_to"]) for fact in historical] == [("Berlin", "2024-03-01T00:00:00+00:00")]
    assert isinstance(stored.citation, UserCitation)
    assert stored.citation.by == "ana"
    assert json.loads(json.dumps(current)) == current


async def test_a_statement_against_or_before_the_current_fact(memory: SqliteMemory, store: MemoryStore) -> None:
    owners = OwnerMemory(memory, store)
    await owners.add("ana", lives_in("Paris", valid_from="2024-03-01T00:00:00Z"))
    past = await owners.add("ana", lives_in("Rome", valid_from="2001-01-01T00:00:00Z", valid_to="2002-01-01T00:00:00Z"))

    assert past["outcome"] == "historical"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"subject": "user", "predicate": "likes"}, "the field object is missing"),
        (lives_in("Berlin", text=5), "the field text must be a string, not 5"),
        ({**lives_in(""), "object": " "}, "object"),
        (lives_in("Berlin", valid_from="yesterday"), "valid_from must be a time with an offset"),
        (lives_in("Berlin", valid_to="2024-01-01T00:00:00"), "valid_to must be a time with an offset"),
        (lives_in("Berlin", valid_from="2024-01-02T00:00:00Z", valid_to="2024-01-01T00:00:00Z"), "after valid_from"),
    ],
)
async def test_a_wrong_statement_is_refused(
    memory: SqliteMemory, store: MemoryStore, fields: Mapping[str, object], text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        await OwnerMemory(memory, store).add("ana", fields)

    assert (await memory.scope("ana").stats()).facts == 0


async def test_a_search_finds_facts_and_passages_of_the_owner_only(memory: SqliteMemory, store: MemoryStore) -> None:
    owners = OwnerMemory(memory, store, recall=Recall(memory))
    fact = cast("dict[str, Any]", (await owners.add("ana", lives_in("Berlin")))["fact"])
    await memory.scope("ana").add_passages([Passage("I bought a violin in Berlin.", "chat-1", 1, speaker="Ana")])
    found = await owners.search("ana", "What happened in Berlin?", 10)
    other = await owners.search("bo", "What happened in Berlin?", 10)
    matches = cast("list[dict[str, Any]]", found["matches"])

    assert {(match["kind"], match["fact_id"], match["session_id"]) for match in matches} == {
        ("fact", fact["id"], None),
        ("turn", None, "chat-1"),
    }
    assert (found["searched"], found["degraded"], other["matches"]) == (2, False, [])
    assert len(cast("list[Any]", (await owners.search("ana", "What happened in Berlin?", 1))["matches"])) == 1


async def test_forgetting_a_fact_deletes_the_notes_that_quote_it(memory: SqliteMemory, store: MemoryStore) -> None:
    owners = OwnerMemory(memory, store)
    fact = (await memory.scope("ana").add(Statement("user", "password", "swordfish"))).fact
    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider("Noted."))
        .with_memory(Recall(memory), scope=lambda context: context.owner)
        .build()
    )
    async with store.open("chat-1", owner="ana") as stored:
        stored.messages.user("What is my password?")
        await chat.complete(stored)

    assert await owners.forget("bo", fact.id) is None
    assert await owners.forget("ana", fact.id) == {"redacted": ["chat-1"], "busy": [], "damaged": []}
    assert await owners.forget("ana", fact.id) is None
    assert await owners.facts("ana", "current") == []
    assert "swordfish" not in (await store.load("chat-1")).messages.to_json()


async def test_an_export_and_a_deletion_concern_one_owner(memory: SqliteMemory, store: MemoryStore) -> None:
    owners = OwnerMemory(memory, store)
    for owner in ("ana", "bo"):
        await owners.add(owner, lives_in("Berlin"))
    exported = await owners.export("ana")
    await owners.delete_all("ana")

    assert "Berlin" in json.dumps(exported)
    assert (await owners.facts("ana", "current"), len(await owners.facts("bo", "current"))) == ([], 1)
