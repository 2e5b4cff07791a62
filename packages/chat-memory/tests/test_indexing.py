"""Indexing: stored conversations become passages, entities, facts, relations and a summary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from chat_core import ChatOptions
from chat_core.errors import RequestTimeoutError, ServerError, UsageError
from chat_core.messages import Messages, Recalled, RecalledNote, Summary, Text, Turn
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory import Entity, SessionCitation, SqliteMemory, Statement
from chat_memory.extraction import Certainty, ExtractedEntity, ExtractedFact, ExtractedRelation, Extraction
from chat_memory.facts import MAX_NAME_BYTES
from chat_memory.indexing import IncompleteIndexError, Indexer, IndexReport, index_job
from chat_memory.postgres import PostgresMemory
from chat_memory.recall import Recall
from chat_memory.transcript import TranscriptTurn
from chat_store import SqliteStore
from chat_store.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio
START = datetime(2026, 1, 1, tzinfo=UTC)
ENTITIES = ("Ana", "Arawn", "Rust", "SQLite", "Berlin", "Colliery", "Dylan", "config.toml", "main.rs", "memory", "Ben")
FACTS = (
    ExtractedFact("Ana", "lives in", "Berlin", "stated", 0),
    ExtractedFact("Ana", "works at", "Colliery", "stated", 0),
    ExtractedFact("Arawn", "language", "Rust", "stated", 0),
    ExtractedFact("Arawn", "database", "SQLite", "observed", 0),
    ExtractedFact("Ana", "likes", "Rust", "inferred", 0),
    ExtractedFact("Ben", "works at", "Colliery", "stated", 2),
    ExtractedFact("Arawn", "author", "Dylan", "stated", 2),
)
RELATIONS = tuple(
    ExtractedRelation(*item.split("/"))
    for item in (
        "Arawn/written_in/Rust", "Arawn/uses/SQLite", "Arawn/created_by/Dylan", "Ana/part_of/Colliery",
        "Ben/belongs_to/Colliery", "Rust/is_a/language", "memory/depends_on/SQLite", "main.rs/mentions/config.toml",
    )
)  # fmt: skip
SEED = Extraction([ExtractedEntity(name) for name in ENTITIES], FACTS, RELATIONS)
SEED_REPORT = IndexReport(
    entities_stored=11, facts_inserted=7, relationships_stored=8, summary_stored=True, version="script", turns=4
)


class Script:
    """An extractor with given results, which records the requests."""

    version = "script"

    def __init__(self, extraction: Extraction = SEED) -> None:
        self.extraction = extraction
        self.asked: list[list[int]] = []
        self.summarized: list[tuple[list[int], str]] = []
        self.known: list[str] = []
        self.failures: list[Exception] = []

    async def extract(self, turns: Sequence[TranscriptTurn], known: Sequence[str], /) -> Extraction:
        self.asked.append([turn.index for turn in turns])
        self.known += known
        if self.failures:
            raise self.failures.pop()
        return self.extraction

    async def summarize(self, turns: Sequence[TranscriptTurn], summary: str, /) -> str:
        self.summarized.append(([turn.index for turn in turns], summary))
        return f"{summary} They talked.".strip()


class Recognizer:
    """A recognizer with given results."""

    version = "ner"

    def __init__(self, found: Extraction | Exception) -> None:
        self.found = found

    async def recognize(self, texts: Sequence[str], /) -> Extraction:
        assert texts
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def talk(*texts: str, start: int = 0) -> Messages:
    """Return turns of a user and a model by turns."""
    messages = Messages()
    for number, text in enumerate(texts, start):
        time = START + timedelta(minutes=number)
        messages.append("model" if number % 2 else "user", Turn([Text(text)], created_at=time))
    return messages


FOUR = ("I live in Berlin.", "I see.", "Ben works with me.", "Noted.")


def indexer_of(memory: SqliteMemory, script: Script, recognizer: Recognizer | None = None, size: int = 999) -> Indexer:
    return Indexer(memory, script, scope=lambda meta: meta.owner, recognizer=recognizer, chunk_characters=size)


async def test_indexing_stores_entities_facts_relations_and_a_summary(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        indexer = indexer_of(memory, Script())
        report = await indexer.index("ana", "chat-1", talk(*FOUR))
        assert report == SEED_REPORT
        assert await indexer.report("ana", "chat-1") == report
        ana = memory.scope("ana")
        (ben,) = await ana.facts(subject="Ben")
        assert ben.said_at == START + timedelta(minutes=2)
        assert [(passage.position, passage.speaker) for passage in await ana.documents(kind="turn")] == [
            (0, "user"), (1, "model"), (2, "user"), (3, "model"),
        ]  # fmt: skip
        assert [passage.text for passage in await ana.documents(kind="summary")] == ["They talked."]
        assert [neighbor.entity.name for neighbor in await ana.neighbors("Dylan")] == ["Arawn"]
        assert {fact.subject for fact in await ana.facts_about("Colliery")} == {"Ana", "Ben"}


async def test_indexing_a_session_twice_changes_nothing_and_calls_no_model(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        script = Script()
        first = await indexer_of(memory, script).index("ana", "chat-1", talk(*FOUR))
        before = await memory.scope("ana").export()
        assert await indexer_of(memory, script).index("ana", "chat-1", talk(*FOUR)) == first
        assert await memory.scope("ana").export() == before
        assert len(script.asked) == 1


async def test_a_forgotten_fact_is_not_indexed_again(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        await indexer_of(memory, Script()).index("ana", "chat-1", talk(*FOUR))
        ana = memory.scope("ana")
        (home,) = await ana.facts(predicate="lives in")
        await ana.forget(home.id)
        script = Script(Extraction())
        await indexer_of(memory, script).index("ana", "chat-1", talk(*FOUR, "Bye."))
        assert await ana.facts(predicate="lives in") == []
        assert script.asked == [[4]]


async def test_indexing_added_turns_updates_the_report_and_the_summary(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        await indexer_of(memory, Script()).index("ana", "chat-1", talk(*FOUR))
        script = Script(Extraction(facts=[ExtractedFact("Ana", "lives in", "Rome", "stated", 4)]))
        report = await indexer_of(memory, script).index("ana", "chat-1", talk(*FOUR, "I moved to Rome."))
        assert report == replace(SEED_REPORT, facts_inserted=8, facts_superseded=1, turns=5)
        assert script.summarized == [([4], "They talked.")]
        assert [fact.object for fact in await memory.scope("ana").facts(predicate="lives in")] == ["Rome"]


async def test_indexing_an_empty_session_calls_no_model(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        script = Script()
        report = await indexer_of(memory, script).index("ana", "chat-1", Messages.from_system("Be brief."))
        assert report == IndexReport(version="script")
        assert (script.asked, await memory.scopes()) == ([], [])


async def test_a_long_session_is_split_between_turns(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        script = Script(Extraction())
        await indexer_of(memory, script, size=100).index("ana", "chat-1", talk(*["x" * 10] * 200))
        assert script.asked == [list(range(start, start + 10)) for start in range(0, 200, 10)]
        assert [turns for turns, _ in script.summarized] == script.asked


async def test_engine_turns_summaries_and_recalled_notes_are_not_indexed(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        messages = talk("I live in Berlin.", "I see.", "Hm.").summarize("Ana lives in Rome.", 2)
        messages.append("user", Turn([Text("Answer again.")], by="engine"))
        messages.append("user", Turn([Recalled((RecalledNote("Ana lives in Bonn."),))], by="engine"))
        messages.append(
            "user",
            Turn([Summary("Ana lives in Oslo.", 0, ""), Recalled((RecalledNote("She is 30."),)), Text("Thanks.")]),
        )
        script = Script()
        await indexer_of(memory, script).index("ana", "chat-1", messages)
        texts = [passage.text for passage in await memory.scope("ana").documents(kind="turn")]
        assert texts == ["I live in Berlin.", "I see.", "Hm.", "Thanks."]


async def test_turns_removed_by_a_rewind_are_not_indexed(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        messages = talk("I live in Berlin.", "I see.", "No, in Rome.", "Aha.").rewind(2)
        messages.append("user", Turn([Text("Since 2020.")], created_at=START))
        script = Script(Extraction())
        await indexer_of(memory, script).index("ana", "chat-1", messages)
        assert script.asked == [[0, 1, 5]]


async def test_a_model_outage_is_reported_and_the_job_is_retried(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with SqliteStore(path) as store, SqliteMemory(path) as memory:
        script = Script()
        script.failures.append(RequestTimeoutError("the model is down"))
        await store.create(talk(*FOUR), id="chat-1", owner="ana")
        await store.close("chat-1", jobs=[replace(index_job("chat-1"), backoff_seconds=0)])
        await store.close("chat-1", jobs=[index_job("chat-1")])
        with pytest.raises(IncompleteIndexError, match="extract: RequestTimeoutError: the model is down"):
            await indexer_of(memory, script).run_next(store)
        failed = await indexer_of(memory, script).report("ana", "chat-1")
        assert failed is not None
        assert ([error.stage for error in failed.errors], failed.turns, failed.complete) == (["extract"], 0, False)
        assert len(await memory.scope("ana").documents(kind="turn")) == 4
        assert await indexer_of(memory, script).run_next(store) == SEED_REPORT
        assert [(job.state, job.attempts) for job in await store.jobs(kind="index")] == [("done", 2)]
        assert await indexer_of(memory, script).run_next(store) is None


async def test_a_conversation_without_a_scope_is_not_indexed(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with SqliteStore(path) as store, SqliteMemory(path) as memory:
        await store.create(talk(*FOUR), id="chat-1")
        await store.close("chat-1", jobs=[index_job("chat-1")])
        with pytest.raises(UsageError, match="scope\\(\\) returned None"):
            await indexer_of(memory, Script()).run_next(store)
        assert await memory.scopes() == []


async def test_a_job_with_the_same_key_is_queued_once(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store:
        await store.create(talk(*FOUR), id="chat-1", jobs=[index_job("chat-1", key="chat-1/4", at=START)])
        await store.apply("chat-1", jobs=[index_job("chat-1", key="chat-1/4")])
        assert [(job.key, job.at) for job in await store.jobs(kind="index")] == [("chat-1/4", START)]


async def test_recognized_entities_are_combined_with_relations_of_the_model(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        script = Script()
        recognizer = Recognizer(Extraction([ExtractedEntity("Ana", "person")]))
        report = await indexer_of(memory, script, recognizer).index("ana", "chat-1", talk(*FOUR))
        assert (report.entities_stored, report.relationships_stored, script.known) == (1, 8, ["Ana"])
        assert Entity("Ana", "person") in await memory.scope("ana").entities()


async def test_relations_found_by_a_recognizer_are_stored(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        found = Extraction([ExtractedEntity("Ana")], (), [ExtractedRelation("Ana", "knows", "Ben")])
        report = await indexer_of(memory, Script(), Recognizer(found)).index("ana", "chat-1", talk(*FOUR))
        assert report.relationships_stored == 1


async def test_a_failing_recognizer_is_reported_and_the_model_entities_are_stored(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        report = await indexer_of(memory, Script(), Recognizer(OSError("no model file"))).index(
            "ana", "chat-1", talk(*FOUR)
        )
        assert report.entities_stored == 11
        assert [error.error for error in report.errors] == ["the recognizer failed: OSError: no model file"]
        assert report.complete


async def test_an_invalid_item_is_reported_and_the_others_are_stored(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        extraction = Extraction(
            [ExtractedEntity(" "), ExtractedEntity("Ana")],
            [ExtractedFact("Ana", "", "Berlin"), ExtractedFact("Ana", "lives in", "Berlin")],
            [ExtractedRelation("Ana", "knows", ""), ExtractedRelation("Ana", "knows", "Ben")],
        )
        report = await indexer_of(memory, Script(extraction)).index("ana", "chat-1", talk(*FOUR))
        assert (report.entities_stored, report.facts_inserted, report.relationships_stored) == (1, 1, 1)
        assert [error.stage for error in report.errors] == ["entities", "facts", "relations"]
        assert report.complete


async def test_a_too_long_name_is_reported_and_other_items_are_stored(tmp_path: Path) -> None:
    long = "x" * (MAX_NAME_BYTES + 1)
    async with SqliteMemory(tmp_path / "m.db") as memory:
        extraction = Extraction(
            [ExtractedEntity(long), ExtractedEntity("Ana")],
            [ExtractedFact(long, "lives in", "Berlin"), ExtractedFact("Ana", "lives in", "Berlin")],
            [ExtractedRelation("Ana", long, "Ben"), ExtractedRelation("Ana", "knows", "Ben")],
        )
        report = await indexer_of(memory, Script(extraction)).index("ana", "chat-1", talk(*FOUR))
        assert (report.entities_stored, report.facts_inserted, report.relationships_stored) == (1, 1, 1)
        assert [error.stage for error in report.errors] == ["entities", "facts", "relations"]
        assert report.complete


@pytest.mark.parametrize("certainty", ["stated", "observed"])
async def test_a_fact_from_a_model_turn_is_inferred(tmp_path: Path, certainty: Certainty) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        extraction = Extraction(facts=[ExtractedFact("Ana", "lives in", "Rome", certainty, 1)])
        await indexer_of(memory, Script(extraction)).index("ana", "chat-1", talk(*FOUR))
        (fact,) = await memory.scope("ana").facts()
        assert fact.source == "inferred"


async def test_a_fact_with_an_unknown_turn_cites_the_last_turn(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        extraction = Extraction(facts=[ExtractedFact("Ana", "lives in", "Rome", "observed", 99)])
        await indexer_of(memory, Script(extraction)).index("ana", "chat-1", talk(*FOUR[:3], "Hm.", "Ok."))
        (fact,) = await memory.scope("ana").facts()
        assert (fact.said_at, fact.source) == (START + timedelta(minutes=4), "inferred")


async def test_a_forgotten_fact_is_not_stored_by_a_retry(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        indexer = Indexer(memory, Script(), scope=lambda meta: meta.owner, recall=Recall(memory, Embedder()))
        assert not (await indexer.index("ana", "chat-1", talk(*FOUR))).complete
        ana = memory.scope("ana")
        (home,) = await ana.facts(predicate="lives in")
        await ana.forget(home.id)
        assert (await indexer.index("ana", "chat-1", talk(*FOUR))).complete
        assert await ana.facts(predicate="lives in") == []


async def test_a_turn_of_a_forgotten_fact_is_not_indexed_again(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        indexer = Indexer(memory, Script(), scope=lambda meta: meta.owner, recall=Recall(memory, Embedder()))
        await indexer.index("ana", "chat-1", talk(*FOUR))
        ana = memory.scope("ana")
        (home,) = await ana.facts(predicate="lives in")
        await ana.forget(home.id)
        script = Script(Extraction())
        report = await indexer_of(memory, script).index("ana", "chat-1", talk(*FOUR))
        assert (report.complete, script.asked) == (True, [[1, 2, 3]])
        assert sorted(item.position or 0 for item in await ana.documents(kind="turn")) == [1, 2, 3]


async def test_forgetting_a_fact_deletes_what_was_extracted_with_its_turn(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        ana = memory.scope("ana")
        early = Extraction([ExtractedEntity("Rust", context="the user learns it")], FACTS[:1], RELATIONS[:1])
        late = Extraction([ExtractedEntity("Ben", context="a colleague")], FACTS[5:6], RELATIONS[4:5])
        await indexer_of(memory, Script(early)).index("ana", "chat-1", talk(*FOUR[:1]))
        await indexer_of(memory, Script(late)).index("ana", "chat-1", talk(*FOUR))
        (home,) = await ana.facts(predicate="lives in")
        await ana.forget(home.id)
        assert [entity.name for entity in await ana.entities()] == ["Ben", "Colliery"]
        assert [relation.label for relation in (await ana.graph()).relations] == ["belongs_to"]
        (job,) = await ana.facts(subject="Ben")
        await ana.forget(job.id)
        assert await ana.entities() == []


class ForgetfulScript(Script):
    """An extractor whose user forgets a fact during one of its calls."""

    def __init__(self, moment: str, forget: Callable[[], Awaitable[object]]) -> None:
        super().__init__(Extraction(facts=[ExtractedFact("Ana", "password", "swordfish", "stated", 0)]))
        self.moment = moment
        self.forget = forget

    async def _forget_once(self, moment: str) -> None:
        if self.moment == moment:
            self.moment = ""
            await self.forget()

    async def extract(self, turns: Sequence[TranscriptTurn], known: Sequence[str], /) -> Extraction:
        await self._forget_once("extract")
        return await super().extract(turns, known) if turns[0].index == 0 else Extraction()

    async def summarize(self, turns: Sequence[TranscriptTurn], summary: str, /) -> str:
        await self._forget_once("summarize")
        return " ".join([summary, *(turn.text for turn in turns)])


@pytest.mark.parametrize("moment", ["extract", "summarize"])
async def test_a_fact_forgotten_during_an_index_run_is_not_stored(tmp_path: Path, moment: str) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        ana = memory.scope("ana")
        citation = SessionCitation("chat-1", 0)
        secret = (await ana.add(Statement("Ana", "password", "swordfish", citation=citation))).fact
        script = ForgetfulScript(moment, lambda: ana.forget(secret.id))
        messages = talk("My password is swordfish.", "I see.", "Ben works with me.")
        first = await indexer_of(memory, script).index("ana", "chat-1", messages)
        assert (first.complete, "swordfish" in str(await ana.export())) == (False, False)
        second = await indexer_of(memory, script).index("ana", "chat-1", messages)
        assert (second.complete, "swordfish" in str(await ana.export())) == (True, False)
        (summary,) = await ana.documents(kind="summary")
        assert summary.text == "I see. Ben works with me."


async def test_a_forgotten_fact_is_stored_if_a_later_turn_states_it(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        await indexer_of(memory, Script()).index("ana", "chat-1", talk(*FOUR))
        ana = memory.scope("ana")
        (home,) = await ana.facts(predicate="lives in")
        await ana.forget(home.id)
        later = Script(Extraction(facts=[ExtractedFact("Ana", "lives in", "Berlin", "stated", 4)]))
        await indexer_of(memory, later).index("ana", "chat-1", talk(*FOUR, "I do live in Berlin."))
        assert [fact.object for fact in await ana.facts(predicate="lives in")] == ["Berlin"]


class Embedder:
    """An embedder whose first two requests fail."""

    metadata = ProviderMeta("test", "constant")

    def __init__(self) -> None:
        self.requests = 0

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        assert options == ChatOptions()
        self.requests += 1
        if self.requests <= 2:
            raise ServerError("the embedder is down")
        return EmbeddingsResponse(tuple((1.0,) for _ in texts))


async def test_texts_are_stored_without_vectors_while_the_embedder_is_down(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        script, recall = Script(), Recall(memory, Embedder())
        indexer = Indexer(memory, script, scope=lambda meta: meta.owner, recall=recall)
        report = await indexer.index("ana", "chat-1", talk(*FOUR))
        assert ([error.stage for error in report.errors], report.facts_inserted) == (["embed"], 7)
        assert await indexer.index("ana", "chat-1", talk(*FOUR)) == SEED_REPORT
        assert len(script.asked) == 1
        assert await recall.embed("ana") == 0


async def test_a_session_in_postgresql_is_indexed_once(postgres: PostgresServer) -> None:
    async with PostgresMemory(postgres.dsn, schema=f"memory_{uuid4().hex}") as memory:
        script = Script()
        indexer = Indexer(memory, script, scope=lambda meta: meta.owner)
        assert await indexer.index("ana", "chat-1", talk(*FOUR)) == SEED_REPORT
        before = await memory.scope("ana").export()
        assert await indexer.index("ana", "chat-1", talk(*FOUR)) == SEED_REPORT
        assert (await memory.scope("ana").export(), len(script.asked)) == (before, 1)
