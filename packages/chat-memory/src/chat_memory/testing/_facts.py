"""Conformance scenarios for statements and facts: the outcome of each statement, and the facts that follow."""

from __future__ import annotations

from chat_core.errors import ConflictError, UsageError

from chat_memory.citations import SessionCitation, UserCitation
from chat_memory.errors import UnknownFactError
from chat_memory.facts import Candidate, Historical, Inserted, Reinforced, Statement, Superseded, forgotten_record
from chat_memory.graph import Entity, Relation
from chat_memory.passages import Passage
from chat_memory.testing._fixtures import (
    NO_VECTORS,
    Memories,
    home,
    objects,
    refused,
    require,
    require_equal,
    require_kind,
    year,
)


async def a_new_fact_is_inserted(memories: Memories) -> None:
    """Adding the first statement about a subject and a predicate returns `Inserted` with a complete fact."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        citation = SessionCitation("chat-17", 3, year(2020))
        statement = Statement(
            "user", "lives in", "Berlin", "I live in Berlin.", "observed", 0.6, year(2021), year(2020), None, citation
        )
        outcome = await ana.add(statement)
        require_kind(outcome, Inserted, "a new fact is Inserted")
        (fact,) = await ana.facts()
        require_equal(outcome.fact, fact, "an outcome has the stored fact")
        found = (fact.subject, fact.predicate, fact.object, fact.text, fact.source, fact.confidence, fact.citation)
        expected = ("user", "lives in", "Berlin", "I live in Berlin.", "observed", 0.6, citation)
        require_equal(found, expected, "a fact has the fields of its statement")
        times = (fact.said_at, fact.valid_from, fact.valid_to, fact.recorded_at, fact.retired_at, fact.accessed_at)
        require_equal(times, (year(2021), year(2020), None, memories.clock(), None, None), "a fact has its times")
        require_equal(await ana.get(fact.id), fact, "a fact is found by its id")


async def an_equal_statement_reinforces(memories: Memories) -> None:
    """Adding a statement of the current fact returns `Reinforced`. The fact then has one more statement."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        outcome = await ana.add(home("Berlin", 2024))
        require_kind(outcome, Reinforced, "a repeated fact is Reinforced")
        (fact,) = await ana.facts()
        require_equal(fact.reinforcements, 1, "a repeated fact counts its other statements")
        require_equal(fact.valid_from, year(2020), "a reinforced fact is valid since its first statement")
        require_equal((await ana.stats()).facts, 1, "a repeated fact is stored once")


async def a_weaker_statement_of_the_same_fact_reinforces(memories: Memories) -> None:
    """Adding an inferred statement of a fact returns `Reinforced`, and the source of the fact stays `stated`."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        outcome = await ana.add(home("Berlin", 2024, "inferred"))
        require_kind(outcome, Reinforced, "a repeated fact is Reinforced")
        require_equal(outcome.fact.source, "stated", "the strongest source describes a fact")
        require_equal(await ana.facts(status="candidate"), [], "a statement of the current fact is no candidate")


async def another_object_supersedes(memories: Memories) -> None:
    """Adding a later statement with another object returns `Superseded`. The earlier fact is kept as history."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        first = await ana.add(home("Berlin", 2020))
        outcome = await ana.add(home("Paris", 2024))
        outcome = require_kind(outcome, Superseded, "a later contradicting fact is Superseded")
        require_equal(outcome.replaced, (first.fact.id,), "the outcome names the replaced fact")
        require_equal(objects(await ana.facts()), ["Paris"], "one fact is current")
        (old,) = await ana.facts(status="historical")
        require_equal((old.object, old.valid_to), ("Berlin", year(2024)), "a replaced fact is history, until it ended")


