"""Conformance scenarios for scopes: their separation, their export and their deletion."""

from __future__ import annotations

import json

from chat_core.errors import UsageError

from chat_memory.citations import UserCitation
from chat_memory.errors import UnknownFactError
from chat_memory.facts import FactStatus, Statement
from chat_memory.graph import Entity, MemoryStats, Relation
from chat_memory.memory import MemoryScope
from chat_memory.passages import Passage
from chat_memory.testing._fixtures import NO_VECTORS, Memories, home, objects, refused, require, require_equal, year


async def _store_all_kinds(scope: MemoryScope) -> str:
    """Store rows of every kind, and return the id of a candidate."""
    await scope.add(home("Berlin", 2020))
    candidate = (await scope.add(home("Paris", 2024, "inferred"))).fact
    await scope.relate(Relation("Berlin", "part of", "Germany"))
    await scope.add_passages([Passage("I moved to Berlin.", "chat-17")])
    await scope.put_vectors("m", {item.id: [1.0, 2.0] for item in await scope.documents()})
    return candidate.id


async def facts_of_another_scope_are_not_listed(memories: Memories) -> None:
    """Every list of facts contains only facts of its scope."""
    async with memories.open() as memory:
        await _store_all_kinds(memory.scope("ana"))
        ben = memory.scope("ben")
        await ben.add(Statement("user", "works at", "Acme"))
        statuses: tuple[FactStatus, ...] = ("current", "candidate", "historical", "retracted")
        for status in statuses:
            found = objects(await ben.facts(status=status))
            require_equal(found, ["Acme"] * (status == "current"), f"facts({status!r}) lists its own scope")
        require_equal(objects(await ben.as_of(valid=year(2025))), [], "as_of(valid=…) lists its own scope")
        found = objects(await ben.as_of(recorded=memories.clock()))
        require_equal(found, ["Acme"], "as_of(recorded=…) lists its own scope")


async def facts_of_another_scope_do_not_compete(memories: Memories) -> None:
    """A statement in one scope changes no fact of another scope."""
    async with memories.open() as memory:
        await memory.scope("ana").add(home("Berlin", 2020))
        await memory.scope("ben").add(home("Paris", 2024))
        require_equal(objects(await memory.scope("ana").facts()), ["Berlin"], "scopes have their own facts")


async def an_id_of_another_scope_is_unknown(memories: Memories) -> None:
    """The id of a fact has no effect in another scope."""
    async with memories.open() as memory:
        candidate = await _store_all_kinds(memory.scope("ana"))
        before = await memory.scope("ana").export()
        ben = memory.scope("ben")
        require_equal(await ben.get(candidate), None, "get() does not find the fact")
        require_equal(await ben.statements(candidate), [], "statements() does not list statements of the fact")
        require_equal(await ben.entities(fact=candidate), [], "entities() does not list entities of the fact")
        require(not await ben.retract(candidate), "retract() does not find the fact")
        require(not await ben.forget(candidate), "forget() does not find the fact")
        with refused(UnknownFactError, "promote() does not find the fact"):
            await ben.promote(candidate, UserCitation("ben"))
        await ben.touch([candidate])
        require_equal(await memory.scope("ana").export(), before, "the other scope is unchanged")


async def texts_of_another_scope_are_not_found(memories: Memories) -> None:
    """Neither a search nor the id of a document finds texts of another scope."""
    async with memories.open() as memory:
        await _store_all_kinds(memory.scope("ana"))
        ids = [item.id for item in await memory.scope("ana").documents()]
        ben = memory.scope("ben")
        await ben.add_passages([Passage("Tea, please.", "chat-18")])
        require_equal(await ben.search_text(["Berlin", "moved"]), [], "a search finds texts of its scope alone")
        require_equal(await ben.documents(ids=ids), [], "an id of another scope finds nothing")
        require_equal(await ben.documents(conversation="chat-17"), [], "nor does a conversation")
        require_equal(len(await ben.documents()), 1, "a list contains texts of its scope alone")


async def vectors_of_another_scope_are_not_found(memories: Memories) -> None:
    """Vectors are neither read, written, counted nor deleted across scopes."""
    async with memories.open() as memory:
        ana, ben = memory.scope("ana"), memory.scope("ben")
        await _store_all_kinds(ana)
        ids, stored = await ana.vectors("m")
        require(ids, "vectors are stored")
        await ben.add_passages([Passage("Tea, please.", "chat-18")])
        require_equal(await ben.vectors("m"), NO_VECTORS, "vectors of another scope are not read")
        require_equal(len(await ben.without_vector("m")), 1, "texts of another scope are not listed")
        await ben.put_vectors("m", {ids[0]: [9.0, 9.0]})
        require_equal(await ben.drop_vectors(keep="other"), 0, "vectors of another scope are not deleted")
        require_equal(await ana.vectors("m"), (ids, stored), "the other scope is unchanged")


