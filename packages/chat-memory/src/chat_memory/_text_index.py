"""An index in memory that ranks the documents of a scope by words.

Each document is a row of numpy arrays, and the rows of a conversation are consecutive.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from chat_memory._related_words import RelatedWords
from chat_memory._words import TIME_STEMS, asks_for_time, date_stems, date_words, split_words, stem, stems
from chat_memory.passages import Document

Numbers: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.intp]

_SATURATION: Final = 1.2
"""`k1` of BM25: how soon repetitions of a word stop adding to a score (Robertson and Zaragoza 2009, section 3.4)."""
_LENGTH: Final = 0.75
"""`b` of BM25: how much long texts are penalized."""
_OTHER_TEXTS: Final = 100
"""Number of imaginary texts without any word of the question. Without them, words in a small scope appear frequent."""
_QUESTION_MARKS: Final = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
_NAME: Final = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}]s\b)?")
_MAX_WORDS: Final = 64
"""How many words of a question are searched, starting with those that occur in the fewest texts."""
_ROLES: Final = frozenset(("user", "model"))
"""Speakers whose names are ordinary words in a question, as in "Which model of car did I buy?"."""
_RELATED: Final = 0.2
"""How much a related word counts for a word of the question."""
_NEIGHBORS: Final = ((-2, 0.2), (-1, 0.4), (0, 1.0), (1, 0.6), (2, 0.3))
"""Offsets and weights with which the words of a row count for its neighbors in the conversation.

An offset of -1 is the turn before, and 1 is the turn after.

The turn after a question counts more than the turn before it, because it is usually the reply.
"""


@final
@dataclass(frozen=True, slots=True)
class TextScores:
    """The scores of all rows for one question.

    Attributes:
        text: how much of the question the row and its neighbors contain, from 0 to 1.
        speaker: 1 for rows whose speaker the question names.
        date: the fraction of the date in the question that matches the row.
        time: 1 for rows that contain a time expression, if the question asks for a time.
        conversation: how well the conversation of the row matches, from 0 to 1.
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
        documents: the documents to index.
        tokens: how often each stem occurs in each document, by document id.
    """

    def __init__(self, documents: Iterable[Document], tokens: Mapping[int, Counter[str]]) -> None:
        ordered = sorted(documents, key=_transcript_position)
        self.documents: Sequence[Document] = ordered
        self.row_of = {document.id: row for row, document in enumerate(ordered)}
        self.row_of_fact = {document.fact: row for row, document in enumerate(ordered) if document.fact is not None}
        self._size = len(ordered)
        groups: dict[object, int] = {}
        self._group: Rows = np.array(
            [groups.setdefault(_transcript_position(d)[0], len(groups)) for d in ordered], dtype=np.intp
        )
        self._groups = len(groups)
        counts = [tokens[document.id] for document in ordered]
        self._postings = _build_postings(counts)
        self._dates = _rows_by(date_stems(d.said_at) if d.said_at else () for d in ordered)
        self._speakers = _rows_by(() if d.speaker in _ROLES else split_words(d.speaker or "") for d in ordered)
        self._tells_time: Numbers = np.array([float(not TIME_STEMS.isdisjoint(count)) for count in counts])
        self._asks: Numbers = np.array([float(d.text.rstrip().endswith(_QUESTION_MARKS)) for d in ordered])
        lengths: Numbers = np.array([float(count.total()) for count in counts])
        every: Rows = np.arange(self._size, dtype=np.intp)
        self._length_norm = _length_norm(self._add_to_neighbors(every, lengths))
        self._group_norm = _length_norm(self._sum_per_group(self._group, lengths))

    def score(self, question: str, vocabulary: RelatedWords | None = None) -> TextScores:
        """Score all rows for a question.

        Args:
            question: the text to search for.
            vocabulary: finds words that are related to those of the question.
        """
        dates = date_words(question)
        weights = {word: self._weigh_word(word, dates) for word in set(stems(question, question=True))}
        related = vocabulary.find(_words_by_stem(question, weights)) if vocabulary else {}
        text, conversation = np.zeros(self._size), np.zeros(self._groups)
        for word in self._rarest_words(weights, related):
            rows, counts = self._postings.get(word, _NOTHING)
            frequency = self._add_to_neighbors(*self._add_related(rows, counts, weights[word], related.get(word, ())))
            if word in dates and word in self._dates:
                frequency[self._dates[word]] += 1
            text += weights[word] * _saturate_frequency(frequency, self._length_norm)
            in_groups = self._sum_per_group(self._group[rows], counts)
            found = int(np.count_nonzero(in_groups))
            conversation += _word_weight(found, self._groups) * _saturate_frequency(in_groups, self._group_norm)
        best_possible = sum(sorted(weights.values()))
        return TextScores(
            text / best_possible if best_possible else text,
            self._score_matching_rows(self._speakers, set(split_words(question)), scale=False),
            self._score_matching_rows(self._dates, dates, scale=True),
            self._tells_time if asks_for_time(question) else np.zeros(self._size),
            (conversation / (conversation.max(initial=0) or 1.0))[self._group],
            self._asks,
        )

    def _weigh_word(self, word: str, dates: Collection[str]) -> float:
        rows = self._postings[word][0] if word in self._postings else self._dates.get(word, ()) if word in dates else ()
        return _word_weight(len(rows), self._size + _OTHER_TEXTS)

    def _add_related(
        self, rows: Rows, counts: Numbers, weight: float, related: Sequence[tuple[str, float]]
    ) -> tuple[Rows, Numbers]:
        """Return the rows with a word or a related word, and its counts.

        A related word counts in proportion to its similarity. A related word that is more frequent than the word itself
        counts less.
        """
        if not related:
            return rows, counts
        every_row, every_count = [rows], [counts]
        for word, similarity in related:
            found, numbers = self._postings[word]
            every_row.append(found)
            every_count.append(
                numbers * (_RELATED * similarity * min(_word_weight(len(found), self._size) / weight, 1))
            )
        total = np.bincount(np.concatenate(every_row), np.concatenate(every_count), self._size).astype(np.float64)
        merged = np.flatnonzero(total)
        return merged, total[merged]

    def _rarest_words(self, weights: Mapping[str, float], related: Mapping[str, object]) -> list[str]:
        """Return the words that occur in the index or have related words, rarest first, up to `_MAX_WORDS`."""
        known = [word for word in weights if word in self._postings or word in self._dates or related.get(word)]
        # The order must not depend on the process, because sums in another order have other last digits.
        return sorted(known, key=lambda word: (-weights[word], word))[:_MAX_WORDS]

    def without_speakers(self, question: str) -> str:
        """Return a question without the capitalized names of speakers, or unchanged if nothing else is left."""

        def keep(word: re.Match[str]) -> str:
            name = split_words(word[0])
            return "" if name[:1] and name[0] in self._speakers and not word[0].islower() else word[0]

        remaining = " ".join(_NAME.sub(keep, question).split())
        return remaining if split_words(remaining) else question

    def average_neighbors(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Average the vector of each row with the vectors of its neighbors, and return the results with length 1."""
        every: Rows = np.arange(self._size, dtype=np.intp)
        mean: npt.NDArray[np.float32] = np.zeros_like(vectors)
        for offset, weight in _NEIGHBORS:
            source, target = self._neighbor_rows(every, offset)
            mean[target] += np.float32(weight) * vectors[source]
        return normalize_rows(mean)

    def _add_to_neighbors(self, rows: Rows, counts: Numbers) -> Numbers:
        """Return counts for all rows: each count is added to its row and, weighted, to the neighbors of the row."""
        total = np.zeros(self._size)
        for offset, weight in _NEIGHBORS:
            source, target = self._neighbor_rows(rows, offset)
            # Both `rows` and `source`, which is a part of it, are in ascending order.
            total[target] += weight * (counts if len(source) == len(rows) else counts[np.isin(rows, source)])
        return total

    def _sum_per_group(self, groups: Rows, counts: Numbers) -> Numbers:
        return np.bincount(groups, counts, self._groups).astype(np.float64)

    def _neighbor_rows(self, rows: Rows, offset: int) -> tuple[Rows, Rows]:
        """Return the rows that have a neighbor at `offset` in the same conversation, and these neighbors."""
        target = rows + offset
        inside = (target >= 0) & (target < self._size)
        source, target = rows[inside], target[inside]
        same = self._group[source] == self._group[target]
        return source[same], target[same]

    def _score_matching_rows(self, index: Mapping[str, Rows], words: Collection[str], *, scale: bool) -> Numbers:
        """Return a score for each row: 1 if the row has any of the words or, with `scale`, the fraction that it has."""
        scores = np.zeros(self._size)
        known = [index[word] for word in words if word in index]
        for rows in known:
            scores[rows] += 1
        return scores / len(known) if scale and known else np.minimum(scores, 1)


