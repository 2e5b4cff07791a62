"""Passages and vectors: what they may contain."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta

import pytest
from chat_core.errors import UsageError
from chat_memory import DocumentFilter, Passage, SqliteMemory, Statement
from chat_memory.passages import vector_to_bytes
from chat_memory.recall import Recall

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_passages_of_kind_fact_are_refused() -> None:
    with pytest.raises(UsageError, match="store a Statement"):
        Passage("I live in Berlin.", "chat-17", kind="fact")


def test_a_vector_is_encoded_as_little_endian_floats() -> None:
    assert vector_to_bytes([1, 0.5]) == struct.pack("<2f", 1, 0.5)


@pytest.mark.parametrize("vector", [[], [1e300], ["a"]])
def test_an_invalid_vector_is_refused(vector: list[float]) -> None:
    with pytest.raises(UsageError):
        vector_to_bytes(vector)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, ["fact", "chat-1", "chat-2", "summary"]),
        (DocumentFilter(kinds=["fact"]), ["fact"]),
        (DocumentFilter(kinds=["turn"], conversations={"chat-1"}), ["chat-1"]),
        (DocumentFilter(conversations=["chat-2"]), ["chat-2", "summary"]),
        (DocumentFilter(since=NOW), ["chat-2"]),
        (DocumentFilter(until=NOW), ["fact", "chat-1"]),
        (DocumentFilter(kinds=[]), []),
    ],
)
@pytest.mark.anyio
async def test_a_document_filter_limits_the_search_results(
    memory: SqliteMemory, where: DocumentFilter | None, expected: list[str]
) -> None:
    ana = memory.scope("ana")
    before = NOW - timedelta(microseconds=1)
    await ana.add(Statement("Ana", "plays", "violin", said_at=before))
    await ana.add_passages(
        [
            Passage("Ana plays the violin.", "chat-1", said_at=before),
            Passage("Ana plays the violin.", "chat-2", said_at=NOW),
            Passage("Ana plays the violin.", "chat-2", kind="summary"),
        ]
    )
    for recall, argument in ((Recall(memory, gate=0, relative_gate=0), where), (Recall(memory, where=where), None)):
        result = await recall.search("ana", "Who plays the violin?", where=argument)
        found = [item.document for item in result.matches]
        names = [item.kind if item.kind != "turn" else item.conversation for item in found]
        assert sorted(map(str, names)) == sorted(expected)


@pytest.mark.anyio
async def test_a_filtered_document_does_not_affect_the_gate(memory: SqliteMemory) -> None:
    ana = memory.scope("ana")
    await ana.add_passages([Passage("Ana plays the violin in the old concert hall.", "chat-1")])
    await ana.add(Statement("Ana", "has seen", "a hall"))
    question = "Did Ana play the violin in the old concert hall?"
    everything = await Recall(memory, gate=0).search("ana", question)
    assert [item.document.kind for item in everything.matches] == ["turn"]
    facts = await Recall(memory, gate=0).search("ana", question, where=DocumentFilter(kinds=["fact"]))
    assert [item.document.kind for item in facts.matches] == ["fact"]


def test_a_document_filter_refuses_a_string_and_a_time_without_a_zone() -> None:
    with pytest.raises(UsageError, match="kinds must be a collection"):
        DocumentFilter(kinds="fact")
    with pytest.raises(UsageError, match="until"):
        DocumentFilter(until=datetime(2026, 1, 1))  # noqa: DTZ001 - the error that is tested
