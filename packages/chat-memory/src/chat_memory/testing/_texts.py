"""Conformance scenarios for passages, the search for words, and vectors."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

from chat_core.errors import UsageError

from chat_memory.facts import MAX_NAME_BYTES, Statement
from chat_memory.graph import Entity, Relation
from chat_memory.memory import MemoryScope
from chat_memory.passages import Document, Passage
from chat_memory.testing._fixtures import NO_VECTORS, Memories, home, refused, require, require_equal, year


async def _search(scope: MemoryScope, *words: str) -> list[str]:
    """Return the texts of the found documents, sorted."""
    found = await scope.search_text(words)
    return sorted(item.text for item in await scope.documents(ids=[match.document for match in found]))


async def a_passage_is_stored_once(memories: Memories) -> None:
    """Storing a passage again changes nothing. Storing another text at the same position replaces the passage."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        passage = Passage("I moved to Berlin.", "chat-17", 3, "turn", "Ana", year(2024))
        counts = [await ana.add_passages([passage, passage]), await ana.add_passages([passage])]
        require_equal(counts, [1, 0], "a repeated passage is not counted")
        (found,) = await ana.documents()
        fields = (found.text, found.conversation, found.position, found.kind, found.speaker, found.said_at, found.fact)
        expected = ("I moved to Berlin.", "chat-17", 3, "turn", "Ana", year(2024), None)
        require_equal(fields, expected, "a passage has its fields")
        require_equal(await ana.add_passages([Passage("Paris it is.", "chat-17", 3)]), 1, "a changed passage counts")
        require_equal(await _search(ana, "Berlin"), [], "the old text is not found")
        require_equal(await _search(ana, "Paris"), ["Paris it is."], "the new text is found")
        await ana.add_passages([Passage("A summary.", "chat-17", 3, "summary")])
        require_equal(len(await ana.documents(conversation="chat-17")), 2, "another kind is another passage")


async def documents_are_listed_by_conversation_kind_and_time(memories: Memories) -> None:
    """`documents()` applies all of its conditions. `since` is inclusive, and `until` is exclusive."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages(
            [
                Passage("one", "a", 0, said_at=year(2024)),
                Passage("two", "a", 1, "note", said_at=year(2025)),
                Passage("three", "b", 0, said_at=year(2026)),
                Passage("four", "b", 1),
            ]
        )

        def texts(found: list[Document]) -> list[str]:
            return [item.text for item in found]

        found = texts(await ana.documents(since=year(2024), until=year(2026)))
        require_equal(found, ["one", "two"], "a time without its end")
        require_equal(
            texts(await ana.documents(since=year(2025))), ["two", "three"], "a text without a time is not listed"
        )
        require_equal(
            texts(await ana.documents(conversation="a", until=year(2025))), ["one"], "conditions are combined"
        )
        require_equal(texts(await ana.documents(kind="note", conversation="b")), [], "all conditions hold")


async def words_are_found_by_their_stem(memories: Memories) -> None:
    """A search finds other forms and other cases of a word, and ranks more matching words first."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages(
            [Passage(text, "c", number) for number, text in enumerate(["Moving boxes.", "She moves to Rome.", "Tea."])]
        )
        require_equal(await _search(ana, "MOVED"), ["Moving boxes.", "She moves to Rome."], "forms are found")
        best, *_ = await ana.search_text(["moved", "rome"])
        (document,) = await ana.documents(ids=[best.document])
        require_equal(document.text, "She moves to Rome.", "the best match is first")
        require_equal(len(await ana.search_text(["moved"], limit=1)), 1, "the limit holds")