async def graphs_of_different_scopes_are_separate(memories: Memories) -> None:
    """Entities and relations with equal names belong to their own scopes."""
    async with memories.open() as memory:
        ana, ben = memory.scope("ana"), memory.scope("ben")
        await _store_all_kinds(ana)
        before = await ana.graph()
        require_equal(await ben.entities(), [], "entities of another scope are not listed")
        require_equal(await ben.neighbors("Berlin"), [], "nor are neighbors")
        require_equal((await ben.graph("Berlin")).entities, (), "nor is a graph")
        require(not await ben.delete_entity("Berlin"), "an entity of another scope is not deleted")
        await ben.add_entity(Entity("Berlin", "person"))
        await ben.relate(Relation("Berlin", "knows", "Germany"))
        require_equal(await ana.graph(), before, "the other scope is unchanged")
        require_equal(await ben.facts_about("Berlin"), [], "facts of another scope are not linked")


async def records_of_different_scopes_are_separate(memories: Memories) -> None:
    """Conversations with equal ids in two scopes have separate records, exported and deleted with the scope."""
    async with memories.open() as memory:
        ana, ben = memory.scope("ana"), memory.scope("ben")
        await ana.put_record("chat-17", "report", {"facts": 1})
        require_equal(await ben.records("chat-17"), {}, "records of another scope are not read")
        require_equal(await ben.recorded_conversations(), [], "nor are their conversations listed")
        await ben.put_record("chat-17", "report", {"facts": 2}, replace=True)
        require_equal(await ana.records("chat-17"), {"report": {"facts": 1}}, "the other scope is unchanged")
        require_equal((await ana.export())["records"], {"chat-17": {"report": {"facts": 1}}}, "records are exported")
        await ana.delete_all()
        require_equal(await ana.recorded_conversations(), [], "records are deleted with their scope")
        require_equal(await ben.recorded_conversations(), ["chat-17"], "records of another scope stay")


async def names_of_scopes_are_exact(memories: Memories) -> None:
    """Names that differ in case, spaces or special characters are different scopes."""
    async with memories.open() as memory:
        names = ["ana", "Ana", "ana ", "an", "ana%", "a_a", "ana'", "\u00e4na", "a\u0308na"]
        for name in names:
            await memory.scope(name).add(Statement("user", "is called", name))
        for name in names:
            require_equal(objects(await memory.scope(name).facts()), [name], f"{name!r} is a scope of its own")


async def a_scope_needs_a_name(memories: Memories) -> None:
    """A blank name is refused, because it usually means that a user id was lost."""
    async with memories.open() as memory:
        for name in ("", "  ", "a\0"):
            with refused(UsageError, f"{name!r} is not the name of a scope"):
                memory.scope(name)


async def scopes_are_listed_in_pages(memories: Memories) -> None:
    """`scopes()` lists the scopes in which something is stored, page by page."""
    async with memories.open() as memory:
        await memory.scope("a0").retract("unknown")
        added = (await memory.scope("a1").add(home("Rome", 2020))).fact
        await memory.scope("a1").forget(added.id)
        for name in ("c", "a", "b"):
            await memory.scope(name).add(home("Berlin", 2020))
        await memory.scope("read").facts()
        first = await memory.scopes(limit=2)
        require_equal(first, ["a", "b"], "the first page has the first names")
        require_equal(await memory.scopes(after=first[-1]), ["c"], "the next page continues after it")


async def an_export_contains_everything_of_its_scope(memories: Memories) -> None:
    """`export()` returns facts of every status, statements, entities, relations and passages, as JSON."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await _store_all_kinds(ana)
        await ana.retract((await ana.add(Statement("user", "works at", "Acme"))).fact.id)
        await memory.scope("ben").add(Statement("user", "works at", "Globex"))
        text = json.dumps(await ana.export())
        for word in ("Berlin", "Paris", "Germany", "I moved to Berlin.", "Acme", "inferred"):
            require(word in text, f"the export of a scope contains {word!r}")
        require("Globex" not in text, "the export of a scope contains nothing of another scope")
        statements = sum(len(fact["statements"]) for fact in json.loads(text)["facts"])
        require_equal(statements, 3, "the export contains every statement, including those of a retracted fact")


async def delete_all_leaves_nothing(memories: Memories) -> None:
    """`delete_all()` deletes everything in its scope, and nothing in another scope."""
    async with memories.open() as memory:
        ana, ben = memory.scope("ana"), memory.scope("ben")
        await _store_all_kinds(ana)
        await _store_all_kinds(ben)
        before = await ben.export()
        await ana.delete_all()
        require_equal(await ana.stats(), MemoryStats(), "no row is left")
        require_equal(await memory.scopes(), ["ben"], "the scope is not listed")
        require_equal(await ana.search_text(["Berlin"]), [], "no text is left")
        require_equal(await ana.vectors("m"), NO_VECTORS, "no vector is left")
        require_equal(await ben.export(), before, "the other scope is unchanged")
        found = await ben.search_text(["moved"])
        require_equal(len(found), 1, "the texts of the other scope are still found")
        await ana.add(home("Rome", 2024))
        require_equal(objects(await ana.facts()), ["Rome"], "a deleted scope can be used again")


SCENARIOS = (
    facts_of_another_scope_are_not_listed,
    facts_of_another_scope_do_not_compete,
    an_id_of_another_scope_is_unknown,
    texts_of_another_scope_are_not_found,
    vectors_of_another_scope_are_not_found,
    graphs_of_different_scopes_are_separate,
    records_of_different_scopes_are_separate,
    names_of_scopes_are_exact,
    a_scope_needs_a_name,
    scopes_are_listed_in_pages,
    an_export_contains_everything_of_its_scope,
    delete_all_leaves_nothing,
)