async def spellings_are_one_fact(memories: Memories) -> None:
    """Spellings that differ in case, white space, underscores or Unicode composition are one fact."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(Statement("User", "Lives_In", "Zu\u0308rich", valid_from=year(2020)))
        outcome = await ana.add(Statement(" user", "lives  in", "Z\u00dcRICH", valid_from=year(2021)))
        require_kind(outcome, Reinforced, "another spelling is Reinforced")
        require_equal(len(await ana.facts(subject="USER", predicate="lives in")), 1, "a spelling finds the others")


async def a_weaker_source_is_a_candidate(memories: Memories) -> None:
    """Adding a later statement from a weaker source returns `Candidate` and does not replace the current fact."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        first = await ana.add(home("Berlin", 2020))
        outcome = await ana.add(home("Paris", 2024, "inferred"))
        outcome = require_kind(outcome, Candidate, "a weaker contradicting fact is a Candidate")
        require_equal(outcome.current, first.fact.id, "the outcome names the fact that stays current")
        require_equal(objects(await ana.facts()), ["Berlin"], "a weaker source does not supersede")
        require_equal(objects(await ana.facts(status="candidate")), ["Paris"], "a candidate is listed")


async def a_stronger_source_supersedes(memories: Memories) -> None:
    """A fact from a stronger source supersedes a fact from a weaker source, even if the former is older."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Rome", 2023, "inferred"))
        stronger = [home("Oslo", 2022, "observed"), home("Paris", 2021, "system"), home("Berlin", 2020, "stated")]
        for statement in stronger:
            require_kind(await ana.add(statement), Superseded, f"{statement.source} is stronger")
        require_equal(objects(await ana.facts()), ["Berlin"], "the strongest source is current")
        weaker = objects(await ana.facts(status="candidate"))
        require_equal(weaker, ["Oslo", "Paris", "Rome"], "later facts of weaker sources become candidates")


async def a_late_statement_is_history(memories: Memories) -> None:
    """A statement about an earlier time has the outcome `Historical`. It does not replace newer facts."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Paris", 2024))
        outcome = await ana.add(home("Berlin", 2020))
        require_kind(outcome, Historical, "a fact of an earlier time is Historical")
        require_equal(objects(await ana.facts()), ["Paris"], "an earlier fact does not overwrite a later one")
        require_equal(objects(await ana.as_of(valid=year(2022))), ["Berlin"], "history is inserted")


async def a_stated_restatement_promotes_a_candidate(memories: Memories) -> None:
    """If a user states a candidate, the outcome is `Superseded`, and the candidate becomes current."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        await ana.add(home("Paris", 2024, "inferred"))
        outcome = await ana.add(home("Paris", 2025))
        require_kind(outcome, Superseded, "a confirmed candidate is Superseded")
        require_equal(objects(await ana.facts()), ["Paris"], "a confirmed candidate is current")
        require_equal(await ana.facts(status="candidate"), [], "a confirmed candidate waits no longer")


async def a_decision_promotes_a_candidate(memories: Memories) -> None:
    """`promote()` makes a candidate current from its own beginning, and stores who decided."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        candidate = (await ana.add(home("Paris", 2024, "inferred"))).fact
        outcome = await ana.promote(candidate.id, UserCitation("ana"))
        require_kind(outcome, Superseded, "a promoted candidate is Superseded")
        (fact,) = await ana.facts()
        found = (fact.object, fact.valid_from, fact.source, fact.citation)
        require_equal(found, ("Paris", year(2024), "stated", UserCitation("ana")), "a decision is stored")


async def only_a_candidate_is_promoted(memories: Memories) -> None:
    """`promote()` rejects a fact that is not a candidate, and an unknown fact."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        fact = (await ana.add(home("Berlin", 2020))).fact
        with refused(UsageError, "a current fact is not promoted"):
            await ana.promote(fact.id, UserCitation("ana"))
        with refused(UnknownFactError, "an unknown fact is not promoted"):
            await ana.promote("0" * 32, UserCitation("ana"))


async def an_old_value_stated_again_is_current(memories: Memories) -> None:
    """A replaced value that is stated again becomes current. Both of its periods are stored."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        await ana.add(home("Paris", 2022))
        outcome = await ana.add(home("Berlin", 2024))
        require_kind(outcome, Superseded, "a value stated again is Superseded")
        found = [objects(await ana.as_of(valid=year(number))) for number in (2021, 2023, 2025)]
        require_equal(found, [["Berlin"], ["Paris"], ["Berlin"]], "each period of a fact is kept")


