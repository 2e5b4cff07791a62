"""Indexes of recently used scopes, which are kept in this process and updated when their scopes change."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
from chat_core.concurrency import finish_in_thread

from chat_memory._postings import Numbers
from chat_memory._related_words import RelatedWords
from chat_memory._text_index import TextIndex, Vectors, normalize_rows
from chat_memory._words import split_words, stem, stems
from chat_memory.embedder import WordEmbedder
from chat_memory.memory import Memory
from chat_memory.passages import Document, ScopeChanges

Flags: TypeAlias = npt.NDArray[np.bool_]

_REFRESH_SECONDS: Final = 300.0
"""Age in seconds at which an index is read again. Facts can become current or end without a change of the scope."""


@final
class ScopeIndex:
    """The documents of a scope at one revision, with their words and vectors.

    Args:
        changes: content of the scope, or its changes since the revision of `known`.
        known: an earlier index of the scope, which is not modified. Only documents that differ from it are indexed.
        words: embedder for single words. With `None`, no related words are found.

    Attributes:
        revision: the revision of the scope.
        read_at: when the whole scope was read, on the monotonic clock.
        text: the text index of the documents, which determines the order of the rows.
        related: the words of the scope by their meaning, if an embedder computes vectors of words.
        vectors: a vector of length 1 for each row, or None if no document has a vector.
        without_vector: the number of documents without a vector.
        given: the stored vector of each row, scaled to length 1, or zeros.
        has_vector: whether each row has a stored vector.
        entities: the ids of the entities whose names are recognized in questions, by the words of the name.
    """

    has_vector: Flags

    def __init__(
        self, changes: ScopeChanges, *, known: ScopeIndex | None = None, words: WordEmbedder | None = None
    ) -> None:
        self.revision: int = changes.revision
        self.read_at: float = monotonic() if known is None or changes.changed is None else known.read_at
        documents, changed = _find_changed_documents(changes, known)
        stems_of = {document.id: Counter(stems(document.text)) for document in documents}
        self.text: TextIndex = TextIndex(documents, stems_of, known and known.text, changed)
        self.related: RelatedWords | None = None
        if words is not None:
            forms: dict[str, str] = {}
            rows: list[int] = self.text.added.tolist()
            for document in (self.text.documents[row] for row in rows):
                found = ((stem(word), word) for word in split_words(document.text))
                forms.update(form for form in found if form[0] in stems_of[document.id])
            self.related = RelatedWords(forms, words, known and known.related)
        self.given: Vectors = self._merge_vectors(changes, known)
        self.without_vector: int = int(np.count_nonzero(~self.has_vector))
        self.vectors: Vectors | None = self._average_vectors(changes, known)
        self.entities: Mapping[tuple[str, ...], str] = {} if known is None else known.entities
        if changes.entities is not None:
            self.entities = {tuple(split_words(entity.name)): entity.id for entity in changes.entities}
        self._longest_name = max(map(len, self.entities), default=0)

    def entities_in(self, question: str) -> list[str]:
        """Return the ids of the entities whose names occur in a question."""
        words = split_words(question)
        lengths = range(1, min(self._longest_name, len(words)) + 1)
        runs = (tuple(words[start : start + length]) for length in lengths for start in range(len(words) - length + 1))
        return sorted({self.entities[run] for run in runs if run in self.entities})

    def _merge_vectors(self, changes: ScopeChanges, known: ScopeIndex | None) -> Vectors:
        """Set `has_vector`, and return the vectors of all rows, scaled to length 1. Rows without a vector are zeros."""
        ids, data = changes.vectors
        stored = [(place, self.text.row_of[key]) for place, key in enumerate(ids) if key in self.text.row_of]
        places, rows = [place for place, _ in stored], [row for _, row in stored]
        size = len(data) // 4 // len(ids) if ids else 0 if known is None else known.given.shape[1]
        given: Vectors = np.frombuffer(data, dtype="<f4").reshape(len(ids), size)
        # Changed documents are new rows, so the vectors of the other rows are those of `known`.
        kept = known if changes.changed is not None and known and known.given.shape[1] == size else None
        added = len(self.text.added)
        has_vector = self.text.move_rows(kept and kept.has_vector, np.zeros(added, dtype=np.bool_))
        vectors = self.text.move_rows(kept and kept.given, np.zeros((added, size), dtype=np.float32))
        has_vector[rows] = True
        vectors[rows] = normalize_rows(given[places])
        self.has_vector = has_vector
        return vectors

    def _average_vectors(self, changes: ScopeChanges, known: ScopeIndex | None) -> Vectors | None:
        """Return the vectors of all rows, averaged with their neighbors, or None if no row has a vector.

        A document without a vector gets the average vector of its neighbors, or zeros.
        """
        if not self.has_vector.any():
            return None
        averaged = None if known is None or changes.changed is None else known.vectors
        if averaged is None or averaged.shape[1] != self.given.shape[1]:
            return self.text.average_neighbors(self.given)
        vectors = self.text.move_rows(averaged, self.given[self.text.added])
        rows = self.text.rows_with_other_neighbors()
        vectors[rows] = self.text.average_neighbors(self.given, rows)
        return vectors


def _find_changed_documents(
    changes: ScopeChanges, known: ScopeIndex | None
) -> tuple[Sequence[Document], Collection[int]]:
    """Return the documents to index, and the ids of documents of `known` that were replaced or deleted."""
    if changes.changed is not None:
        return changes.documents, changes.changed
    if known is None:
        return changes.documents, ()
    indexed = {document.id: document for document in known.text.documents}
    documents = [document for document in changes.documents if indexed.get(document.id) != document]
    gone = indexed.keys() - {document.id for document in changes.documents}
    return documents, gone.union(document.id for document in documents)


def compare_vectors(vectors: Vectors, question: Numbers) -> Numbers:
    """Return the cosine between the vector of a question and each row, and NaN for rows of zeros.

    Args:
        vectors: rows of length 1, or of zeros.
        question: vector of finite numbers, with the same length as a row.
    """
    scaled = question / (np.abs(question).max() or 1.0)
    # `@` would start threads, which cost more than they save.
    unit = (scaled / (np.linalg.norm(scaled) or 1.0)).astype(np.float32)
    cosine: Numbers = np.einsum("ij,j->i", vectors, unit).astype(np.float64)
    cosine[~vectors.any(axis=1)] = np.nan
    return cosine


@final
class IndexCache:
    """The indexes of recently used scopes. An index is updated when its scope has changed.

    Args:
        memory: the memory that contains the scopes.
        model: the name of the embedder whose vectors are read. None reads no vectors.
        max_scopes: the number of indexes that are kept.
        words: embedder for single words, or None.
    """

    def __init__(self, memory: Memory, model: str | None, max_scopes: int, words: WordEmbedder | None = None) -> None:
        self._words = words
        self._memory = memory
        self._model = model
        self._max_scopes = max_scopes
        self._indexes: OrderedDict[str, ScopeIndex] = OrderedDict()

    async def find(self, scope: str) -> ScopeIndex | None:
        """Return the cached index of a scope, or None if the index must be read."""
        index = self._indexes.get(scope)
        if index is None or monotonic() - index.read_at > _REFRESH_SECONDS:
            return None
        if index.revision != await self._memory.scope(scope).revision():
            return None
        if scope in self._indexes:  # the index was not dropped since then
            self._indexes.move_to_end(scope)
        return index

    async def read(self, scope: str) -> ScopeIndex:
        """Update the cached index with the changes of its scope, or read the whole scope, and return the index."""
        known = self._indexes.get(scope)
        recent = known is not None and monotonic() - known.read_at <= _REFRESH_SECONDS
        since = known.revision if known is not None and recent else 0
        changes = await self._memory.scope(scope).changes(since=since, model=self._model)
        index = await finish_in_thread(partial(ScopeIndex, changes, known=known, words=self._words))
        self._indexes[scope] = index
        self._indexes.move_to_end(scope)
        if len(self._indexes) > self._max_scopes:
            self._indexes.popitem(last=False)
        return index
