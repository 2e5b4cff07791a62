"""Recall: find the documents of a scope that are relevant to a question.

    recall = Recall(memory, embedder)
    result = await recall.search("ana", "Where does Ben work?")

A document is scored by the words that it and its neighbors in the conversation share with the question, and by its
speaker, date and conversation. An embedder is optional. `docs/guides/memory.md` explains the score.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import log
from time import monotonic
from typing import Final, final

import numpy as np
import numpy.typing as npt
from chat_core import RecalledNote
from chat_core.clock import utc_clock
from chat_core.concurrency import finish_in_thread
from chat_core.errors import ChatError, UsageError
from chat_core.provider import EmbeddingsProvider

from chat_memory._base_memory import utc_now
from chat_memory._text_index import Numbers, TextIndex, normalize_rows
from chat_memory._words import split_words, stems
from chat_memory.confidence import effective_confidence
from chat_memory.facts import Fact
from chat_memory.graph import Entity
from chat_memory.memory import Memory
from chat_memory.passages import Document, DocumentFilter, embed_texts, embedder_name

Vectors = npt.NDArray[np.float32]

_log = logging.getLogger("chat_memory")
_REFRESH_SECONDS: Final = 300.0
"""An index is read again after this time, because facts begin and end at times without a change of the scope."""
_MAX_RELATIONS: Final = 2
"""The number of relations between an entity that a question names and the entity of a fact."""
_LEAST_DEVIATION: Final = 0.02
"""The least standard deviation of similarities, so that rounding errors between equal texts decide nothing."""
_GATE: Final = 0.24
_GATE_WITH_VECTORS: Final = 0.37
"""The gates for 550 documents or more, calibrated with `benchmarks/locomo.py`."""
_GATE_OF_FEW: Final = 0.15
"""The gate for up to 5 documents, calibrated with observations of LoCoMo as facts."""
_FEW: Final = 5
_MANY: Final = 550


@final
@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the properties that score a document, relative to the best match of words and vectors.

    Attributes:
        speaker: the question names the speaker.
        date: the question names the day, the month or the year.
        time: the question asks for a time, and the document contains words of time.
        conversation: the words of the conversation as a whole match.
        question: the document ends with a question mark. Negative, because the vectors of two questions are similar.
            Counts only if vectors are compared.
        embedding: the similarity of the vectors, in standard deviations above the mean of all documents. Compared are
            the question, without names of speakers, and the weighted mean of the document and its neighbors.
        graph: the fact is about an entity that the question names, or near one.
        confidence: confidence in a fact. Counts only for documents that pass the gate.
    """

    speaker: float = 0.5
    date: float = 0.6
    time: float = 0.3
    conversation: float = 0.35
    question: float = -0.12
    embedding: float = 0.2
    graph: float = 0.3
    confidence: float = 0.1


@final
@dataclass(frozen=True, slots=True)
class Match:
    """A document that is relevant to a question.

    Attributes:
        document: the document.
        score: the score that decides the order.
        relevance: the score without the confidence, which was compared with the gate.
        reasons: the part of the score that each property contributed.
        fact: the fact, if the document is one.
    """

    document: Document
    score: float
    relevance: float
    reasons: Mapping[str, float] = field(hash=False)
    fact: Fact | None = None


@final
@dataclass(frozen=True, slots=True)
class RecallResult:
    """The result of a search.

    Attributes:
        matches: the matches, best first.
        searched: the number of documents in the scope.
        degraded: whether the embedder failed, or documents have no vector yet, so that words alone decided.
    """

    matches: Sequence[Match]
    searched: int
    degraded: bool = False