async def a_multi_valued_predicate_keeps_all_objects(memories: Memories) -> None:
    """Objects of a multi-valued predicate do not supersede each other."""
    async with memories.open() as memory:
        await memory.declare(multi=["Enjoys"])
        ana = memory.scope("ana")
        for number, drink in enumerate(["tea", "coffee", "milk"]):
            outcome = await ana.add(Statement("user", "enjoys", drink, valid_from=year(2020 + number)))
            require_kind(outcome, Inserted, "another object is Inserted")
        repeated = await ana.add(Statement("user", "enjoys", "TEA", source="inferred", valid_from=year(2025)))
        require_kind(repeated, Reinforced, "a repeated object is Reinforced")
        require_equal(len(await ana.facts(predicate="enjoys")), 3, "all objects are current")


async def a_predicate_is_single_valued_unless_declared(memories: Memories) -> None:
    """A predicate has one object unless it is declared as multi-valued. "likes" is declared as such by default."""
    async with memories.open() as memory:
        require("likes" in await memory.multi_valued(), "likes is declared as multi-valued")
        require("lives_in" not in await memory.multi_valued(), "lives in is not declared")
        await memory.declare(single=["likes"])
        ana = memory.scope("ana")
        for number, drink in enumerate(["tea", "coffee"]):
            await ana.add(Statement("user", "likes", drink, valid_from=year(2020 + number)))
        require_equal(objects(await ana.facts()), ["coffee"], "a single-valued predicate has one object")


async def a_declaration_applies_to_stored_facts(memories: Memories) -> None:
    """`declare()` also changes which of the stored facts are current, in all scopes and for all processes."""
    async with memories.open() as memory, memories.open() as other:
        for scope in ("ana", "ben"):
            for city, since in (("Berlin", 2020), ("Paris", 2024)):
                await memory.scope(scope).add(home(city, since))
        await memory.declare(multi=["lives in"])
        for scope in ("ana", "ben"):
            found = objects(await other.scope(scope).facts())
            require_equal(found, ["Berlin", "Paris"], "facts of a multi-valued predicate are all current")
        await other.declare(single=["LIVES IN"])
        require_equal(objects(await memory.scope("ben").facts()), ["Paris"], "a declaration can be taken back")
        with refused(UsageError, "a predicate is not both"):
            await memory.declare(multi=["x"], single=["X"])


async def a_repeated_key_changes_nothing(memories: Memories) -> None:
    """A statement that is stored again with the same key changes nothing, and its first outcome is returned."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        first = await ana.add(home("Paris", 2024, key="turn 3"))
        exported = await ana.export()
        memories.clock.advance(days=1)
        again = await ana.add(home("Paris", 2024, key="turn 3"))
        require_equal(again, first, "a repeated statement has its first outcome")
        require_equal(await ana.export(), exported, "a repeated statement changes nothing")


async def a_turn_counts_once(memories: Memories) -> None:
    """Without a key, the cited turn of a conversation is the key, so that two runs over one turn count it once."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        for turn in (1, 1, 2, 2):
            await ana.add(Statement("user", "lives in", "Berlin", citation=SessionCitation("chat-17", turn)))
        (fact,) = await ana.facts()
        require_equal(fact.reinforcements, 1, "two turns are two statements")


