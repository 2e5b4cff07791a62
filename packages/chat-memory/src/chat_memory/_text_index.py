"""An index in memory that ranks the documents of a scope by words.

Each document is a row of numpy arrays, and the rows of a conversation are consecutive.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from math import log1p
from typing import Final, TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt

from chat_memory._postings import NO_ROWS, Numbers, Postings, Rows
from chat_memory._related_words import RelatedWords
from chat_memory._words import TIME_STEMS, asks_for_time, date_stems, date_words, split_words, stem, stems
from chat_memory.passages import Document

T = TypeVar("T")
Number = TypeVar("Number", np.float32, np.float64, np.bool_)
Vectors: TypeAlias = npt.NDArray[np.float32]

_SATURATION: Final = 1.2
"""`k1` of BM25, which limits the effect of repetitions of a word (Robertson and Zaragoza 2009, section 3.4)."""
_LENGTH: Final = 0.75
"""`b` of BM25, which determines how much long texts are penalized."""
_OTHER_TEXTS: Final = 100
"""Number of additional texts to assume that contain no word of the question.

Otherwise, all words of a small scope would count as frequent.
"""
_QUESTION_MARKS: Final = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
_NAME: Final = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}]s\b)?")
_MAX_WORDS: Final = 64
"""Maximum number of words of a question that are searched. Words that occur in the fewest texts come first."""
_ROLES: Final = frozenset(("user", "model"))
"""Speakers whose names are ordinary words in a question, as in "Which model of car did I buy?"."""
_NEW_ROW: Final = -9
"""Row number that marks a new document in a list of earlier rows. It is not adjacent to any row number."""
_RELATED: Final = 0.2
"""Weight of a related word, relative to the word of the question."""
_NEIGHBORS: Final = ((-2, 0.2), (-1, 0.4), (0, 1.0), (1, 0.6), (2, 0.3))
"""Offsets of a row's neighbors in the conversation, and the weights with which the row's words count for them.

The offset -1 is the previous turn, and 1 is the next turn.