@final
class Recall:
    """A search engine for the scopes of a memory. It keeps the indexes of recently used scopes in memory.

    Args:
        memory: the memory to search.
        embedder: computes vectors. Default: words alone decide.
        gate: the lowest relevance of a match. 0 always returns the best documents. Default: 0.15 for up to 5 documents
            that may be found, more for more documents, up to 0.37 with vectors and 0.24 with words alone.
        relative_gate: the lowest relevance of a match, as a part of that of the best match.
        weights: the weights of the score.
        max_scopes: the number of indexes that are kept.
        where: which documents may be found. Default: all.
        now: returns the current time, for the confidence in facts.
    """

    def __init__(
        self,
        memory: Memory,
        embedder: EmbeddingsProvider | None = None,
        *,
        gate: float | None = None,
        relative_gate: float = 0.45,
        weights: Weights | None = None,
        max_scopes: int = 100,
        where: DocumentFilter | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if (gate is not None and not gate >= 0) or not 0 <= relative_gate <= 1 or max_scopes < 1:
            msg = (
                "gate must be at least 0, relative_gate between 0 and 1, and max_scopes at least 1, "
                f"not {gate!r}, {relative_gate!r} and {max_scopes!r}"
            )
            raise UsageError(msg)
        self._memory = memory
        self._embedder = embedder
        self._model = "" if embedder is None else embedder_name(embedder.metadata)
        self._gate = gate
        self._relative_gate = relative_gate
        self._weights = weights or Weights()
        self._max_scopes = max_scopes
        self._where = where
        self._now = utc_clock(now)
        self._indexes: OrderedDict[str, _ScopeIndex] = OrderedDict()

    async def search(
        self,
        scope: str,
        question: str,
        *,
        limit: int = 10,
        max_characters: int = 6000,
        where: DocumentFilter | None = None,
    ) -> RecallResult:
        """Return the documents that are relevant to a question, best first.

        Args:
            scope: the name of the scope to search.
            question: a question or any other text.
            limit: the maximum number of matches.
            max_characters: the maximum number of characters of all matches together. A match that does not fit is
                left out.
            where: which documents may be found. Default: those of the constructor.

        Raises:
            UsageError: a limit is less than 1.
        """
        if limit < 1 or max_characters < 1:
            msg = f"limit and max_characters must be at least 1, not {limit!r} and {max_characters!r}"
            raise UsageError(msg)
        index = await self._load_index(scope)
        size = len(index.text.documents)
        if not size:
            return RecallResult((), 0)
        similarity = await self._compute_similarity(index, question)
        degraded = self._embedder is not None and similarity is None
        near = await self._score_near(scope, index, question)
        reasons = self._score_by_reason(index.text, question, similarity, near)
        relevance = np.sum(list(reasons.values()), axis=0)
        searched = size
        if (accepted := where or self._where) is not None:
            wanted = [accepted.accepts(document) for document in index.text.documents]
            relevance, searched = relevance * wanted, sum(wanted)
        least = _default_gate(searched, similarity is not None) if self._gate is None else self._gate
        gate = max(least, self._relative_gate * float(relevance.max()))
        rows = np.flatnonzero((relevance >= gate) & (relevance > 0))
        best = rows[np.lexsort((rows, -relevance[rows]))]
        matches = await self._rank_matches(scope, index.text, best[: 2 * limit].tolist(), reasons)
        return RecallResult(_limit_matches(matches[:limit], max_characters), size, degraded)

    async def recall(self, scope: str, question: str, /) -> list[RecalledNote]:
        """Return notes for a model about the documents that are relevant to a question, best first.

        See `ChatBuilder.with_memory()`. If the database does not answer in time, a warning is logged, and there are no
        notes.

        Args:
            scope: the name of the scope to search.
            question: the text of the user's message.
        """
        try:
            matches = (await self.search(scope, question)).matches
        except TimeoutError as error:
            _log.warning("no notes from memory, because its database did not answer: %s", error)
            return []
        if facts := [match.fact.id for match in matches if match.fact is not None]:
            try:
                await self._memory.scope(scope).touch(facts)
            except TimeoutError as error:
                _log.warning("the use of facts was not recorded, because the database did not answer: %s", error)
        return [self._create_note(match) for match in matches]

    def _create_note(self, match: Match) -> RecalledNote:
        document, fact = match.document, match.fact
        if fact is None:
            return RecalledNote(document.text, document.speaker or document.kind, document.said_at)
        return RecalledNote(fact.text, fact.source, fact.said_at, effective_confidence(fact, self._now()), fact.id)

    async def embed(self, scope: str, *, batch: int = 100) -> int:
        """Compute and store the missing vectors of this embedder, and return how many were stored.

        Each batch is stored when it is complete, so a call after a crash continues. Vectors of other embedders are
        deleted at the end.

        Args:
            scope: the name of the scope.
            batch: the number of texts in a request.

        Raises:
            UsageError: there is no embedder.
            ChatError: the embedder failed.
        """
        if self._embedder is None:
            msg = "an embedder, as in Recall(memory, embedder), is required to store vectors"
            raise UsageError(msg)
        stored, rows = 0, self._memory.scope(scope)
        while documents := await rows.without_vector(self._model, limit=batch):
            response = await embed_texts(self._embedder, [document.text for document in documents])
            ids = [document.id for document in documents]
            await rows.put_vectors(self._model, dict(zip(ids, response.vectors, strict=True)))
            stored += len(documents)
        await rows.drop_vectors(keep=self._model)
        return stored

    async def reindex(self, *, batch: int = 100) -> int:
        """Call `embed()` for every scope of the memory, and return how many vectors were stored.

        Call it after a change of the embedder. Until then, words alone decide. A call after a crash continues.

        Args:
            batch: the number of texts in a request.

        Raises:
            UsageError: there is no embedder.
            ChatError: the embedder failed.
        """
        stored, after = 0, ""
        while names := await self._memory.scopes(after=after):
            for name in names:
                stored += await self.embed(name, batch=batch)
            after = names[-1]
        return stored

    async def _load_index(self, scope: str) -> _ScopeIndex:
        rows = self._memory.scope(scope)
        revision = await rows.revision()
        index = self._indexes.get(scope)
        if index is None or index.revision != revision or monotonic() - index.read_at > _REFRESH_SECONDS:
            vectors: tuple[list[int], bytes] = ([], b"") if self._embedder is None else await rows.vectors(self._model)
            documents, entities = await rows.documents(), await rows.entities()
            build = partial(_ScopeIndex, revision, documents, entities, vectors, index.tokens if index else {})
            index = await finish_in_thread(build)
            if self._embedder is not None and index.vectors is None and index.text.documents:
                _log.warning(
                    "words alone decide in the scope %r, because not all of its texts have a vector of %s: call "
                    "Recall.embed() or Recall.reindex()",
                    scope,
                    self._model,
                )
            self._indexes[scope] = index
        self._indexes.move_to_end(scope)
        if len(self._indexes) > self._max_scopes:
            self._indexes.popitem(last=False)
        return index

    async def _compute_similarity(self, index: _ScopeIndex, question: str) -> Numbers | None:
        """Return the similarity of each document to the question, or None if it is not known for all documents."""
        if self._embedder is None or index.vectors is None:
            return None
        try:
            response = await embed_texts(self._embedder, [index.text.without_speakers(question)])
        except ChatError as error:
            _log.warning("recall without an embedder, because it failed: %s", error)
            return None
        vector = np.array(response.vectors[0], dtype=np.float64)
        if vector.shape != index.vectors.shape[1:]:
            _log.warning(
                "recall without an embedder, because the vectors of %s have another length than the stored ones: "
                'call MemoryScope.drop_vectors(keep="") and Recall.embed()',
                self._model,
            )
            return None
        if not np.isfinite(vector).all():
            _log.warning("recall without an embedder, because %s returned numbers that are not finite", self._model)
            return None
        scaled = vector / (np.abs(vector).max() or 1.0)
        cosine = index.vectors @ (scaled / (np.linalg.norm(scaled) or 1.0)).astype(np.float32)
        return cosine.astype(np.float64)

    async def _score_near(self, scope: str, index: _ScopeIndex, question: str) -> Numbers:
        """Return 1 for facts about an entity that the question names, and half as much for each relation between."""
        near = np.zeros(len(index.text.documents))
        named = index.entities_in(question)
        if named and self._weights.graph:
            distances = await self._memory.scope(scope).facts_near(named, depth=_MAX_RELATIONS)
            for fact, distance in distances.items():
                if (row := index.text.row_of_fact.get(fact)) is not None:
                    near[row] = 0.5**distance
        return near

    def _score_by_reason(
        self, text: TextIndex, question: str, similarity: Numbers | None, near: Numbers
    ) -> dict[str, Numbers]:
        weights, scores = self._weights, text.score(question)
        reasons = {"text": scores.text}
        if similarity is not None:
            # A question without known words is answered by its vector alone.
            scale = weights.embedding * float(scores.text.max() or max(similarity.max(), 0.0))
            reasons["embedding"] = scale * (similarity - similarity.mean()) / max(similarity.std(), _LEAST_DEVIATION)
        best = float(np.sum(list(reasons.values()), axis=0).max())
        reasons |= {
            "speaker": weights.speaker * best * scores.speaker,
            "date": weights.date * best * scores.date,
            "time": weights.time * best * scores.time,
            "conversation": weights.conversation * best * scores.conversation,
            "graph": weights.graph * best * near,
        }
        if similarity is not None:
            reasons["question"] = weights.question * best * scores.question
        return reasons

    async def _rank_matches(
        self, scope: str, text: TextIndex, rows: Sequence[int], reasons: Mapping[str, Numbers]
    ) -> list[Match]:
        matches: list[Match] = []
        for row in rows:
            document = text.documents[row]
            parts = {name: float(scores[row]) for name, scores in reasons.items() if scores[row]}
            relevance = sum(parts.values())
            fact = None
            if document.fact is not None:
                fact = await self._memory.scope(scope).get(document.fact)
                if fact is None or fact.status != "current":
                    continue
                parts["confidence"] = self._weights.confidence * effective_confidence(fact, self._now())
            matches.append(Match(document, sum(parts.values()), relevance, parts, fact))
        return sorted(matches, key=lambda match: -match.score)


@final
class _ScopeIndex:
    """The documents of a scope at one revision, with their words and vectors."""

    def __init__(
        self,
        revision: int,
        documents: Sequence[Document],
        entities: Sequence[Entity],
        vectors: tuple[list[int], bytes],
        known: Mapping[tuple[int, str], Counter[str]],
    ) -> None:
        self.revision = revision
        self.read_at = monotonic()
        keys = [(document.id, document.text) for document in documents]
        self.tokens = {key: known.get(key) or Counter(stems(key[1])) for key in keys}
        self.text = TextIndex(documents, {key[0]: tokens for key, tokens in self.tokens.items()})
        self.vectors = self._read_vectors(*vectors)
        self._entities = {tuple(split_words(entity.name)): entity.id for entity in entities}
        self._longest_name = max(map(len, self._entities), default=0)

    def entities_in(self, question: str) -> list[str]:
        """Return the ids of the entities whose names are in a question."""
        words = split_words(question)
        lengths = range(1, min(self._longest_name, len(words)) + 1)
        runs = (tuple(words[start : start + length]) for length in lengths for start in range(len(words) - length + 1))
        return sorted({self._entities[run] for run in runs if run in self._entities})

    def _read_vectors(self, ids: Sequence[int], data: bytes) -> Vectors | None:
        """Return the vectors of all rows, averaged with their neighbors, or None if a vector is missing."""
        rows = [self.text.row_of[document] for document in ids if document in self.text.row_of]
        if not rows or len(rows) < len(self.text.documents) or len(rows) < len(ids):
            return None
        vectors = np.empty((len(rows), len(data) // (4 * len(ids))), dtype=np.float32)
        vectors[rows] = np.frombuffer(data, dtype="<f4").reshape(len(ids), -1)
        return self.text.average_neighbors(normalize_rows(vectors))


def _default_gate(documents: int, vectors: bool) -> float:  # noqa: FBT001 - which of two gates
    """Return the gate for a number of documents, which grows with the score that the best irrelevant one reaches."""
    highest = _GATE_WITH_VECTORS if vectors else _GATE
    share = log(max(documents, _FEW) / _FEW) / log(_MANY / _FEW)
    return _GATE_OF_FEW + (highest - _GATE_OF_FEW) * min(share, 1.0)


def _limit_matches(matches: Sequence[Match], characters: int) -> tuple[Match, ...]:
    kept: list[Match] = []
    for match in matches:
        if len(match.document.text) <= characters:
            characters -= len(match.document.text)
            kept.append(match)
    return tuple(kept)