async def a_query_has_no_syntax(memories: Memories) -> None:
    """Operators, quotes and punctuation in a query are ordinary characters."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages([Passage("I don't like AND or NOT.", "c")])
        hostile = [
            '"',
            "'",
            "a'b",
            "*",
            "tea*",
            "(",
            ")",
            "NOT",
            "a AND b",
            "scope : 1",
            ":*",
            "\\",
            "& | !",
            "",
            "%",
            "<->",
        ]
        for word in hostile:
            await ana.search_text([word])
        await ana.search_text(hostile)
        require_equal(await ana.search_text([]), [], "no words find nothing")
        names = [f"scope{number}" for number in range(1000)]
        require_equal(await ana.search_text(names), [], "names of the database are not words of a text")
        require_equal(len(await ana.search_text(["like", '"'])), 1, "words beside punctuation are found")


async def a_text_that_no_database_stores_is_refused(memories: Memories) -> None:
    """A search ignores null characters and unpaired surrogates. Other arguments with them are refused."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages([Passage("I like tea.", "c")])
        for wrong in ("\0", "\ud800"):
            require_equal(await _search(ana, f"{wrong}x", f"tea{wrong}"), ["I like tea."], "other words are found")
            with refused(UsageError, "a subject with it is refused"):
                await ana.facts(subject=f"user{wrong}")
            with refused(UsageError, "a key with it is refused"):
                await ana.relate(Relation("Ana", "likes", "tea"), key=wrong)
            with refused(UsageError, "an id with it is refused"):
                await ana.touch([wrong])
        require_equal(await ana.entities(), [], "nothing was stored")


async def names_that_are_too_long_are_refused(memories: Memories) -> None:
    """A name of more than 1,000 bytes is refused, because not every database can index it. Objects may be longer."""
    longest, text = "x" * MAX_NAME_BYTES, "".join(map(str, range(10_000)))
    too_long = text[: MAX_NAME_BYTES + 1]
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(Statement(longest, longest, text, text, key=longest))
        require_equal([fact.object for fact in await ana.facts()], [text], "an object may be a long text")
        await ana.relate(Relation(longest, longest, longest), key=longest)
        await ana.add_passages([Passage(text, longest, kind=longest)])
        before = await ana.export()
        changes: dict[str, Callable[[], Awaitable[object]]] = {
            "a subject": lambda: ana.add(Statement(too_long, "a", "b")),
            "a predicate": lambda: ana.add(Statement("a", too_long, "b")),
            "the key of a statement": lambda: ana.add(Statement("a", "a", "b", key=too_long)),
            "an entity": lambda: ana.add_entity(Entity(too_long)),
            "an entity of a statement": lambda: ana.add(Statement("a", "a", "b", entities=[too_long])),
            "a label": lambda: ana.relate(Relation("a", too_long, "b")),
            "a target": lambda: ana.relate(Relation("a", "b", too_long)),
            "the key of a relation": lambda: ana.relate(Relation("a", "b", "c"), key=too_long),
            "a conversation": lambda: ana.add_passages([Passage("a", too_long)]),
            "a model": lambda: ana.put_vectors(too_long, {1: [1.0]}),
            "a record": lambda: ana.put_record("chat-17", too_long, {}),
            "a declaration": lambda: memory.declare(multi=[too_long]),
        }
        for what, change in changes.items():
            with refused(UsageError, f"{what} is refused"):
                await change()
        with refused(UsageError, "a scope is refused"):
            memory.scope(too_long)
        require_equal(await ana.export(), before, "nothing was stored")


async def numbers_that_no_database_stores_are_refused(memories: Memories) -> None:
    """An id of more than 64 bits finds nothing, and a position of more than 64 bits is refused."""
    huge = 10**30
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages([Passage("I like tea.", "c")])
        require_equal(await ana.documents(ids=[huge, -huge]), [], "a huge id finds nothing")
        await ana.put_vectors("m", {huge: [1.0]})
        require_equal(await ana.vectors("m"), NO_VECTORS, "a document that does not exist is ignored")
        with refused(UsageError, "a huge position is refused"):
            await ana.add_passages([Passage("Tea", "c", huge)])
        with refused(UsageError, "a huge limit is refused"):
            await ana.search_text(["tea"], limit=huge)


