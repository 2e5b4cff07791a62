"""The scenarios find the faults that they name: memories that are wrong in one way each."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from tempfile import TemporaryDirectory

import anyio
import pytest
from chat_core.errors import UsageError
from chat_memory import Memory, SqliteMemory, Statement, _fact_rows, _record_rows, _timeline, facts, sqlite
from chat_memory.extraction import ExtractedEntity
from chat_memory.testing import SCENARIOS, Memories, MemoryConformance, MemoryFactory, run_scenario

MonkeyPatch = pytest.MonkeyPatch


@contextmanager
def memories() -> Generator[MemoryFactory]:
    with TemporaryDirectory() as folder:

        def factory(now: Callable[[], datetime]) -> SqliteMemory:
            return SqliteMemory(f"{folder}/memory.db", now=now)

        yield factory


def query(found: str, put: str) -> Callable[[MonkeyPatch], None]:
    """Return a fault: every query is executed with one text replaced by another."""

    def fault(patch: MonkeyPatch) -> None:
        translate = sqlite._translate_query  # pyright: ignore[reportPrivateUsage] - where a query is changed

        def changed(text: str) -> str:
            return translate(text.replace(found, put))

        patch.setattr(sqlite, "_translate_query", changed)

    return fault


def compare_bytes(patch: MonkeyPatch) -> None:
    """Compare names byte by byte, as arawn does."""
    for module in (facts, _fact_rows):
        patch.setattr(module, "normalize", str)


def ignore_sources(patch: MonkeyPatch) -> None:
    """Let an inferred fact supersede a stated one, as arawn does."""
    patch.setattr(_fact_rows, "_RANKS", dict.fromkeys(facts.SOURCE_CONFIDENCE, 0))


def trust_arrival(patch: MonkeyPatch) -> None:
    """Let the statement that arrives last win."""
    patch.setattr(_timeline.Entry, "order", property(lambda entry: (entry.key,)))


def reopen_what_was_replaced(patch: MonkeyPatch) -> None:
    """Return to an earlier fact when a later one ends."""

    def timeline(entries: list[_timeline.Entry]) -> list[_timeline.Period]:
        bounded = [entry for entry in entries if entry.valid_to != _timeline.FOREVER]
        return [*_timeline.timeline(bounded), *_timeline.timeline([entry for entry in entries if entry not in bounded])]

    patch.setattr(_fact_rows, "timeline", timeline)


def include_the_end(patch: MonkeyPatch) -> None:
    """Make the end of a validity part of it."""

    def timeline(entries: list[_timeline.Entry]) -> list[_timeline.Period]:
        return [replace(period, ends=period.ends + 1) for period in _timeline.timeline(entries)]

    patch.setattr(_fact_rows, "timeline", timeline)


def ignore_keys(patch: MonkeyPatch) -> None:
    """Store every repetition."""
    numbers = iter(range(1000))

    def name(_: Statement) -> str:
        return str(next(numbers))

    patch.setattr(_fact_rows, "_statement_key", name)


def ignore_chunks(patch: MonkeyPatch) -> None:
    """Delete only what is recorded under the cited turn itself."""

    def delete_texts(*_: object) -> dict[int, list[ExtractedEntity]]:
        return {}

    patch.setattr(_record_rows.RecordRows, "delete_texts", delete_texts)


@dataclass(frozen=True)
class Wrong:
    """A fault, and the scenario that names it."""

    scenario: str
    fault: Callable[[MonkeyPatch], None]


_CURRENT = "AND p.kind = 'current' AND p.begins <= :now AND p.ends > :now"

ALL_WRONG = [
    Wrong("spellings_are_one_fact", compare_bytes),
    Wrong("a_weaker_source_is_a_candidate", ignore_sources),
    Wrong("a_stronger_source_supersedes", ignore_sources),
    Wrong("a_late_statement_is_history", trust_arrival),
    Wrong("the_order_of_arrival_does_not_matter", trust_arrival),
    Wrong("a_later_statement_ends_the_earlier_one", reopen_what_was_replaced),
    Wrong("a_fact_ends", include_the_end),
    Wrong("a_repeated_key_changes_nothing", ignore_keys),
    Wrong("a_turn_counts_once", ignore_keys),
    Wrong("a_multi_valued_predicate_keeps_all_objects", query("AND f.object = :object", "")),
    Wrong(
        "a_subject_is_not_part_of_another",
        query("AND f.subject = :subject", "AND f.subject LIKE '%' || :subject || '%'"),
    ),
    Wrong("a_fact_is_current_from_its_beginning", query("p.begins <= :at AND", "")),
    Wrong(
        "a_retraction_does_not_change_past_knowledge",
        query("s.retired IS NULL OR s.retired > :recorded", "s.retired IS NULL"),
    ),
    Wrong("past_knowledge_is_found_by_its_time", query("AND s.recorded <= :recorded", "")),
    Wrong(
        "a_forgotten_fact_is_deleted_completely",
        query("DELETE FROM chat_memory_facts", "SELECT 1 FROM chat_memory_facts"),
    ),
    Wrong(
        "forgetting_a_fact_deletes_its_source_texts",
        query("AND (kind = 'summary' OR position = :turn)", "AND kind = 'summary'"),
    ),
    Wrong(
        "forgetting_a_fact_deletes_its_entity",
        query("DELETE FROM chat_memory_mentions WHERE", "DELETE FROM chat_memory_mentions WHERE relation < 0 AND"),
    ),
    Wrong("forgetting_a_fact_deletes_the_graph_of_its_chunk", ignore_chunks),
    Wrong("a_forgotten_text_is_not_stored_by_an_earlier_reader", query(":length) = :prefix", ":length) = ''")),
    Wrong("facts_are_listed_by_id", query("AND f.id IN (@texts(ids))", "AND :ids IS NOT NULL")),
    Wrong("a_vector_of_an_earlier_text_is_not_stored", query("AND d.text = coalesce(:text, d.text)", "")),
    Wrong("touch_marks_the_facts_that_it_names", query("AND id IN (@texts(ids))", "")),
    Wrong("facts_of_another_scope_are_not_listed", query("f.scope = :scope AND p.kind = :status", "p.kind = :status")),
    Wrong("an_id_of_another_scope_is_unknown", query("WHERE f.scope = :scope AND f.id = :id", "WHERE f.id = :id")),
    Wrong("texts_of_another_scope_are_not_found", query("d.scope = :scope AND", "")),
    Wrong(
        "vectors_of_another_scope_are_not_found",
        query("= :document AND d.scope = :scope", "= :document"),
    ),
    Wrong("graphs_of_different_scopes_are_separate", query("WHERE scope = :scope AND id = :id", "WHERE id = :id")),
    Wrong(
        "delete_all_leaves_nothing",
        query("chat_memory_scopes WHERE scope = :name", "chat_memory_scopes"),
    ),
    Wrong(
        "a_relation_is_stored_once",
        query(":relation, :name)", ":relation, :name || random())"),
    ),
    Wrong("neighbors_are_found_in_both_directions", query("OR r.target = near.entity", "")),
    Wrong("neighbors_are_limited", query("near.distance < :depth", "near.distance < 9")),
    Wrong(
        "a_fact_is_linked_to_its_entities",
        query("VALUES (:scope, :fact, :entity)", "SELECT :scope, :fact, :entity WHERE false"),
    ),
    Wrong(
        "a_fact_that_is_not_current_is_not_linked",
        query(
            "f.scope = :scope AND p.kind = :status AND p.begins <= :at AND p.ends > :at",
            "f.scope = :scope AND p.kind = :status",
        ),
    ),
    Wrong(
        "a_deleted_entity_leaves_no_relation", query("DELETE FROM chat_memory_links", "SELECT 1 FROM chat_memory_links")
    ),
    Wrong("a_search_finds_only_current_facts", query(_CURRENT, "")),
    Wrong(
        "a_changed_text_loses_its_vector",
        query("DELETE FROM chat_memory_vectors", "SELECT 1 FROM chat_memory_vectors"),
    ),
    Wrong("vectors_are_kept_by_model", query("AND v.model = :model ORDER", "ORDER")),
    Wrong("changes_are_listed_by_revision", query("AND revision > :since", "AND revision > :since + 2")),
    Wrong(
        "the_revision_grows_with_each_change",
        query("SET revision = chat_memory_scopes.revision + 1", "SET revision = 1"),
    ),
]


@pytest.mark.parametrize("wrong", ALL_WRONG, ids=lambda wrong: wrong.scenario)
def test_a_faulty_memory_fails_the_scenario_that_names_its_fault(wrong: Wrong, monkeypatch: MonkeyPatch) -> None:
    wrong.fault(monkeypatch)
    with memories() as factory, pytest.raises(AssertionError, match=f"^{wrong.scenario}: (?!the memory raised)"):
        anyio.run(run_scenario, SCENARIOS[wrong.scenario], factory)


def test_an_exception_of_the_memory_is_reported_with_the_scenario() -> None:
    async def a_group(_: Memories) -> None:
        msg = "several"
        raise ExceptionGroup(msg, [ExceptionGroup(msg, [ValueError("this one")]), ValueError("that one")])

    with memories() as factory, pytest.raises(AssertionError, match=r"a_group: the memory raised .*this one"):
        anyio.run(run_scenario, a_group, factory)


def test_a_conformance_class_without_memories_raises_not_implemented() -> None:
    with pytest.raises(NotImplementedError, match="MemoryConformance needs a method memories"):
        MemoryConformance().memories()


def test_every_scenario_is_a_test_with_the_docstring_of_the_scenario() -> None:
    assert len(SCENARIOS) >= 40
    for name, scenario in SCENARIOS.items():
        assert getattr(MemoryConformance, f"test_{name}").__doc__ == scenario.__doc__
        assert scenario.__doc__


def test_sqlite_memory_implements_the_memory_protocol() -> None:
    memory: Memory = SqliteMemory("unused.db")
    with pytest.raises(UsageError):
        memory.scope("")
