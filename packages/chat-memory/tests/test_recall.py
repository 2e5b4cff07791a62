"""Recall over a memory in a file."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_core import ChatOptions
from chat_core.errors import InvalidRequestError, InvalidResponseError, ServerError, UsageError
from chat_core.messages.token_estimate import estimate_text
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory import Fact, Passage, Relation, Source, SqliteMemory, Statement
from chat_memory._base_memory import Scope
from chat_memory._fact_rows import FactRows
from chat_memory._text_index import TextIndex, TextScores
from chat_memory.passages import ScopeChanges, vector_to_bytes
from chat_memory.recall import Recall, RecallResult
from chat_memory.weights import Weights

pytestmark = pytest.mark.anyio


class Embedder:
    """Places each text by the letters a to z that it contains, or gives each text the same vector."""

    def __init__(
        self,
        model: str = "letters",
        *,
        fails_at: Collection[int] = (),
        vector: tuple[float, ...] | None = None,
        refuses: str | None = None,
    ) -> None:
        self.refuses = refuses
        self.vector = vector
        self.metadata = ProviderMeta("test", model)
        self.requests = 0
        self.texts: list[str] = []
        self.fails_at = fails_at

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        assert options == ChatOptions()
        self.requests += 1
        self.texts += texts
        if self.requests in self.fails_at:
            raise ServerError("the embedder is down")
        if self.refuses is not None and any(self.refuses in text for text in texts):
            raise InvalidRequestError("it is refused")
        return EmbeddingsResponse(
            tuple(self.vector or tuple(float(text.lower().count(chr(97 + n))) for n in range(26)) for text in texts)
        )


def texts(result: RecallResult) -> list[str]:
    return [match.document.text for match in result.matches]


async def tell(memory: SqliteMemory, *said: str, scope: str = "ana", conversation: str = "a") -> None:
    await memory.scope(scope).add_passages([Passage(text, conversation, n) for n, text in enumerate(said)])


async def test_relevant_texts_are_returned_best_first(memory: SqliteMemory) -> None:
    await tell(memory, "I play the violin in an orchestra.", conversation="a")
    await tell(memory, "The orchestra bought a violin, a piano, a harp and drums.", conversation="b")
    await tell(memory, "It rained in Lisbon.", conversation="c")
    result = await Recall(memory).search("ana", "Which orchestra and violin?")
    assert texts(result) == [
        "I play the violin in an orchestra.",
        "The orchestra bought a violin, a piano, a harp and drums.",
    ]
    assert result.searched == 3
    assert [list(match.reasons) for match in result.matches] == [["text", "conversation"]] * 2
    assert result.matches[0].relevance == pytest.approx(sum(result.matches[0].reasons.values()))


async def test_an_unrelated_question_has_no_matches(memory: SqliteMemory) -> None:
    await tell(memory, "I play the violin in an orchestra.", "Rehearsals are on Mondays.")
    question = "What is the capital of Mongolia and who founded the orchestra of its oldest radio station there?"
    assert texts(await Recall(memory).search("ana", "Who invented the bicycle?")) == []
    assert texts(await Recall(memory).search("ana", question)) == []
    assert texts(await Recall(memory, gate=0).search("ana", question)) != []


async def test_the_default_gate_is_lower_in_a_scope_of_a_few_texts(memory: SqliteMemory) -> None:
    await memory.scope("ana").add(Statement("user", "lives in", "Paris"))
    question = "Where do I live, and which instrument do I play?"
    recall = Recall(memory, Embedder(vector=(1.0, 0.0)))
    await recall.embed("ana")
    result = await recall.search("ana", question)
    assert texts(result) == ["user lives in Paris"]
    assert result.matches[0].relevance < 0.37
    assert texts(await Recall(memory, gate=0.37).search("ana", question)) == []
    for number in range(60):
        await tell(memory, *(f"rain {number} {n}" for n in range(10)), conversation=str(number))
    assert texts(await Recall(memory).search("ana", "Where do I live, play, sleep, cook, paint and swim?")) == []


async def test_matches_far_below_the_best_are_omitted(memory: SqliteMemory) -> None:
    await tell(memory, "Ben repairs violins, cellos and harps.", conversation="a")
    await tell(memory, "Ben sleeps.", conversation="b")
    question = "Does Ben repair violins, cellos or harps?"
    assert len((await Recall(memory, gate=0).search("ana", question)).matches) == 1
    assert len((await Recall(memory, gate=0, relative_gate=0).search("ana", question)).matches) == 2


async def test_a_search_returns_texts_of_its_scope_only(memory: SqliteMemory) -> None:
    await tell(memory, "I play the violin.", scope="ana")
    await tell(memory, "Ben plays the violin.", scope="ben")
    recall = Recall(memory)
    assert texts(await recall.search("ana", "violin")) == ["I play the violin."]
    assert texts(await recall.search("ben", "violin")) == ["Ben plays the violin."]
    assert (await recall.search("eve", "violin")).searched == 0


async def test_an_index_follows_changes_and_the_oldest_index_is_dropped(memory: SqliteMemory) -> None:
    recall = Recall(memory, max_scopes=1)
    for scope in ("ana", "ben", "ana"):
        await tell(memory, f"{scope} plays the violin", scope=scope)
        assert texts(await recall.search(scope, "violin")) == [f"{scope} plays the violin"]
    await tell(memory, "ana plays the harp", scope="ana")
    assert texts(await recall.search("ana", "violin")) == []
    assert texts(await recall.search("ana", "harp")) == ["ana plays the harp"]


async def test_deleted_texts_are_not_found_if_the_revision_count_is_equal(memory: SqliteMemory) -> None:
    recall = Recall(memory)
    await tell(memory, "ana plays the violin")
    assert texts(await recall.search("ana", "violin")) == ["ana plays the violin"]
    await memory.scope("ana").delete_all()
    await tell(memory, "ana plays the harp")
    assert texts(await recall.search("ana", "violin")) == []


async def test_touching_a_fact_does_not_change_the_revision(memory: SqliteMemory) -> None:
    scope = memory.scope("ana")
    await scope.add(Statement("Ana", "plays", "violin"))
    revision = await scope.revision()
    await scope.touch([(await scope.facts())[0].id])
    assert (await scope.facts())[0].accessed_at is not None
    assert await scope.revision() == revision


async def test_a_change_by_another_process_is_found(memory: SqliteMemory, tmp_path: Path) -> None:
    recall = Recall(memory)
    await tell(memory, "ana plays the violin")
    assert texts(await recall.search("ana", "harp")) == []
    async with SqliteMemory(tmp_path / "memory.db") as other:
        await tell(other, "ana plays the harp", conversation="b")
    assert texts(await recall.search("ana", "harp")) == ["ana plays the harp"]


async def test_a_search_after_a_change_reads_only_the_changed_texts(
    memory: SqliteMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []
    changes = Scope.changes

    async def record(*arguments: Any, **options: Any) -> ScopeChanges:
        found = await changes(*arguments, **options)
        read.append([document.text for document in found.documents])
        return found

    monkeypatch.setattr(Scope, "changes", record)
    await tell(memory, "ana plays the violin", "ben plays the drum")
    recall = Recall(memory)
    assert texts(await recall.search("ana", "violin"))[:1] == ["ana plays the violin"]
    async with SqliteMemory(tmp_path / "memory.db") as other:
        await tell(other, "ana plays the harp")
    assert texts(await recall.search("ana", "harp"))[:1] == ["ana plays the harp"]
    assert "ana plays the violin" not in texts(await recall.search("ana", "violin"))
    assert read == [["ana plays the violin", "ben plays the drum"], ["ana plays the harp"]]


async def test_concurrent_searches_return_results_of_their_scope(memory: SqliteMemory) -> None:
    recall = Recall(memory, max_scopes=2)
    found: list[tuple[str, list[str]]] = []

    async def ask(scope: str) -> None:
        await tell(memory, f"{scope} plays the violin", scope=scope)
        found.append((scope, texts(await recall.search(scope, "violin"))))

    async with anyio.create_task_group() as tasks:
        for number in range(24):
            tasks.start_soon(ask, f"owner {number % 6}")
    assert sorted(found) == sorted((f"owner {n % 6}", [f"owner {n % 6} plays the violin"]) for n in range(24))


async def test_superseded_facts_are_not_found(memory: SqliteMemory) -> None:
    scope = memory.scope("ana")
    for city, year in (("Paris", 2022), ("Berlin", 2024)):
        await scope.add(Statement("Ana", "lives in", city, said_at=datetime(year, 1, 1, tzinfo=UTC)))
    result = await Recall(memory).search("ana", "Where does Ana live, Paris or Berlin?")
    assert texts(result) == ["Ana lives in Berlin"]
    assert result.matches[0].fact is not None
    assert result.matches[0].fact.object == "Berlin"


async def test_confidence_orders_facts_and_does_not_affect_the_gate(memory: SqliteMemory) -> None:
    scope = memory.scope("ana")
    await scope.add(Statement("Ana", "likes", "jazz", text="Ana likes jazz clubs", source="inferred"))
    await scope.add(Statement("Ana", "likes", "swing", text="Ana likes jazz bands", source="stated"))
    result = await Recall(memory).search("ana", "Does Ana like jazz?")
    assert texts(result) == ["Ana likes jazz bands", "Ana likes jazz clubs"]
    assert result.matches[0].score > result.matches[0].relevance
    everything = Weights(confidence=10)
    assert texts(await Recall(memory, weights=everything).search("ana", "Who invented the bicycle?")) == []


async def test_an_expired_fact_is_not_found_in_an_older_index(tmp_path: Path) -> None:
    now = [datetime(2024, 1, 1, tzinfo=UTC)]
    async with SqliteMemory(tmp_path / "memory.db", now=lambda: now[0]) as memory:
        await memory.scope("ana").add(Statement("Ana", "lives in", "Berlin", valid_to=datetime(2025, 1, 1, tzinfo=UTC)))
        recall = Recall(memory)
        assert texts(await recall.search("ana", "Where in Berlin?")) == ["Ana lives in Berlin"]
        now[0] = datetime(2026, 1, 1, tzinfo=UTC)
        assert texts(await recall.search("ana", "Where in Berlin?")) == []


async def test_matches_are_limited_in_number_and_tokens(memory: SqliteMemory) -> None:
    for n in range(30):
        await tell(memory, f"violin {n}", conversation=str(n))
    recall = Recall(memory)
    each = estimate_text("violin 1")
    assert len((await recall.search("ana", "violin")).matches) == 10
    assert len((await recall.search("ana", "violin", limit=25)).matches) == 25
    assert len((await recall.search("ana", "violin", max_tokens=2 * each)).matches) == 2
    assert len((await recall.search("ana", "violin", max_tokens=2 * each - 1)).matches) == 1


async def test_a_match_that_is_too_long_is_left_out(memory: SqliteMemory) -> None:
    await tell(memory, "violin " * 100, conversation="a")
    await tell(memory, "violin and harp", conversation="b")
    result = await Recall(memory, relative_gate=0).search("ana", "violin", max_tokens=100)
    assert texts(result) == ["violin and harp"]


async def test_an_embedder_without_an_answer_degrades_the_search(memory: SqliteMemory) -> None:
    class Silent(Embedder):
        async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
            del texts, options
            return EmbeddingsResponse(())

    await tell(memory, "tea")
    with pytest.raises(InvalidResponseError, match="returned 0 vectors for 1 texts"):
        await Recall(memory, Silent()).embed("ana")
    await Recall(memory, Embedder()).embed("ana")
    assert (await Recall(memory, Silent()).search("ana", "tea")).degraded


async def test_a_database_that_does_not_answer_gives_no_notes(
    memory: SqliteMemory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait(*_: object) -> None:
        msg = "the database is locked"
        raise TimeoutError(msg)

    await memory.scope("ana").add(Statement("Ana", "plays", "violin"))
    recall = Recall(memory)
    monkeypatch.setattr("chat_memory._base_memory.Scope.touch", wait)
    notes = await recall.recall("ana", "Who plays the violin?")
    assert [note.text for note in notes] == ["Ana plays violin"]
    await recall.received("ana", notes)
    assert "the use of facts was not recorded" in caplog.text
    monkeypatch.setattr("chat_memory._base_memory.Scope.revision", wait)
    assert await recall.recall("ana", "Who plays the violin?") == []
    assert "no notes from memory" in caplog.text


async def test_a_limited_search_returns_the_best_matches(memory: SqliteMemory) -> None:
    for n in range(30):
        await tell(memory, "violin" + " and harp" + " and drum" * (n == 29), conversation=str(n))
    recall = Recall(memory, gate=0, relative_gate=0)
    result = await recall.search("ana", "violin, harp, drum", limit=3)
    assert texts(result)[0] == "violin and harp and drum"
    assert len(result.matches) == 3


async def test_an_embedder_orders_texts_with_equal_word_scores(memory: SqliteMemory) -> None:
    await tell(memory, "tea zzz", conversation="a")
    await tell(memory, "tea qqq", conversation="b")
    recall = Recall(memory, Embedder(), gate=0)
    assert await recall.embed("ana") == 2
    assert texts(await recall.search("ana", "tea qqqqqq"))[0] == "tea qqq"
    assert (await recall.search("ana", "tea qqqqqq")).matches[0].reasons["embedding"] > 0


async def test_a_search_embeds_new_texts(memory: SqliteMemory) -> None:
    await tell(memory, "rain zzz", conversation="a")
    recall = Recall(memory, Embedder())
    assert not (await recall.search("ana", "tea")).degraded
    await memory.scope("ana").add(Statement("Ana", "drinks", "tea", text="kettle"))
    result = await recall.search("ana", "tekkle")
    assert (texts(result), result.degraded) == (["kettle"], False)
    revision = await memory.scope("ana").revision()
    await recall.search("ana", "tea")
    assert await memory.scope("ana").revision() == revision


async def test_texts_without_a_vector_do_not_prevent_the_comparison_of_others(
    memory: SqliteMemory, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(9):
        await tell(memory, f"zzz {number}", conversation=str(number))
    await tell(memory, "kettle", conversation="tea")
    await Recall(memory, Embedder()).embed("ana")
    await tell(memory, "qqq", conversation="new")
    result = await Recall(memory, Embedder(fails_at=(1, 2))).search("ana", "tekkle")
    assert (texts(result), result.degraded) == (["kettle"], True)
    assert "new texts in the scope 'ana' have no vectors yet: the embedder is down" in caplog.text
    assert "1 of 11 texts in the scope 'ana' have no vector" in caplog.text


async def test_a_refused_text_is_found_by_its_words_and_not_sent_again(
    memory: SqliteMemory, caplog: pytest.LogCaptureFixture
) -> None:
    await tell(memory, *(f"tea {n}" for n in range(5)), "forbidden tea", "zzz")
    embedder = Embedder(refuses="forbidden")
    recall = Recall(memory, embedder)
    assert await recall.embed("ana") == 7
    assert "only words find the document 6, because test/letters has no vector for it: it is refused" in caplog.text
    sent = embedder.texts.count("forbidden tea")
    result = await recall.search("ana", "tea")
    assert ("forbidden tea" in texts(result), result.degraded) == (True, False)
    assert await recall.embed("ana") == 0
    assert embedder.texts.count("forbidden tea") == sent


async def test_an_embedder_that_refuses_every_text_fails_at_once(memory: SqliteMemory) -> None:
    await tell(memory, *(f"tea {n}" for n in range(50)))
    embedder = Embedder(refuses="")
    with pytest.raises(InvalidRequestError):
        await Recall(memory, embedder).embed("ana")
    assert embedder.requests == 2


async def test_a_vector_that_is_not_finite_does_not_block_the_others(memory: SqliteMemory) -> None:
    class Wrong(Embedder):
        async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
            found = await super().embed(texts, options)
            return EmbeddingsResponse((*found.vectors[:-1], (float("nan"),) * 26))

    await tell(memory, "tea", "zzz")
    assert await Recall(memory, Wrong()).embed("ana") == 2
    assert not (await Recall(memory, Embedder()).search("ana", "tea")).degraded


async def test_long_texts_are_truncated_before_they_are_embedded(memory: SqliteMemory) -> None:
    await tell(memory, "tea " * 5000)
    embedder = Embedder()
    recall = Recall(memory, embedder)
    await recall.embed("ana")
    await recall.search("ana", "x" * 10_000)
    assert [len(text) for text in embedder.texts] == [8000, 8000]


async def test_a_vector_of_a_text_that_has_changed_is_not_stored(memory: SqliteMemory) -> None:
    class Slow(Embedder):
        async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
            if self.requests == 0:
                await tell(memory, "zzz")
            return await super().embed(texts, options)

    await tell(memory, "tea")
    embedder = Slow()
    await Recall(memory, embedder).embed("ana")
    assert embedder.texts == ["tea", "zzz"]
    _, data = await memory.scope("ana").vectors("test/letters")
    assert data == vector_to_bytes([0.0] * 25 + [3.0])


async def test_a_long_question_is_searched_by_its_rarest_words(memory: SqliteMemory) -> None:
    await tell(memory, " ".join(f"common{n}" for n in range(200)), "violin")
    pasted = " ".join(f"common{n}" for n in range(199, 20_000)) + " Who plays the violin?"
    recall = Recall(memory, gate=0, relative_gate=0)
    assert "violin" in texts(await recall.search("ana", pasted))


async def test_scores_are_computed_outside_of_the_event_loop(
    memory: SqliteMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    score = TextIndex.score

    def record(*arguments: Any) -> TextScores:
        threads.append(threading.get_ident())
        return score(*arguments)

    monkeypatch.setattr(TextIndex, "score", record)
    await tell(memory, "violin")
    await Recall(memory).search("ana", "violin")
    assert threads != [threading.get_ident()]


async def test_a_search_reads_all_facts_with_one_query(memory: SqliteMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = memory.scope("ana")
    for n in range(20):
        await scope.add(Statement("Ana", "likes", f"violin {n}"))
    reads: list[int] = []
    find = FactRows.find

    def record(*arguments: Any) -> list[Fact]:
        found = find(*arguments)
        reads.append(len(found))
        return found

    monkeypatch.setattr(FactRows, "find", record)
    assert len((await Recall(memory).search("ana", "violin", limit=4)).matches) == 4
    assert reads == [20]


async def test_expired_facts_do_not_take_the_place_of_current_ones(tmp_path: Path) -> None:
    now = [datetime(2024, 1, 1, tzinfo=UTC)]
    end = datetime(2025, 1, 1, tzinfo=UTC)
    async with SqliteMemory(tmp_path / "memory.db", now=lambda: now[0]) as memory:
        scope = memory.scope("ana")
        for n in range(30):
            await scope.add(Statement("Ana", "likes", f"violin {n}", text="violin violin", valid_to=end))
        await scope.add(Statement("Ana", "likes", "violin", text="violin and harp"))
        recall = Recall(memory, relative_gate=0)
        await recall.search("ana", "violin")
        now[0] = end
        assert texts(await recall.search("ana", "violin", limit=1)) == ["violin and harp"]


async def test_the_best_matches_are_the_same_for_every_limit(memory: SqliteMemory) -> None:
    scope = memory.scope("ana")
    for n in range(12):
        source: Source = "stated" if n % 4 == 0 else "inferred"
        text = "violin" + " and harp" * (n % 3)
        await scope.add(Statement("Ana", "likes", f"thing {n}", text=text, source=source))
    recall = Recall(memory, gate=0, relative_gate=0, weights=Weights(confidence=0.3))
    ranked = texts(await recall.search("ana", "violin", limit=12))
    assert [texts(await recall.search("ana", "violin", limit=limit)) for limit in (1, 2, 3)] == [
        ranked[:limit] for limit in (1, 2, 3)
    ]


async def test_equal_matches_are_ordered_from_latest_to_earliest(memory: SqliteMemory) -> None:
    for year in (2024, 2026, 2025):
        said_at = datetime(year, 1, 1, tzinfo=UTC)
        await memory.scope("ana").add_passages([Passage("violin", str(year), said_at=said_at)])
    result = await Recall(memory).search("ana", "violin")
    assert [match.document.conversation for match in result.matches] == ["2026", "2025", "2024"]


async def test_a_search_with_a_failing_embedder_uses_words(
    memory: SqliteMemory, caplog: pytest.LogCaptureFixture
) -> None:
    await tell(memory, "tea zzz")
    recall = Recall(memory, Embedder(fails_at=(2,)))
    await recall.embed("ana")
    result = await recall.search("ana", "tea")
    assert result.degraded
    assert texts(result) == ["tea zzz"]
    assert "the embedder is down" in caplog.text


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
async def test_a_search_with_a_non_finite_vector_uses_words(
    memory: SqliteMemory, caplog: pytest.LogCaptureFixture, wrong: float
) -> None:
    await tell(memory, "tea zzz")
    await Recall(memory, Embedder()).embed("ana")
    result = await Recall(memory, Embedder(vector=(wrong, *[0.0] * 25))).search("ana", "tea")
    assert (texts(result), result.degraded) == (["tea zzz"], True)
    assert "not finite" in caplog.text


@pytest.mark.parametrize("number", [0.0, 1e300])
async def test_zero_and_very_large_vectors_are_compared(memory: SqliteMemory, number: float) -> None:
    await tell(memory, "tea zzz")
    await tell(memory, "rain", conversation="b")
    await Recall(memory, Embedder()).embed("ana")
    result = await Recall(memory, Embedder(vector=((0.0,) * 19 + (number,) + (0.0,) * 6))).search("ana", "tea")
    assert (texts(result), result.degraded) == (["tea zzz"], False)
    assert ("embedding" in result.matches[0].reasons) == (number > 0)


async def test_vectors_of_another_length_can_be_dropped_and_computed_again(
    memory: SqliteMemory, caplog: pytest.LogCaptureFixture
) -> None:
    await tell(memory, "tea zzz")
    await Recall(memory, Embedder()).embed("ana")
    recall = Recall(memory, Embedder(vector=(1.0, 2.0)))
    assert (await recall.search("ana", "tea")).degraded
    assert 'drop_vectors(keep="") and Recall.embed()' in caplog.text
    await memory.scope("ana").drop_vectors(keep="")
    assert await recall.embed("ana") == 1
    assert not (await recall.search("ana", "tea")).degraded


async def test_embedding_continues_after_a_failure(memory: SqliteMemory) -> None:
    await tell(memory, *(f"tea {n}" for n in range(5)))
    with pytest.raises(ServerError):
        await Recall(memory, Embedder(fails_at=(2, 3))).embed("ana", batch=2)
    assert await Recall(memory, Embedder()).embed("ana", batch=2) == 3


async def test_vectors_of_another_embedder_are_not_used(memory: SqliteMemory) -> None:
    await tell(memory, "tea")
    await Recall(memory, Embedder("one")).embed("ana")
    other = Recall(memory, Embedder("two", fails_at=(1, 2)))
    assert (await other.search("ana", "tea")).degraded
    assert await other.embed("ana") == 1
    assert len((await memory.scope("ana").vectors("test/one"))[0]) == 1
    assert await other.reindex() == 0
    assert (await memory.scope("ana").vectors("test/one"))[0] == []


async def test_a_search_after_a_change_of_the_embedder_is_degraded_until_reindex(
    memory: SqliteMemory, caplog: pytest.LogCaptureFixture
) -> None:
    for scope in ("ana", "ben"):
        await tell(memory, *["tea zzz"] * 120, scope=scope)
    assert await Recall(memory, Embedder("one")).reindex() == 240
    assert not caplog.text
    other = Recall(memory, Embedder("two"))
    assert (await other.search("ben", "tea")).degraded
    assert "20 of 120 texts in the scope 'ben' have no vector of test/two" in caplog.text
    assert await other.reindex() == 140
    assert not (await other.search("ben", "tea")).degraded
    assert await other.reindex() == 0


async def test_speaker_names_are_removed_from_the_embedded_question(memory: SqliteMemory) -> None:
    await memory.scope("ana").add_passages([Passage("tea", "a", 0, speaker="Ana"), Passage("rain", "a", 1)])
    embedder = Embedder()
    recall = Recall(memory, embedder)
    await recall.embed("ana")
    await recall.search("ana", "Does Ana\N{RIGHT SINGLE QUOTATION MARK}s mother drink Ben's tea?")
    await recall.search("ana", "Ana?")
    assert embedder.texts[-2:] == ["Does mother drink Ben's tea?", "Ana?"]


async def test_a_stored_question_ranks_below_an_answer(memory: SqliteMemory) -> None:
    await tell(memory, "Is it tea?", conversation="a")
    await tell(memory, "It is tea.", conversation="b")
    await tell(memory, "zzz", conversation="c")
    recall = Recall(memory, Embedder())
    await recall.embed("ana")
    assert texts(await recall.search("ana", "tea"))[0] == "It is tea."


async def test_an_embedder_finds_texts_without_common_words(memory: SqliteMemory) -> None:
    for number in range(9):
        await tell(memory, f"zzz {number}", conversation=str(number))
    await tell(memory, "kettle", conversation="tea")
    recall = Recall(memory, Embedder())
    await recall.embed("ana")
    result = await recall.search("ana", "tekkle")
    assert texts(result) == ["kettle"]
    assert list(result.matches[0].reasons) == ["embedding"]


async def test_equally_relevant_facts_are_ordered_by_their_distance_in_the_graph(memory: SqliteMemory) -> None:
    scope = memory.scope("ana")
    for subject in ("Eve", "Ben", "Kim"):
        await scope.add(Statement(subject, "likes", "jazz", text="jazz on Mondays"))
    await scope.relate(Relation("Acme Corp", "employs", "Ben"))
    await scope.relate(Relation("Ben", "knows", "Kim"))
    result = await Recall(memory, gate=0).search("ana", "Who at ACME corp likes jazz?")
    assert [match.fact and match.fact.subject for match in result.matches] == ["Ben", "Kim", "Eve"]
    assert [match.reasons.get("graph", 0) for match in result.matches] == pytest.approx(
        [0.3 * result.matches[2].reasons["text"] * share for share in (0.5, 0.25, 0)]
    )
    result = await Recall(memory, gate=0, weights=Weights(graph=0)).search("ana", "Who at ACME corp likes jazz?")
    assert {match.score for match in result.matches} == {result.matches[0].score}


async def test_invalid_limits_are_refused(memory: SqliteMemory) -> None:
    for gate, relative_gate in ((-1.0, 0.5), (float("nan"), 0.5), (0.2, 2.0), (0.2, -0.1)):
        with pytest.raises(UsageError, match="gate must be"):
            Recall(memory, gate=gate, relative_gate=relative_gate)
    with pytest.raises(UsageError, match="max_scopes"):
        Recall(memory, max_scopes=0)
    with pytest.raises(UsageError, match="limit"):
        await Recall(memory).search("ana", "tea", limit=0)
    with pytest.raises(UsageError, match="embedder"):
        await Recall(memory).embed("ana")
    wrong: Any = "x"
    for name in ("gate", "relative_gate", "max_scopes"):
        with pytest.raises(UsageError, match=f"{name} must be"):
            Recall(memory, **{name: wrong})
    for name in ("limit", "max_tokens", "where"):
        with pytest.raises(UsageError, match=f"{name} must be"):
            await Recall(memory).search("ana", "tea", **{name: wrong})
    wrong = b"tea"
    with pytest.raises(UsageError, match="question must be a string"):
        await Recall(memory).search("ana", wrong)