async def a_search_finds_only_current_facts(memories: Memories) -> None:
    """Texts and vectors of facts that are not current are not returned."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        (first,) = await ana.documents()
        await ana.put_vectors("m", {first.id: [1.0]})
        await ana.add(home("Paris", 2024))
        await ana.add(home("Rome", 2025, "inferred"))
        require_equal(await _search(ana, "lives"), ["user lives in Paris"], "the current fact is found alone")
        require_equal(await ana.vectors("m"), NO_VECTORS, "a vector of a superseded fact is not returned")
        found = [item.text for item in await ana.documents(kind="fact")]
        require_equal(found, ["user lives in Paris"], "a list of documents contains the current fact alone")


async def vectors_are_kept_by_model(memories: Memories) -> None:
    """Vectors of two embedders are never mixed, and the vectors of an old embedder can be deleted."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages([Passage(text, "c", number) for number, text in enumerate("ab")])
        one, two = [item.id for item in await ana.documents()]
        await ana.put_vectors("small@1", {one: [1.0, 0.5], two: [0.0, -1.0]})
        await ana.put_vectors("large@1", {one: [1.0, 2.0]})
        packed = struct.pack("<4f", 1.0, 0.5, 0.0, -1.0)
        require_equal(await ana.vectors("small@1"), ([one, two], packed), "vectors are returned by model")
        missing = [item.id for item in await ana.without_vector("large@1")]
        require_equal(missing, [two], "texts without a vector of the model are listed")
        require_equal(await ana.drop_vectors(keep="large@1"), 2, "vectors of other models are deleted")
        require_equal(await ana.vectors("small@1"), NO_VECTORS, "and are gone")
        require_equal((await ana.vectors("large@1"))[0], [one], "those of the model are kept")
        missing = [item.id for item in await ana.without_vector("small@1")]
        require_equal(missing, [one, two], "all texts are without a vector of a deleted model")
        await ana.add_passages([Passage("Tea, please.", "chat-18")])
        texts = [item.text for item in await ana.without_vector("large@1")]
        require_equal(len(texts), 2, "a new text is without a vector of every model")
        require_equal(texts[-1:], ["Tea, please."], "the texts are listed in the order of their ids")


async def changes_are_listed_by_revision(memories: Memories) -> None:
    """`changes()` lists the searchable content that may have changed since a revision, in any process."""
    async with memories.open() as memory, memories.open() as other:
        ana = memory.scope("ana")
        await ana.add_passages([Passage(text, "c", number) for number, text in enumerate("abc")])
        await ana.add_entity(Entity("Berlin", "place"))
        fact = (await ana.add(home("Paris", 2020))).fact
        everything = await ana.changes()
        require_equal(everything.changed, None, "without a revision, all documents are listed")
        require_equal(everything.documents, await ana.documents(), "all documents are listed")
        require_equal(everything.revision, await ana.revision(), "the revision is that of the documents")
        one, two, three, paris = [item.id for item in everything.documents]

        async def require_changed(since: int, key: int, text: str | None, what: str) -> None:
            found = await other.scope("ana").changes(since=since, model="m")
            require(found.changed is not None and key in found.changed, f"{what} is listed")
            require_equal([item.text for item in found.documents if item.id == key], [text] * (text is not None), what)
            require(three not in (found.changed or ()), "a document that was stored before is not listed")
            require_equal(key in found.vectors[0], key == two, "a new vector is listed")

        since = everything.revision
        await other.scope("ben").add_passages([Passage("Tea, please.", "c", 0)])
        await ana.touch([fact.id])
        require_equal(await ana.revision(), since, "nothing has changed")
        await ana.add_passages([Passage("A", "c", 0), Passage("b", "c", 1)])
        await require_changed(since, one, "A", "a changed text")
        since = await ana.revision()
        await ana.put_vectors("m", {two: [1.0]})
        await require_changed(since, two, "b", "a text with a new vector")
        since = (await ana.changes(since=since)).revision
        require_equal((await ana.changes(since=since)).entities, None, "the entities are the same")
        rome = (await ana.add(home("Rome", 2024))).fact
        await ana.add_entity(Entity("Rome", "place"))
        found = await ana.changes(since=since)
        require_equal([item.fact for item in found.documents if item.fact], [rome.id], "the new fact is listed")
        await require_changed(since, paris, None, "a superseded fact")
        require_equal([item.id for item in found.entities or ()], ["berlin", "rome"], "all entities are listed")
        since = found.revision
        await ana.forget(rome.id)
        await require_changed(since, paris, "user lives in Paris", "a fact that is current again")
        since = await ana.revision()
        await ana.drop_vectors(keep="")
        require(two in ((await ana.changes(since=since)).changed or ()), "a text without its vector is listed")
        await ana.delete_all()
        await ana.add_passages([Passage("d", "c", 0)])
        require_equal((await ana.changes(since=since)).changed, None, "after a deletion, all documents are listed")