def normalize_rows(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Scale vectors to length 1, and return them. A vector of zeros is unchanged."""
    lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
    normalized: npt.NDArray[np.float32] = vectors / np.maximum(lengths, np.float32(1e-9))
    return normalized


_NOTHING: Final[tuple[Rows, Numbers]] = (np.zeros(0, dtype=np.intp), np.zeros(0))


def _words_by_stem(question: str, asked: Collection[str]) -> dict[str, str]:
    return {found: word for word in split_words(question) if (found := stem(word)) in asked}


def _transcript_position(document: Document) -> tuple[str, int, int]:
    conversation = (
        f"fact {document.id}" if document.conversation is None else f"{document.kind} {document.conversation}"
    )
    return conversation, document.position or 0, document.id


def _build_postings(counts: Sequence[Counter[str]]) -> dict[str, tuple[Rows, Numbers]]:
    rows: defaultdict[str, list[int]] = defaultdict(list)
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for row, count in enumerate(counts):
        for word, number in count.items():
            rows[word].append(row)
            numbers[word].append(number)
    return {word: (np.array(rows[word], dtype=np.intp), np.array(numbers[word], dtype=float)) for word in rows}


def _rows_by(keys: Iterable[Iterable[str]]) -> dict[str, Rows]:
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, names in enumerate(keys):
        for name in set(names):
            rows[name].append(row)
    return {name: np.array(found, dtype=np.intp) for name, found in rows.items()}


def _length_norm(lengths: Numbers) -> Numbers:
    mean = float(lengths.mean()) if len(lengths) else 1.0
    return _SATURATION * (1 - _LENGTH + _LENGTH * lengths / (mean or 1.0))


def _saturate_frequency(frequency: Numbers, norm: Numbers) -> Numbers:
    return frequency / (frequency + norm)


def _word_weight(found: int, size: int) -> float:
    """Return the weight of a word that occurs in `found` of `size` texts. Rare words weigh more."""
    return log1p((size - found + 0.5) / (found + 0.5))
