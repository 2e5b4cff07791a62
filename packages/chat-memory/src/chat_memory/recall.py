"""`Recall`, which finds the documents of a scope that are relevant to a question.

    recall = Recall(memory, embedder)
    result = await recall.search("ana", "Where does Ben work?")

A document is scored by the words that it and its neighbors in the conversation share with the question, and by its
speaker, date and conversation. An embedder is optional. `docs/guides/memory.md` explains the score.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final, final

import numpy as np
from chat_core import RecalledNote
from chat_core.arguments import require_number, require_text, require_type, require_whole
from chat_core.clock import utc_clock, utc_now
from chat_core.concurrency import finish_in_thread
from chat_core.errors import ChatError, UsageError
from chat_core.messages.token_estimate import estimate_text
from chat_core.provider import EmbeddingsProvider

from chat_memory._embedding import embed_batch, embed_texts, embedder_name
from chat_memory._postings import Numbers
from chat_memory._scope_index import IndexCache, ScopeIndex, compare_vectors
from chat_memory._score import default_gate, score_components
from chat_memory.cached_embedder import CachedEmbedder
from chat_memory.confidence import effective_confidence
from chat_memory.embedder import WordEmbedder
from chat_memory.facts import Fact
from chat_memory.memory import Memory, require_memory
from chat_memory.passages import Document, DocumentFilter
from chat_memory.weights import Weights

_log = logging.getLogger("chat_memory")
_MAX_RELATIONS: Final = 2
"""Maximum number of relations between an entity in the question and the entity of a fact."""
_MAX_QUESTION_CHARACTERS: Final = 8000
_EMBEDDED_BY_SEARCH: Final = 100
"""Maximum number of new texts that a search embeds before it reads a changed scope."""
_MATCHES_READ_AT_ONCE: Final = 5
"""Number of matches that one query reads, as a multiple of `limit`."""


@final
@dataclass(frozen=True, slots=True)
class Match:
    """A document that is relevant to a question.

    Attributes:
        document: the passage or fact that was found.
        score: the score that determines the order.
        relevance: the score without the confidence. It must be at least the gate.
        reasons: contribution of each property to the score.
        fact: the fact, if the document is a fact.
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
        degraded: whether documents were compared only by words, because the embedder failed or they have no vector yet.
    """

    matches: Sequence[Match]
    searched: int
    degraded: bool = False


@final
class Recall:
    """A search engine for the scopes of a memory. It keeps the indexes of recently used scopes in memory.

    Args:
        memory: the memory to search.
        embedder: provider that computes vectors. Without it, only words are compared.
        gate: minimum relevance of a match. With 0, the best documents are always returned. The default grows with the
            number of documents that may be found: from 0.15 for up to 5 documents to 0.37 with vectors, or 0.24 without
            vectors.
        relative_gate: minimum relevance of a match, as a fraction of the relevance of the best match.
        weights: the weights of the score.
        max_scopes: maximum number of indexes that are kept.
        where: a filter for the documents that may be found. Default: all.
        words: object that computes vectors of single words, such as `LocalEmbedder()`, so that words of similar meaning
            are found. Default: the embedder, if it implements `WordEmbedder`.
        now: function that returns the current time, for the confidence in facts.
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
        words: WordEmbedder | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        require_memory(memory)
        require_whole("max_scopes", max_scopes, 1)
        require_number("relative_gate", relative_gate)
        if embedder is not None:
            require_type("embedder", embedder, EmbeddingsProvider, "a provider with embed()")
        if where is not None:
            require_type("where", where, DocumentFilter, "a DocumentFilter")
        if weights is not None:
            require_type("weights", weights, Weights, "a Weights, such as Weights(graph=0)")
        if words is not None:
            require_type("words", words, WordEmbedder, "an object with embed_words(), such as LocalEmbedder()")
        if gate is not None:
            require_number("gate", gate)
        if gate is not None and not gate >= 0:
            msg = f"gate must be at least 0, not {gate!r}"
            raise UsageError(msg)
        if not 0 <= relative_gate <= 1:
            msg = f"relative_gate must be from 0 to 1, not {relative_gate!r}"
            raise UsageError(msg)
        self._memory = memory
        self._embedder = embedder
        # Questions are usually asked once, and private.
        self._question_embedder = embedder.embedder if isinstance(embedder, CachedEmbedder) else embedder
        self._model = "" if embedder is None else embedder_name(embedder.metadata)
        self._gate = gate
        self._relative_gate = relative_gate
        self._weights = weights or Weights()
        self._where = where
        self._now = utc_clock(now)
        if words is None and isinstance(self._question_embedder, WordEmbedder):
            words = self._question_embedder
        self._indexes = IndexCache(memory, None if embedder is None else self._model, max_scopes, words)

    async def search(
        self,
        scope: str,
        question: str,
        *,
        limit: int = 10,
        max_tokens: int = 1500,
        where: DocumentFilter | None = None,
    ) -> RecallResult:
        """Return the documents that are relevant to a question, best first.

        Args:
            scope: the name of the scope to search.
            question: a question or any other text.
            limit: the maximum number of matches.
            max_tokens: the maximum estimated number of tokens of all matches together. A match that does not fit is
                left out.
            where: a filter for the documents that may be found. Default: the filter passed to the constructor.

        Raises:
            UsageError: a limit is less than 1, or an argument has a wrong type.
        """
        require_text(scope=scope, question=question)
        require_whole("limit", limit, 1)
        require_whole("max_tokens", max_tokens, 1)
        if where is not None:
            require_type("where", where, DocumentFilter, "a DocumentFilter")
        question = _shorten_question(question)
        index = await self._load_index(scope)
        size = len(index.text.documents)
        if not size:
            return RecallResult((), 0)
        vector = await self._embed_question(index, question)
        near = await self._score_near(scope, index, question)
        ranking = await finish_in_thread(partial(self._rank_documents, index, question, vector, near, where))
        matches = await self._read_matches(scope, index, ranking, limit)
        degraded = self._embedder is not None and (vector is None or index.without_vector > 0)
        return RecallResult(_limit_matches(matches, max_tokens), size, degraded)

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
        return [self._create_note(match) for match in matches]

    async def received(self, scope: str, notes: Sequence[RecalledNote], /) -> None:
        """Record that a model received notes, so that the facts in them do not lose confidence with age.

        If the database does not answer in time, a warning is logged.

        Args:
            scope: the name of the scope.
            notes: the notes that were sent. Notes about passages are ignored.
        """
        if facts := [note.id for note in notes if note.id is not None]:
            try:
                await self._memory.scope(scope).touch(facts)
            except TimeoutError as error:
                _log.warning("the use of facts was not recorded, because the database did not answer: %s", error)

    def _create_note(self, match: Match) -> RecalledNote:
        document, fact = match.document, match.fact
        if fact is None:
            return RecalledNote(document.text, document.speaker or document.kind, document.said_at)
        return RecalledNote(fact.text, fact.source, fact.said_at, effective_confidence(fact, self._now()), fact.id)

    async def embed(self, scope: str, *, batch: int = 100) -> int:
        """Compute and store the missing vectors of this embedder, and return the number of stored vectors.

        Each batch is stored when it is complete, so a call after a crash continues. A text that the embedder refuses,
        or fails for twice while it accepts other texts, gets a vector of zeros, so that only its words are searched,
        and a warning is logged.

        Args:
            scope: the name of the scope.
            batch: the number of texts in a request.

        Raises:
            UsageError: there is no embedder.
            ChatError: the embedder failed.
        """
        require_whole("batch", batch, 1)
        stored = 0
        while added := await self._embed_batch(scope, batch):
            stored += added
        return stored

    async def reindex(self, *, batch: int = 100) -> int:
        """Compute the missing vectors of every scope, and return the number of stored vectors.

        Call it after a change of the embedder. Vectors of other embedders are deleted from each scope when all its
        texts have new vectors. A call after a crash continues.

        Args:
            batch: the number of texts in a request.

        Raises:
            UsageError: there is no embedder.
            ChatError: the embedder failed.
        """
        self._require_embedder()
        stored, after = 0, ""
        while names := await self._memory.scopes(after=after):
            for name in names:
                stored += await self.embed(name, batch=batch)
                await self._memory.scope(name).drop_vectors(keep=self._model)
            after = names[-1]
        return stored

    def _require_embedder(self) -> EmbeddingsProvider:
        if self._embedder is None:
            msg = "an embedder, as in Recall(memory, embedder), is required to store vectors"
            raise UsageError(msg)
        return self._embedder

    async def _embed_batch(self, scope: str, size: int) -> int:
        embedder = self._require_embedder()
        uncached = self._question_embedder or embedder
        return await embed_batch(self._memory.scope(scope), embedder, size, uncached=uncached)

    async def _load_index(self, scope: str) -> ScopeIndex:
        if (index := await self._indexes.find(scope)) is not None:
            return index
        if self._embedder is not None:
            try:
                await self._embed_batch(scope, _EMBEDDED_BY_SEARCH)
            except (ChatError, TimeoutError) as error:
                _log.warning("new texts in the scope %r have no vectors yet: %s", scope, error)
        index = await self._indexes.read(scope)
        if self._embedder is not None and index.without_vector:
            _log.warning(
                "%d of %d texts in the scope %r have no vector of %s: call Recall.embed() or Recall.reindex()",
                index.without_vector,
                len(index.text.documents),
                scope,
                self._model,
            )
        return index

    async def _embed_question(self, index: ScopeIndex, question: str) -> Numbers | None:
        """Return the vector of a question, or None if it cannot be compared with the vectors of the documents."""
        if self._question_embedder is None or index.vectors is None:
            return None
        try:
            response = await embed_texts(self._question_embedder, [index.text.without_speakers(question)])
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
        return vector

    async def _score_near(self, scope: str, index: ScopeIndex, question: str) -> Numbers:
        """Return 1 for each fact about an entity in the question, halved for each relation between the two."""
        near = np.zeros(len(index.text.documents))
        named = index.entities_in(question)
        if named and self._weights.graph:
            distances = await self._memory.scope(scope).facts_near(named, depth=_MAX_RELATIONS)
            for fact, distance in distances.items():
                if (row := index.text.row_of_fact.get(fact)) is not None:
                    near[row] = 0.5**distance
        return near

    def _rank_documents(
        self, index: ScopeIndex, question: str, vector: Numbers | None, near: Numbers, where: DocumentFilter | None
    ) -> _Ranking:
        """Score all documents, and order those that pass the gate.

        Call this function in a thread, because it may be slow.
        """
        similarity = None if vector is None or index.vectors is None else compare_vectors(index.vectors, vector)
        components = score_components(self._weights, index.text.score(question, index.related), near, similarity)
        relevance = np.sum(list(components.values()), axis=0)
        searched = len(relevance)
        if (accepted := where or self._where) is not None:
            wanted = [accepted.accepts(document) for document in index.text.documents]
            relevance, searched = relevance * wanted, sum(wanted)
        least = default_gate(searched, vectors=similarity is not None) if self._gate is None else self._gate
        gate = max(least, self._relative_gate * float(relevance.max()))
        rows = np.flatnonzero((relevance >= gate) & (relevance > 0))
        return _Ranking(rows[np.argsort(-relevance[rows], kind="stable")].tolist(), relevance, components)

    async def _read_matches(self, scope: str, index: ScopeIndex, ranking: _Ranking, limit: int) -> list[Match]:
        """Return the best matches, without facts that have ended since the index was read.

        The confidence of a fact adds to its score. Matches are therefore read in the order of their relevance, until no
        later match can have a higher score than the matches that were found.
        """
        matches: list[Match] = []
        size = _MATCHES_READ_AT_ONCE * limit
        for start in range(0, len(ranking.rows), size):
            rows = ranking.rows[start : start + size]
            if len(matches) == limit and matches[-1].score > ranking.relevance[rows[0]] + self._weights.confidence:
                break
            ids = [fact for row in rows if (fact := index.text.documents[row].fact) is not None]
            current = {fact.id: fact for fact in await self._memory.scope(scope).facts(ids=ids)} if ids else {}
            matches += filter(None, (self._create_match(index, ranking, row, current) for row in rows))
            matches = sorted(matches, key=_match_order)[:limit]
        return matches

    def _create_match(
        self, index: ScopeIndex, ranking: _Ranking, row: int, current: Mapping[str, Fact]
    ) -> Match | None:
        document = index.text.documents[row]
        reasons = {name: float(scores[row]) for name, scores in ranking.components.items() if scores[row]}
        relevance = sum(reasons.values())
        if document.fact is None:
            return Match(document, relevance, relevance, reasons)
        fact = current.get(document.fact)
        if fact is None:
            return None
        reasons["confidence"] = self._weights.confidence * effective_confidence(fact, self._now())
        return Match(document, sum(reasons.values()), relevance, reasons, fact)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The rows of an index that pass the gate, most relevant first, with the scores of all rows."""

    rows: Sequence[int]
    relevance: Numbers
    components: Mapping[str, Numbers]


def _match_order(match: Match) -> tuple[float, float, int]:
    """Return a key that sorts matches by score, the latest first if the scores are equal."""
    said_at = match.document.said_at
    return -match.score, -said_at.timestamp() if said_at else 0.0, match.document.id


def _shorten_question(question: str) -> str:
    """Return the beginning and the end of a long text. A question about a pasted text is usually at one of its ends."""
    if len(question) <= _MAX_QUESTION_CHARACTERS:
        return question
    half = _MAX_QUESTION_CHARACTERS // 2
    return f"{question[:half]} {question[-half:]}"


def _limit_matches(matches: Sequence[Match], tokens: int) -> tuple[Match, ...]:
    kept: list[Match] = []
    for match in matches:
        size = estimate_text(match.document.text)
        if size <= tokens:
            tokens -= size
            kept.append(match)
    return tuple(kept)