async def a_changed_text_loses_its_vector(memories: Memories) -> None:
    """A passage or fact whose text changes has no vector until a new vector is stored."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages([Passage("Tea.", "c")])
        await ana.add(Statement("user", "likes", "tea", "Tea is fine.", "inferred", valid_from=year(2020)))
        documents = await ana.documents()
        await ana.put_vectors("m", {item.id: [1.0] for item in documents})
        await ana.add(Statement("user", "likes", "tea", "I love tea!", "stated", valid_from=year(2021)))
        await ana.add_passages([Passage("Coffee.", "c")])
        found = sorted(item.text for item in await ana.without_vector("m"))
        require_equal(found, ["Coffee.", "I love tea!"], "changed texts need new vectors")
        require_equal(await ana.vectors("m"), NO_VECTORS, "their old vectors are gone")


async def a_vector_of_an_earlier_text_is_not_stored(memories: Memories) -> None:
    """`put_vectors(texts=…)` ignores the vector of a document whose text has changed since it was computed."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages([Passage("Tea.", "c", 0), Passage("Water.", "c", 1)])
        read = {item.id: item.text for item in await ana.without_vector("m")}
        await ana.add_passages([Passage("Coffee.", "c", 0)])
        await ana.put_vectors("m", {key: [1.0] for key in read}, texts=read)
        require_equal([item.text for item in await ana.without_vector("m")], ["Coffee."], "the new text has no vector")


async def a_fact_has_the_time_of_its_latest_statement(memories: Memories) -> None:
    """The document of a fact that is stated again has the time of the statement that describes it."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        (document,) = await ana.documents()
        await ana.put_vectors("m", {document.id: [1.0]})
        await ana.add(home("Berlin", 2024))
        (fact,) = await ana.facts()
        require_equal([item.said_at for item in await ana.documents()], [fact.said_at], "the document is as late")
        require_equal(await ana.without_vector("m"), [], "an equal text keeps its vector")


async def the_revision_does_not_grow_without_a_change(memories: Memories) -> None:
    """A call that changes nothing, or nothing that affects recall, does not change the revision."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.forget("unknown")
        require_equal(await ana.revision(), 0, "a call that finds nothing creates no scope")
        fact = (await ana.add(home("Berlin", 2020))).fact
        await ana.add_passages([Passage("Tea.", "c")])
        before = await ana.revision()
        await ana.add_passages([Passage("Tea.", "c")])
        await ana.drop_vectors(keep="m")
        await ana.forget("unknown")
        await ana.retract("unknown")
        await ana.delete_entity("unknown")
        await ana.put_record("c", "report", {})
        await ana.set_block("user", "Ana")
        require_equal(await ana.revision(), before, "nothing that recall finds has changed")
        await ana.retract(fact.id)
        require(await ana.revision() > before, "a retraction is a change")