async def a_subject_is_not_part_of_another(memories: Memories) -> None:
    """A fact replaces another only if their subjects and predicates are equal, whatever characters these contain."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        subjects = ["a", "arawn.lang", "%", "a%", "a'b", 'a"b', "a\\", "*"]
        for subject in subjects:
            outcome = await ana.add(Statement(subject, "is", "x", valid_from=year(2020)))
            require_kind(outcome, Inserted, "another subject is Inserted")
        outcome = await ana.add(Statement("a", "is", "y", valid_from=year(2021)))
        require_kind(outcome, Superseded, "the same subject is Superseded")
        require_equal(len(await ana.facts(object="x")), len(subjects) - 1, "other subjects keep their facts")
        for subject in subjects:
            require_equal(len(await ana.facts(subject=subject)), 1, f"{subject!r} finds itself alone")


async def a_retracted_fact_is_no_longer_current(memories: Memories) -> None:
    """A retracted fact is not current, and the fact that it had replaced is current again."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        wrong = (await ana.add(home("Paris", 2024))).fact
        require(await ana.retract(wrong.id), "retract() finds the fact")
        require_equal(objects(await ana.facts()), ["Berlin"], "a retracted fact is not current")
        (retracted,) = await ana.facts(status="retracted")
        require_equal((retracted.id, retracted.retired_at), (wrong.id, memories.clock()), "a retraction has a time")
        require(not await ana.retract(wrong.id), "a fact is retracted once")
        require_equal(await ana.statements(wrong.id), [], "its statements are no longer in force")


async def a_forgotten_fact_is_deleted_completely(memories: Memories) -> None:
    """`forget()` deletes the fact, its statements, its text and its vectors."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        secret = (await ana.add(home("Paris", 2024))).fact
        (document,) = await ana.documents(kind="fact")
        await ana.put_vectors("m", {document.id: [1.0]})
        require(await ana.forget(secret.id), "forget() finds the fact")
        require_equal(await ana.get(secret.id), None, "a forgotten fact is unknown")
        require_equal(await ana.search_text(["Paris"]), [], "the text of a forgotten fact is not found")
        require_equal(await ana.vectors("m"), NO_VECTORS, "the vector of a forgotten fact is deleted")
        require("Paris" not in str(await ana.export()), "an export does not contain a forgotten fact")
        require("Paris" not in str(await ana.without_vector("other")), "no text of a forgotten fact is left")
        require_equal((await ana.stats()).facts, 1, "no row of a forgotten fact is left")
        require_equal(objects(await ana.facts()), ["Berlin"], "the fact that it had replaced is current again")
        require(not await ana.forget(secret.id), "a fact is forgotten once")


async def forgetting_a_fact_deletes_its_source_texts(memories: Memories) -> None:
    """`forget()` deletes the passages of cited turns, and the extractions and summaries of their conversations."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        texts = {0: "Hello.", 3: "I live in Paris."}
        await ana.add_passages([Passage(text, name, turn) for turn, text in texts.items() for name in ("c", "d")])
        await ana.add_passages([Passage("The user lives in Paris.", "c", 0, "summary")])
        for name in ("extraction 0-4 v1", "summary 0-4 v1", "report"):
            await ana.put_record("c", name, {"text": name if name == "report" else "Paris"})
        secret = (await ana.add(Statement("user", "lives in", "Paris", citation=SessionCitation("c", 3)))).fact
        await ana.forget(secret.id)
        left = [(item.conversation, item.position) for item in await ana.documents()]
        require_equal(sorted(left), [("c", 0), ("d", 0), ("d", 3)], "passages of other turns and conversations stay")
        expected = {"report": {"text": "report"}, forgotten_record(secret.id, 3): {"turn": 3}}
        require_equal(await ana.records("c"), expected, "a record without text says what was forgotten")


