"""Conformance scenarios for entities, relations and links to facts."""

from __future__ import annotations

from chat_memory.facts import Statement
from chat_memory.graph import Entity, Relation
from chat_memory.testing._fixtures import Memories, home, objects, require, require_equal


async def an_entity_is_stored_once(memories: Memories) -> None:
    """An entity that is stored again keeps its name, and gets the new type and properties."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        require(
            await ana.add_entity(Entity("New  York", "place", {"country": "USA", "size": "big"})), "the entity is new"
        )
        require(not await ana.add_entity(Entity("new_york", "city", {"size": "huge"})), "the entity is stored already")
        found = await ana.entities()
        require_equal(found, [Entity("New  York", "city", {"country": "USA", "size": "huge"})], "the entity is merged")


async def a_relation_is_stored_once(memories: Memories) -> None:
    """Several texts with the same relation store one relation, which counts the texts."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        relation = Relation("chat-core", "Written in", "Python")
        require(await ana.relate(relation, key="chat-1"), "the relation is new")
        for key in ("chat-1", "chat-2"):
            require(not await ana.relate(relation, key=key), "the relation is stored already")
        await ana.relate(Relation("chat-core", "uses", "Python"))
        found = [
            (item.source, item.label, item.target, item.type, item.mentions) for item in (await ana.graph()).relations
        ]
        expected = [
            ("chat-core", "uses", "Python", "RELATED_TO", 1),
            ("chat-core", "written_in", "Python", "PART_OF", 2),
        ]
        require_equal(found, expected, "each text counts once")
        require_equal(len(await ana.entities()), 2, "unknown ends are created")


async def neighbors_are_found_in_both_directions(memories: Memories) -> None:
    """A neighbor may be at either end of a relation."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.relate(Relation("b", "uses", "a"))
        await ana.relate(Relation("b", "uses", "c"))
        for name, expected in (("a", ["b"]), ("b", ["a", "c"]), ("c", ["b"]), ("d", [])):
            found = [item.entity.name for item in await ana.neighbors(name)]
            require_equal(found, expected, f"the neighbors of {name}")


async def facts_near_entities_have_distances(memories: Memories) -> None:
    """The distance of a fact is the distance of the nearest entity to which it is linked."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        for source, target in ("ab", "bc", "cd"):
            await ana.relate(Relation(source, "uses", target))
        for name in "abcd":
            await ana.add(Statement(name, "has", "a license"))
        await memory.scope("ben").add(Statement("a", "has", "a secret"))
        names = {fact.id: fact.subject for fact in await ana.facts()}
        for entities, expected in ((["A"], {"a": 0, "b": 1, "c": 2}), (["a", "c"], {"a": 0, "b": 1, "c": 0, "d": 1})):
            found = await ana.facts_near(entities)
            require_equal({names[fact]: distance for fact, distance in found.items()}, expected, f"near {entities}")
        require_equal(await ana.facts_near(["nobody"]), {}, "near an unknown entity")


async def neighbors_are_limited(memories: Memories) -> None:
    """Neighbors are listed nearest first, up to a maximum depth and number, even if the relations form a cycle."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        for source, target in ("ab", "bc", "cd", "da", "ce", "aa"):
            await ana.relate(Relation(source, "uses", target))
        found = [(item.entity.name, item.distance) for item in await ana.neighbors("a", depth=2)]
        require_equal(found, [("b", 1), ("d", 1), ("c", 2)], "two hops, and not the entity itself")
        found = [(item.entity.name, item.distance) for item in await ana.neighbors("a", depth=9)]
        require_equal(found, [("b", 1), ("d", 1), ("c", 2), ("e", 3)], "every entity is reached once")
        found = [(item.entity.name, item.distance) for item in await ana.neighbors("a", depth=9, limit=2)]
        require_equal(found, [("b", 1), ("d", 1)], "the limit keeps the nearest")


async def a_fact_is_linked_to_its_entities(memories: Memories) -> None:
    """A fact is linked to its subject, its object and the named entities, whichever is stored first."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_entity(Entity("Berlin", "city"))
        fact = (await ana.add(Statement("Ana", "lives in", "berlin", entities=["Germany"]))).fact
        await ana.add_entity(Entity("ANA", "person"))
        await ana.add_entity(Entity("Germany", "country"))
        await ana.add_entity(Entity("Paris", "city"))
        linked = [entity.name for entity in await ana.entities(fact=fact.id)]
        require_equal(linked, ["ANA", "Berlin", "Germany"], "a fact is linked to its entities")
        for name in linked:
            require_equal(objects(await ana.facts_about(name)), ["berlin"], f"{name} finds the fact")
        graph = await ana.graph("Berlin")
        require_equal([item.id for item in graph.facts], [fact.id], "a graph contains the linked facts")
        require_equal(dict(graph.links), {fact.id: ("berlin",)}, "and their links")


async def a_fact_that_is_not_current_is_not_linked(memories: Memories) -> None:
    """Links of superseded, retracted and forgotten facts are ignored."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        for name in ("Berlin", "Paris", "Rome"):
            await ana.add_entity(Entity(name))
        await ana.add(home("Berlin", 2020))
        paris = (await ana.add(home("Paris", 2022))).fact
        require_equal(await ana.facts_about("Berlin"), [], "a superseded fact is not linked")
        rome = (await ana.add(home("Rome", 2024))).fact
        await ana.retract(rome.id)
        require_equal(await ana.facts_about("Rome"), [], "a retracted fact is not linked")
        require_equal(objects(await ana.facts_about("Paris")), ["Paris"], "the current fact is linked")
        await ana.forget(paris.id)
        require_equal((await ana.graph("Paris")).facts, (), "a forgotten fact is not linked")


async def a_deleted_entity_leaves_no_relation(memories: Memories) -> None:
    """`delete_entity()` deletes the relations and links of an entity, and nothing else."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        for source, target in ("ab", "bc", "ac"):
            await ana.relate(Relation(source, "uses", target))
        await ana.add(Statement("b", "is", "x"))
        require(await ana.delete_entity("B"), "the entity is found by its name")
        require(not await ana.delete_entity("b"), "the entity is deleted once")
        graph = await ana.graph()
        require_equal([item.entity.name for item in graph.entities], ["a", "c"], "other entities are kept")
        require_equal([(item.source, item.target) for item in graph.relations], [("a", "c")], "as are their relations")
        require_equal((await ana.stats()).relations, 1, "no relation is left behind")
        require_equal(objects(await ana.facts()), ["x"], "its facts are kept")
        require_equal(await ana.facts_about("b"), [], "its links are deleted")


SCENARIOS = (
    an_entity_is_stored_once,
    a_relation_is_stored_once,
    neighbors_are_found_in_both_directions,
    facts_near_entities_have_distances,
    neighbors_are_limited,
    a_fact_is_linked_to_its_entities,
    a_fact_that_is_not_current_is_not_linked,
    a_deleted_entity_leaves_no_relation,
)
