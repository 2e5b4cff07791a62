"""An index that is updated with changes equals an index of the whole scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
from chat_memory._scope_index import ScopeIndex
from chat_memory.graph import Entity
from chat_memory.passages import Document, ScopeChanges, vector_to_bytes
from hypothesis import given
from hypothesis import strategies as st

WORDS = ["tea", "kayak", "harp", "violin", "Saturday", "May", "2023", "Ben?", "where?"]
QUESTION = "When did Ben buy a kayak, on 8 May 2023, and where is the harp, violin or tea?"
Vector = tuple[float, float]


class Words:
    """Places each word by its first letters, so that some are related."""

    def embed_words(self, words: Sequence[str], /) -> npt.NDArray[np.float32]:
        vectors = np.array([[ord(word[0]) - 96, ord(word[-1]) - 96] for word in words], dtype=np.float32)
        vectors = vectors.reshape(len(words), 2)
        lengths: npt.NDArray[np.float32] = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return np.divide(vectors, lengths, dtype=np.float32)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    key = draw(st.integers(1, 12))
    text = " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=5)))
    if key > 9:
        return Document(key, "fact", text, fact=f"fact {key}")
    said_at = draw(st.sampled_from([None, datetime(2023, 5, 8, tzinfo=UTC), datetime(2022, 1, 1, tzinfo=UTC)]))
    # The place of a document never changes.
    return Document(
        key, "turn", text, None, "ab"[key % 2], key // 2, draw(st.sampled_from([None, "Ben", "Ana"])), said_at
    )


Step = tuple[list[Document], set[int], dict[int, Vector]]
steps = st.lists(
    st.tuples(
        st.lists(documents(), max_size=6, unique_by=lambda document: document.id),
        st.sets(st.integers(1, 12), max_size=4),
        st.dictionaries(st.integers(1, 12), st.sampled_from([(1.0, 0.0), (0.6, 0.8), (0.0, 0.0)]), max_size=6),
    ),
    min_size=1,
    max_size=4,
)


def read(
    stored: Mapping[int, Document], vectors: Mapping[int, Vector], revision: int, changed: set[int] | None = None
) -> ScopeChanges:
    """Return the changes that a memory with these documents and vectors reports."""
    ids = sorted(stored if changed is None else changed & stored.keys())
    with_vector = [key for key in ids if key in vectors]
    data = b"".join(vector_to_bytes(vectors[key]) for key in with_vector)
    return ScopeChanges(revision, [stored[key] for key in ids], (with_vector, data), changed, [Entity("Ben", "person")])


def contents(index: ScopeIndex) -> dict[str, object]:
    """Return the documents and vectors of an index, and the scores of the question."""
    scores = index.text.score(QUESTION, index.related)
    names = ("text", "speaker", "date", "time", "conversation", "question")
    return {
        "documents": index.text.documents,
        "without vector": index.without_vector,
        "vectors": None if index.vectors is None else index.vectors.tolist(),
        "scores": {name: getattr(scores, name).tolist() for name in names},
    }


@given(steps)
def test_an_updated_index_equals_an_index_of_the_whole_scope(steps: list[Step]) -> None:
    stored: dict[int, Document] = {}
    vectors: dict[int, Vector] = {}
    updated = reread = ScopeIndex(read(stored, vectors, 0), words=Words())
    for revision, (written, removed, embedded) in enumerate(steps, 1):
        stored |= {document.id: document for document in written}
        stored = {key: document for key, document in stored.items() if key not in removed}
        vectors = {key: vector for key, vector in (vectors | embedded).items() if key in stored}
        changed = {document.id for document in written} | removed | embedded.keys()
        updated = ScopeIndex(read(stored, vectors, revision, changed), known=updated, words=Words())
        reread = ScopeIndex(read(stored, vectors, revision), known=reread, words=Words())
        fresh = ScopeIndex(read(stored, vectors, revision), words=Words())
        assert contents(updated) == contents(fresh)
        assert contents(reread) == contents(fresh)


def test_a_new_turn_changes_the_vectors_of_its_neighbors() -> None:
    stored = {key: Document(key, "turn", "tea", None, "a", key) for key in range(1, 8)}
    vectors = dict.fromkeys((1, 2, 3, 5, 6, 7), (1.0, 0.0)) | {4: (0.0, 1.0)}
    earlier = {key: document for key, document in stored.items() if key != 4}
    known = ScopeIndex(read(earlier, vectors, 1))
    updated = ScopeIndex(read(stored, vectors, 2, {4}), known=known)
    assert updated.vectors is not None
    assert (updated.vectors[:, 1] > 0).tolist() == [False, True, True, True, True, True, False]
    assert contents(updated) == contents(ScopeIndex(read(stored, vectors, 2)))
    assert contents(ScopeIndex(read(earlier, vectors, 3, {4}), known=updated)) == contents(known)


def test_vectors_of_another_length_replace_all_vectors() -> None:
    stored = {key: Document(key, "turn", "tea", None, "a", key) for key in (1, 2)}
    known = ScopeIndex(read(stored, {1: (1.0, 0.0), 2: (1.0, 0.0)}, 1))
    longer = vector_to_bytes([0.0, 0.0, 1.0])
    changes = ScopeChanges(2, list(stored.values()), ([1, 2], longer * 2), {1, 2})
    index = ScopeIndex(changes, known=known)
    assert index.vectors is not None
    assert index.vectors.tolist() == [[0, 0, 1]] * 2


def test_entities_are_kept_until_they_change() -> None:
    first = ScopeIndex(ScopeChanges(1, [], ([], b""), None, [Entity("New York", "place")]))
    second = ScopeIndex(ScopeChanges(2, [], ([], b""), set(), None), known=first)
    assert second.entities_in("Who is in New York?") == ["new_york"]
    third = ScopeIndex(ScopeChanges(3, [], ([], b""), set(), []), known=second)
    assert third.entities_in("Who is in New York?") == []