async def vectors_of_a_model_have_one_length(memories: Memories) -> None:
    """A vector of another length is refused, because it comes from another embedder."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add_passages([Passage(text, "c", number) for number, text in enumerate("ab")])
        one, two = [item.id for item in await ana.documents()]
        await ana.put_vectors("m", {one: [1.0, 2.0]})
        with refused(UsageError, "another length is refused"):
            await ana.put_vectors("m", {two: [1.0]})
        require_equal(len((await ana.vectors("m"))[0]), 1, "nothing was stored")
        await ana.put_vectors("m", {two: [3.0, 4.0], 10**9: [1.0, 1.0]})
        require_equal(len((await ana.vectors("m"))[0]), 2, "a document that does not exist is ignored")


async def the_revision_grows_with_each_change(memories: Memories) -> None:
    """`stats().revision` is greater after each change, so that caches can detect it."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        seen = [(await ana.stats()).revision]
        await ana.add(home("Berlin", 2020))
        seen.append((await ana.stats()).revision)
        await ana.add_passages([Passage("Tea.", "c")])
        seen.append((await ana.stats()).revision)
        await ana.put_vectors("m", {item.id: [1.0] for item in await ana.documents()})
        seen.append((await ana.stats()).revision)
        await memory.declare(multi=["lives in"])
        seen.append((await ana.stats()).revision)
        require(seen == sorted(set(seen)), f"each change has a greater revision, not {seen}")
        await memory.scope("ben").add(home("Berlin", 2020))
        require_equal(await ana.revision(), seen[-1], "another scope does not change it")
        await ana.delete_all()
        require_equal(await ana.revision(), 0, "an empty scope has the revision 0")
        await ana.add(home("Berlin", 2020))
        require(await ana.revision() > seen[-1], "a scope that was deleted does not repeat a revision")


async def the_first_record_of_a_name_stays(memories: Memories) -> None:
    """A record is stored once, so that two workers use the same record. Only `replace` changes it."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        first = await ana.put_record("chat-17", "output", {"text": "a\u0308 \U0001f600"})
        require_equal(first, {"text": "a\u0308 \U0001f600"}, "the stored record is returned")
        second = await ana.put_record("chat-17", "output", {"text": "other"})
        require_equal(second, first, "a second record of the name changes nothing")
        require_equal(await ana.put_record("chat-17", "output", {}, replace=True), {}, "replace=True replaces it")
        await ana.put_record("chat-18", "output", {"n": 1})
        require_equal(await ana.records("chat-17"), {"output": {}}, "records of a conversation are read by name")
        require_equal(await ana.recorded_conversations(), ["chat-17", "chat-18"], "conversations are listed")


async def a_block_is_replaced_only_if_its_text_was_read(memories: Memories) -> None:
    """`set_block()` with `replaces` changes nothing if another text is stored. An empty text deletes the block."""
    async with memories.open() as memory:
        ana, ben = memory.scope("ana"), memory.scope("ben")
        require(await ana.set_block("user", "Likes tea.", replaces=""), "a new block replaces nothing")
        require(not await ana.set_block("user", "Likes milk.", replaces=""), "a writer with an old text is refused")
        require(
            await ana.set_block("user", "Likes mate.", replaces="Likes tea."),
            "a writer with the current text is accepted",
        )
        require(await ana.set_block("task", "Travel."), "without `replaces`, any text is replaced")
        expected = {"task": "Travel.", "user": "Likes mate."}
        require_equal(await ana.blocks(), expected, "blocks are read by name")
        require_equal(await ben.blocks(), {}, "another scope has its own blocks")
        require_equal((await ana.export())["blocks"], expected, "an export contains them")
        await ana.set_block("task", "")
        require_equal(await ana.blocks(), {"user": "Likes mate."}, "an empty text deletes the block")
        require_equal(await memory.scopes(), ["ana"], "a scope with a block is listed")
        await ana.delete_all()
        require_equal(await ana.blocks(), {}, "delete_all() deletes them")


SCENARIOS = (
    a_block_is_replaced_only_if_its_text_was_read,
    a_passage_is_stored_once,
    documents_are_listed_by_conversation_kind_and_time,
    words_are_found_by_their_stem,
    a_query_has_no_syntax,
    a_text_that_no_database_stores_is_refused,
    names_that_are_too_long_are_refused,
    numbers_that_no_database_stores_are_refused,
    a_search_finds_only_current_facts,
    vectors_are_kept_by_model,
    changes_are_listed_by_revision,
    a_changed_text_loses_its_vector,
    vectors_of_a_model_have_one_length,
    the_revision_grows_with_each_change,
    a_vector_of_an_earlier_text_is_not_stored,
    a_fact_has_the_time_of_its_latest_statement,
    the_revision_does_not_grow_without_a_change,
    the_first_record_of_a_name_stays,
)