async def forgetting_a_fact_deletes_its_entity(memories: Memories) -> None:
    """`forget()` deletes the fact's entities, if they have no properties, and no other facts and relations."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        secret = (await ana.add(Statement("user", "lives in", "Paris", citation=SessionCitation("c", 3)))).fact
        await ana.add(Statement("user", "has lived in", "Rome", citation=SessionCitation("c", 3)))
        await ana.add_entity(Entity("Paris", "place", {"context": "where the user lives"}))
        await ana.relate(Relation("user", "part of", "Paris"), key="c 3")
        await ana.relate(Relation("user", "part of", "Rome"), key="c 1")
        await ana.relate(Relation("Rome", "uses", "Paris"), key="c 1 3")
        await ana.forget(secret.id)
        relations = [(found.source, found.target) for found in (await ana.graph()).relations]
        require_equal(sorted(relations), [("Rome", "Paris"), ("user", "Rome")], "other relations stay")
        require("where the user lives" not in str(await ana.export()), "the context of a used entity is gone")
        again = (await ana.add(Statement("user", "lives in", "Paris", citation=SessionCitation("c 1", 3)))).fact
        jazz = (await ana.add(Statement("user", "likes", "Jazz", citation=SessionCitation("c", 4)))).fact
        await ana.add_entity(Entity("Jazz", "genre", {"curated": "yes"}))
        for fact in (again, jazz):
            await ana.forget(fact.id)
        require_equal([found.name for found in await ana.entities()], ["Jazz", "Rome", "user"], "other entities stay")


async def forgetting_a_fact_deletes_the_graph_of_its_chunk(memories: Memories) -> None:
    """`forget()` deletes the relations and contexts that were extracted with the cited turn, and no others."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        contexts = {0: {"Clinic": "treats Ana", "Moreau": "Ana's doctor"}, 5: {"Bob": "a friend", "Rome": "his home"}}
        for first, found in contexts.items():
            entities = [{"name": name, "type": "x", "context": context} for name, context in found.items()]
            document = {"first": first, "last": first + 4, "output": {"entities": entities}}
            await ana.put_record("c", f"extraction {first}-{first + 4} v1", document)
            for name, context in found.items():
                await ana.add_entity(Entity(name, "x", {"context": context}))
        await ana.relate(Relation("Ana", "patient of", "Moreau"), key="c 0")
        await ana.relate(Relation("Moreau", "knows", "Bob"), key="c 0")
        await ana.relate(Relation("Bob", "lives in", "Rome"), key="c 5")
        await ana.relate(Relation("Bob", "knows", "Moreau"), key="c 5")
        fact = (await ana.add(Statement("Ana", "is treated in", "Clinic", citation=SessionCitation("c", 3)))).fact
        rome = (await ana.add(Statement("Ana", "visited", "Rome", citation=SessionCitation("c", 7)))).fact
        await ana.forget(fact.id)
        exported = str(await ana.export())
        require("treats Ana" not in exported and "doctor" not in exported, "no text of the chunk is left")
        relations = [(found.source, found.target) for found in (await ana.graph()).relations]
        require_equal(sorted(relations), [("Bob", "Moreau"), ("Bob", "Rome")], "relations of other chunks stay")
        left = {found.name: found.properties.get("context") for found in await ana.entities()}
        expected = {"Ana": None, "Bob": "a friend", "Moreau": None, "Rome": "his home"}
        require_equal(left, expected, "mentioned entities and contexts of other chunks stay")
        await ana.forget(rome.id)
        require_equal(await ana.entities(), [], "nothing of the other chunk is left after it is forgotten too")
        require("friend" not in str(await ana.export()), "no text of the other chunk is left")