The turn after a question counts more than the turn before it, because it is usually the reply.
"""


@final
@dataclass(frozen=True, slots=True)
class TextScores:
    """The scores of all rows for one question.

    Attributes:
        text: fraction of the question that the row and its neighbors contain, from 0 to 1.
        speaker: 1 for rows whose speaker the question names.
        date: the fraction of the date in the question that matches the row.
        time: 1 for rows that contain a time expression, if the question asks for a time.
        conversation: match of the whole conversation that contains the row, from 0 to 1.
        question: 1 for rows that end with a question mark.
    """

    text: Numbers
    speaker: Numbers
    date: Numbers
    time: Numbers
    conversation: Numbers
    question: Numbers


@final
class TextIndex:
    """An index of documents by the stems of their words.

    Args:
        documents: the documents to index or, with `earlier`, the new and changed documents.
        tokens: number of occurrences of each stem in each of these documents, by document id.
        earlier: an index to update. It is not modified.
        changed: the ids of the documents of `earlier` that are removed or replaced.

    Attributes:
        documents: all documents, in the order of the rows.
        row_of: the row of each document, by its id.
        row_of_fact: the row of each fact, by the id of the fact.
        moved: the row of each document of `earlier`, by its earlier row. -1 for a document that was removed.
        added: the rows of the new and changed documents.
        size: the number of rows.
        places: the sort key of each row: the conversation, the position and the id.
        postings: the rows that contain each stem.
        dates: rows by each word of their date.
        speakers: rows by each word of their speaker's name.
        properties: the columns of `_measure_document()` for each row.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        tokens: Mapping[int, Counter[str]],
        earlier: TextIndex | None = None,
        changed: Iterable[int] = (),
    ) -> None:
        new = sorted(documents, key=_transcript_position)
        self._merge_documents(new, earlier, changed)
        # Scores do not depend on whether `earlier` was given, because the order of the rows does not.
        begins = [False, *(one[0] != other[0] for one, other in pairwise(self.places))][: self.size]
        self._group: Rows = np.cumsum(begins, dtype=np.intp)
        self._groups = int(self._group[-1]) + 1 if self.size else 0
        self._has_neighbor = [self._row_has_neighbor(offset) for offset, _ in _NEIGHBORS]
        counts = [tokens[document.id] for document in new]
        dates = [dict.fromkeys(date_stems(d.said_at) if d.said_at else (), 1.0) for d in new]
        speakers = [dict.fromkeys(() if d.speaker in _ROLES else split_words(d.speaker or ""), 1.0) for d in new]
        rows: list[int] = self.added.tolist()
        self.postings: Postings = Postings(zip(rows, counts, strict=True), earlier and earlier.postings, self.moved)
        self.dates: Postings = Postings(zip(rows, dates, strict=True), earlier and earlier.dates, self.moved)
        self.speakers: Postings = Postings(zip(rows, speakers, strict=True), earlier and earlier.speakers, self.moved)
        properties: Numbers = np.array(
            [_measure_document(*pair) for pair in zip(new, counts, strict=True)], dtype=np.float64
        )
        self.properties: Numbers = self.move_rows(earlier and earlier.properties, properties.reshape(len(new), 3))
        self._tells_time, self._asks, lengths = self.properties.T.copy()
        every: Rows = np.arange(self.size, dtype=np.intp)
        self._length_norm = _length_norm(self._add_to_neighbors(every, lengths))
        self._group_norm = _length_norm(self._sum_per_group(self._group, lengths))

    def _merge_documents(self, new: Sequence[Document], earlier: TextIndex | None, changed: Iterable[int]) -> None:
        """Set the attributes that map between documents and rows."""
        documents: list[Document] = []
        places: list[tuple[str, int, int]] = []
        kept: Rows = NO_ROWS
        if earlier is not None:
            keeps = np.ones(earlier.size, dtype=bool)
            keeps[[earlier.row_of[key] for key in changed if key in earlier.row_of]] = False
            kept = np.flatnonzero(keeps)
            documents = list(compress(earlier.documents, keeps.tolist()))
            places = list(compress(earlier.places, keeps.tolist()))
        new_places = [_transcript_position(document) for document in new]
        before: Rows = np.array([bisect(places, place) for place in new_places], dtype=np.intp)
        self.documents: Sequence[Document] = _insert_items(documents, new, before.tolist())
        self.places: Sequence[tuple[str, int, int]] = _insert_items(places, new_places, before.tolist())
        self.added: Rows = before + np.arange(len(new), dtype=np.intp)
        self.moved: Rows = np.full(0 if earlier is None else earlier.size, -1, dtype=np.intp)
        self.moved[kept] = np.arange(len(kept)) + np.searchsorted(before, np.arange(len(kept)), "right")
        self.size: int = len(self.documents)
        self.row_of: Mapping[int, int] = {document.id: row for row, document in enumerate(self.documents)}
        self.row_of_fact: Mapping[str, int] = {
            d.fact: row for row, d in enumerate(self.documents) if d.fact is not None
        }

    def move_rows(self, earlier: npt.NDArray[Number] | None, added: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return an array with the value of each row, by combining earlier and new values.

        Args:
            earlier: the values of the rows of the earlier index, if there is one.
            added: the values of the new and changed documents.
        """
        values = np.zeros((self.size, *added.shape[1:]), dtype=added.dtype)
        if earlier is not None:
            kept = self.moved >= 0
            values[self.moved[kept]] = earlier[kept]
        values[self.added] = added
        return values

    def rows_with_other_neighbors(self) -> Rows:
        """Return the new rows, and the rows whose neighbors may have changed since the earlier index."""
        origin: Rows = np.full(self.size, _NEW_ROW, dtype=np.intp)
        kept = self.moved >= 0
        origin[self.moved[kept]] = np.flatnonzero(kept)
        steps = np.diff(origin, prepend=-1, append=len(self.moved))
        apart = np.flatnonzero(steps != 1)
        return self.rows_near(np.concatenate((apart - 1, apart)))

    def rows_near(self, rows: Rows) -> Rows:
        """Return the given rows, and all rows that have one of them as a neighbor."""
        near = np.unique(np.concatenate([rows + offset for offset, _ in _NEIGHBORS]))
        return near[(near >= 0) & (near < self.size)]

    def score(self, question: str, vocabulary: RelatedWords | None = None) -> TextScores:
        """Score all rows for a question.

        Args:
            question: the text to search for.
            vocabulary: object that finds words related to those of the question.
        """
        dates = date_words(question)
        weights = {word: self._weigh_word(word, dates) for word in set(stems(question, question=True))}
        related = vocabulary.find(_words_by_stem(question, weights)) if vocabulary else {}
        text, conversation = np.zeros(self.size), np.zeros(self._groups)
        for word in self._rarest_words(weights, related):
            rows, counts = self.postings.find(word)
            frequency = self._add_to_neighbors(*self._add_related(rows, counts, weights[word], related.get(word, ())))
            if word in dates and word in self.dates:
                frequency[self.dates.find(word)[0]] += 1
            text += weights[word] * _saturate_frequency(frequency, self._length_norm)
            in_groups = self._sum_per_group(self._group[rows], counts)
            found = int(np.count_nonzero(in_groups))
            conversation += _word_weight(found, self._groups) * _saturate_frequency(in_groups, self._group_norm)
        best_possible = sum(sorted(weights.values()))
        return TextScores(
            text / best_possible if best_possible else text,
            self._score_matching_rows(self.speakers, set(split_words(question)), scale=False),
            self._score_matching_rows(self.dates, dates, scale=True),
            self._tells_time if asks_for_time(question) else np.zeros(self.size),
            (conversation / (conversation.max(initial=0) or 1.0))[self._group],
            self._asks,
        )

    def _weigh_word(self, word: str, dates: Collection[str]) -> float:
        rows, _ = self.postings.find(word)
        if not len(rows) and word in dates:
            rows, _ = self.dates.find(word)
        return _word_weight(len(rows), self.size + _OTHER_TEXTS)

    def _add_related(
        self, rows: Rows, counts: Numbers, weight: float, related: Sequence[tuple[str, float]]
    ) -> tuple[Rows, Numbers]:
        """Return the rows that contain a word or a related word, with the counts.

        A related word counts in proportion to its similarity. A related word that is more frequent than the word itself
        counts less.
        """
        if not related:
            return rows, counts
        every_row, every_count = [rows], [counts]
        for word, similarity in related:
            found, numbers = self.postings.find(word)
            every_row.append(found)
            every_count.append(numbers * (_RELATED * similarity * min(_word_weight(len(found), self.size) / weight, 1)))
        total = np.bincount(np.concatenate(every_row), np.concatenate(every_count), self.size).astype(np.float64)
        merged = np.flatnonzero(total)
        return merged, total[merged]

    def _rarest_words(self, weights: Mapping[str, float], related: Mapping[str, object]) -> list[str]:
        """Return the words that occur in the index or have related words, rarest first, up to `_MAX_WORDS`."""
        known = [word for word in weights if word in self.postings or word in self.dates or related.get(word)]
        # The order must not depend on the process, because sums in another order have other last digits.
        return sorted(known, key=lambda word: (-weights[word], word))[:_MAX_WORDS]

    def without_speakers(self, question: str) -> str:
        """Remove the capitalized names of speakers from a question.

        If nothing would be left, return the question unchanged.
        """

        def keep(word: re.Match[str]) -> str:
            name = split_words(word[0])
            return "" if name[:1] and name[0] in self.speakers and not word[0].islower() else word[0]

        remaining = " ".join(_NAME.sub(keep, question).split())
        return remaining if split_words(remaining) else question

    def average_neighbors(self, vectors: Vectors, rows: Rows | None = None) -> Vectors:
        """Average the vectors of rows with the vectors of their neighbors, and return the results with length 1.

        Args:
            vectors: a vector for each row.
            rows: the rows to average. Default: all.
        """
        target: Rows = np.arange(self.size, dtype=np.intp) if rows is None else rows
        mean: Vectors = np.zeros((len(target), vectors.shape[1]), dtype=np.float32)
        for offset, weight in _NEIGHBORS:
            neighbor = target - offset
            same = (neighbor >= 0) & (neighbor < self.size)
            same[same] = self._group[neighbor[same]] == self._group[target[same]]
            mean[same] += np.float32(weight) * vectors[neighbor[same]]
        return normalize_rows(mean)

    def _add_to_neighbors(self, rows: Rows, counts: Numbers) -> Numbers:
        """Return the counts of all rows, where each count also applies with a weight to the neighbors of its row."""
        total = np.zeros(self.size)
        for (offset, weight), has_neighbor in zip(_NEIGHBORS, self._has_neighbor, strict=True):
            found = has_neighbor[rows]
            total[rows[found] + offset] += weight * counts[found]
        return total

    def _sum_per_group(self, groups: Rows, counts: Numbers) -> Numbers:
        return np.bincount(groups, counts, self._groups).astype(np.float64)

    def _row_has_neighbor(self, offset: int) -> npt.NDArray[np.bool_]:
        """Return for each row whether the row at `offset` from it belongs to the same conversation."""
        other = np.arange(self.size) + offset
        inside = (other >= 0) & (other < self.size)
        inside[inside] = self._group[other[inside]] == self._group[inside]
        return inside

    def _score_matching_rows(self, index: Postings, words: Collection[str], *, scale: bool) -> Numbers:
        """Return a score for each row.

        It is 1 if the row contains any of the words or, with `scale`, the fraction of the words that it contains.
        """
        scores = np.zeros(self.size)
        known = [rows for word in words if len(rows := index.find(word)[0])]
        for rows in known:
            scores[rows] += 1
        return scores / len(known) if scale and known else np.minimum(scores, 1)


def normalize_rows(vectors: Vectors) -> Vectors:
    """Scale vectors to length 1, and return them. A vector of zeros is unchanged."""
    lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
    normalized: Vectors = vectors / np.maximum(lengths, np.float32(1e-9))
    return normalized


def _words_by_stem(question: str, asked: Collection[str]) -> dict[str, str]:
    return {found: word for word in split_words(question) if (found := stem(word)) in asked}


def _transcript_position(document: Document) -> tuple[str, int, int]:
    conversation = (
        f"fact {document.id}" if document.conversation is None else f"{document.kind} {document.conversation}"
    )
    return conversation, document.position or 0, document.id


def _measure_document(document: Document, counts: Counter[str]) -> tuple[float, float, float]:
    """Return whether a document contains a time expression, whether it ends with a question mark, and its length."""
    return (
        float(not TIME_STEMS.isdisjoint(counts)),
        float(document.text.rstrip().endswith(_QUESTION_MARKS)),
        float(counts.total()),
    )


def _insert_items(items: Sequence[T], new: Sequence[T], before: Sequence[int]) -> list[T]:
    """Insert each new item before the item whose position is in `before`. The positions are in ascending order."""
    merged: list[T] = []
    start = 0
    for item, end in zip(new, before, strict=True):
        merged += items[start:end]
        merged.append(item)
        start = end
    return [*merged, *items[start:]]


def _length_norm(lengths: Numbers) -> Numbers:
    mean = float(lengths.mean()) if len(lengths) else 1.0
    return _SATURATION * (1 - _LENGTH + _LENGTH * lengths / (mean or 1.0))


def _saturate_frequency(frequency: Numbers, norm: Numbers) -> Numbers:
    return frequency / (frequency + norm)


def _word_weight(found: int, size: int) -> float:
    """Return the weight of a word that occurs in `found` of `size` texts. Rare words have a higher weight."""
    return log1p((size - found + 0.5) / (found + 0.5))
