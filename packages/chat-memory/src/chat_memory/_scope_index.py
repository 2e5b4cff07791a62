"""The indexes of recently used scopes, which are read from the memory and kept in this process."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
from chat_core.concurrency import finish_in_thread

from chat_memory._related_words import RelatedWords, WordEmbedder
from chat_memory._text_index import Numbers, TextIndex, normalize_rows
from chat_memory._words import split_words, stem, stems
from chat_memory.graph import Entity
from chat_memory.memory import Memory
from chat_memory.passages import Document

Vectors: TypeAlias = npt.NDArray[np.float32]

_REFRESH_SECONDS: Final = 300.0
"""Age at which an index is read again, because facts begin and end without a change of the scope."""


@final
class ScopeIndex:
    """The documents of a scope at one revision, with their words and vectors.

    Args:
        revision: the revision of the scope.
        documents: the passages and facts to search.
        entities: the entities whose names are recognized in questions.
        vectors: the ids of documents, and the concatenated bytes of their vectors.
        known: an earlier index of the scope, whose stems are reused.
        words: computes vectors of words. `None` means that no related words are found.

    Attributes:
        revision: the revision of the scope.
        read_at: when the index was read, on the monotonic clock.
        text: the words of the documents. It determines the order of the rows.
        stems: the stems of each document, by its id and text.
        related: the words of the scope by their meaning, if an embedder computes vectors of words.
        vectors: a vector of length 1 for each row, or None if no document has a vector.
        without_vector: the number of documents without a vector.
    """

    def __init__(
        self,
        revision: int,
        documents: Sequence[Document],
        entities: Sequence[Entity],
        vectors: tuple[list[int], bytes],
        *,
        known: ScopeIndex | None = None,
        words: WordEmbedder | None = None,
    ) -> None:
        self.revision = revision
        self.read_at = monotonic()
        keys = [(document.id, document.text) for document in documents]
        stems_of: Mapping[tuple[int, str], Counter[str]] = known.stems if known else {}
        self.stems: dict[tuple[int, str], Counter[str]] = {
            key: stems_of.get(key) or Counter(stems(key[1])) for key in keys
        }
        self.text = TextIndex(documents, {key[0]: counts for key, counts in self.stems.items()})
        self.related = self._read_words(words, known) if words else None
        self.without_vector = len(documents)
        self.vectors = self._read_vectors(*vectors)
        self._entities = {tuple(split_words(entity.name)): entity.id for entity in entities}
        self._longest_name = max(map(len, self._entities), default=0)

    def entities_in(self, question: str) -> list[str]:
        """Return the ids of the entities whose names are in a question."""
        words = split_words(question)
        lengths = range(1, min(self._longest_name, len(words)) + 1)
        runs = (tuple(words[start : start + length]) for length in lengths for start in range(len(words) - length + 1))
        return sorted({self._entities[run] for run in runs if run in self._entities})

    def _read_words(self, words: WordEmbedder, known: ScopeIndex | None) -> RelatedWords:
        """Return the vocabulary. The vocabulary of the earlier index is reused if it contains all stems."""
        vocabulary = frozenset(stem for counts in self.stems.values() for stem in counts)
        if known and known.related and vocabulary <= known.related.stems:
            return known.related
        forms: dict[str, str] = {}
        for document in self.text.documents:
            forms.update((stem(word), word) for word in split_words(document.text) if stem(word) in vocabulary)
        return RelatedWords(forms, words)

    def _read_vectors(self, ids: Sequence[int], data: bytes) -> Vectors | None:
        """Return the vectors of all rows, averaged with their neighbors, or None without any vector.

        A document without a vector gets the average vector of its neighbors, or zeros.
        """
        stored = [(place, self.text.row_of[key]) for place, key in enumerate(ids) if key in self.text.row_of]
        self.without_vector -= len(stored)
        if not stored:
            return None
        places, rows = map(list, zip(*stored, strict=True))
        given = np.frombuffer(data, dtype="<f4").reshape(len(ids), -1)
        vectors = np.zeros((len(self.text.documents), given.shape[1]), dtype=np.float32)
        vectors[rows] = given[places]
        return self.text.average_neighbors(normalize_rows(vectors))


def compare_vectors(vectors: Vectors, question: Numbers) -> Numbers:
    """Return the cosine between the vector of a question and each row, and NaN for rows of zeros.

    Args:
        vectors: rows of length 1, or of zeros.
        question: finite numbers, as many as in a row.
    """
    scaled = question / (np.abs(question).max() or 1.0)
    # `@` would start threads, which cost more than they save.
    unit = (scaled / (np.linalg.norm(scaled) or 1.0)).astype(np.float32)
    cosine: Numbers = np.einsum("ij,j->i", vectors, unit).astype(np.float64)
    cosine[~vectors.any(axis=1)] = np.nan
    return cosine


@final
class IndexCache:
    """The indexes of recently used scopes. An index is read again when its scope has changed.

    Args:
        memory: the memory that contains the scopes.
        model: the name of the embedder whose vectors are read. None reads no vectors.
        max_scopes: the number of indexes that are kept.
        words: computes vectors of words, if the embedder does.
    """

    def __init__(self, memory: Memory, model: str | None, max_scopes: int, words: WordEmbedder | None = None) -> None:
        self._words = words
        self._memory = memory
        self._model = model
        self._max_scopes = max_scopes
        self._indexes: OrderedDict[str, ScopeIndex] = OrderedDict()

    async def find(self, scope: str) -> ScopeIndex | None:
        """Return the index of a scope, or None if it has to be read."""
        index = self._indexes.get(scope)
        if index is None or monotonic() - index.read_at > _REFRESH_SECONDS:
            return None
        if index.revision != await self._memory.scope(scope).revision():
            return None
        if scope in self._indexes:  # the index was not dropped meanwhile
            self._indexes.move_to_end(scope)
        return index

    async def read(self, scope: str) -> ScopeIndex:
        """Read the index of a scope, and cache it."""
        rows = self._memory.scope(scope)
        # Read first: a change while the rest is read makes the next search read again.
        revision = await rows.revision()
        vectors: tuple[list[int], bytes] = ([], b"") if self._model is None else await rows.vectors(self._model)
        documents, entities = await rows.documents(), await rows.entities()
        known = self._indexes.get(scope)
        index = await finish_in_thread(
            partial(ScopeIndex, revision, documents, entities, vectors, known=known, words=self._words)
        )
        self._indexes[scope] = index
        self._indexes.move_to_end(scope)
        if len(self._indexes) > self._max_scopes:
            self._indexes.popitem(last=False)
        return index