async def a_forgotten_text_is_not_stored_by_an_earlier_reader(memories: Memories) -> None:
    """A scope of `unless_forgotten()` refuses every write after a fact from its conversation was forgotten."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        statement = Statement("user", "lives in", "Paris", citation=SessionCitation("c", 3))
        secret = (await ana.add(statement)).fact
        early = ana.unless_forgotten("c", await ana.records("c"))
        other = ana.unless_forgotten("d", await ana.records("d"))
        await early.add_passages([Passage("I live in Paris.", "c", 3)])
        await ana.forget(secret.id)
        with refused(ConflictError, "a forgotten passage is not stored again"):
            await early.add_passages([Passage("I live in Paris.", "c", 3)])
        with refused(ConflictError, "a forgotten statement is not stored again"):
            await early.add(statement)
        with refused(ConflictError, "an extraction with a forgotten fact is not stored again"):
            await early.put_record("c", "extraction 0-4 v1", {"text": "Paris"})
        require("Paris" not in str(await ana.export()), "nothing of the forgotten fact is stored")
        await other.add_passages([Passage("Hello.", "d", 0)])
        late = ana.unless_forgotten("c", await ana.records("c"))
        await late.add_passages([Passage("Hello.", "c", 0)])
        require_equal(len(await ana.documents()), 2, "other conversations and later readers are stored")


async def facts_are_listed_by_id(memories: Memories) -> None:
    """`facts(ids=…)` lists the facts with these ids and the status, and ignores unknown ids."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        old, new = [(await ana.add(home(city, since))).fact for city, since in (("Berlin", 2020), ("Paris", 2024))]
        tea = (await ana.add(Statement("user", "likes", "tea"))).fact
        require_equal(objects(await ana.facts(ids=[old.id, new.id, "\0"])), ["Paris"], "only current facts are listed")
        require_equal(objects(await ana.facts(ids=[old.id, tea.id], status="historical")), ["Berlin"], "with a status")
        require_equal(await ana.facts(ids=[]), [], "no ids name no facts")
        require_equal(await memory.scope("ben").facts(ids=[tea.id]), [], "a fact of another scope is not found")


async def touch_marks_the_facts_that_it_names(memories: Memories) -> None:
    """`touch()` sets the time of access of the named facts. Listing facts does not."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        fact = (await ana.add(home("Berlin", 2020))).fact
        await ana.add(Statement("user", "likes", "tea"))
        memories.clock.advance(days=1)
        await ana.facts()
        await ana.touch([fact.id])
        found = {item.object: item.accessed_at for item in await ana.facts()}
        require_equal(found, {"Berlin": memories.clock(), "tea": None}, "only the named fact was accessed")


async def statements_are_listed(memories: Memories) -> None:
    """`statements()` lists the statements of a fact with their sources, earliest first."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2024, "inferred", key="2024"))
        fact = (await ana.add(home("Berlin", 2020, key="2020"))).fact
        found = [(item.key, item.source, item.valid_from) for item in await ana.statements(fact.id)]
        expected = [("2020", "stated", year(2020)), ("2024", "inferred", year(2024))]
        require_equal(found, expected, "the statements of a fact are listed")


SCENARIOS = (
    a_new_fact_is_inserted,
    an_equal_statement_reinforces,
    a_weaker_statement_of_the_same_fact_reinforces,
    another_object_supersedes,
    spellings_are_one_fact,
    a_weaker_source_is_a_candidate,
    a_stronger_source_supersedes,
    a_late_statement_is_history,
    a_stated_restatement_promotes_a_candidate,
    a_decision_promotes_a_candidate,
    only_a_candidate_is_promoted,
    an_old_value_stated_again_is_current,
    a_multi_valued_predicate_keeps_all_objects,
    a_predicate_is_single_valued_unless_declared,
    a_declaration_applies_to_stored_facts,
    a_repeated_key_changes_nothing,
    a_turn_counts_once,
    a_subject_is_not_part_of_another,
    a_retracted_fact_is_no_longer_current,
    a_forgotten_fact_is_deleted_completely,
    forgetting_a_fact_deletes_its_source_texts,
    forgetting_a_fact_deletes_its_entity,
    forgetting_a_fact_deletes_the_graph_of_its_chunk,
    a_forgotten_text_is_not_stored_by_an_earlier_reader,
    facts_are_listed_by_id,
    touch_marks_the_facts_that_it_names,
    statements_are_listed,
)
