"""An index in memory that ranks the documents of a scope by words.

Each document is a row of numpy arrays, and the rows of a conversation are consecutive.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from chat_memory._words import TIME_STEMS, asks_for_time, date_stems, split_words, stems
from chat_memory.passages import Document

Numbers: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.intp]

_SATURATION: Final = 1.2
"""`k1` of BM25: how soon more of the same word counts for nothing (Robertson and Zaragoza 2009, section 3.4)."""
_LENGTH: Final = 0.75
"""`b` of BM25: how much long texts are penalized."""
_OTHER_TEXTS: Final = 100
"""Imagined texts without the words of a question, so that no word is taken for frequent in a scope of a few texts."""
_QUESTION_MARKS: Final = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
_NAME: Final = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}]s\b)?")
_NEIGHBORS: Final = ((-2, 0.2), (-1, 0.4), (0, 1.0), (1, 0.6), (2, 0.3))
"""The weights of the words of a row in the rows after (negative) and before it in the conversation.

The turn after a question counts more than the turn before it, because it is usually the reply.
"""


@final
@dataclass(frozen=True, slots=True)
class TextScores:
    """The scores of all rows for one question.

    Attributes:
        text: how much of the question the row and its neighbors contain, from 0 to 1.
        speaker: 1 for rows whose speaker the question names.
        date: the part of the date in the question that matches the row.
        time: 1 for rows with words of time, if the question asks for a time.
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
        documents: the documents.
        tokens: the stems of each document and their numbers.
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
        self._speakers = _rows_by(split_words(d.speaker or "") for d in ordered)
        self._tells_time: Numbers = np.array([float(not TIME_STEMS.isdisjoint(count)) for count in counts])
        self._asks: Numbers = np.array([float(d.text.rstrip().endswith(_QUESTION_MARKS)) for d in ordered])
        lengths: Numbers = np.array([float(count.total()) for count in counts])
        every: Rows = np.arange(self._size, dtype=np.intp)
        self._length_norm = _length_norm(self._add_to_neighbors(every, lengths))
        self._group_norm = _length_norm(self._sum_per_group(self._group, lengths))

    def score(self, question: str) -> TextScores:
        """Score all rows for a question."""
        asked = sorted(set(stems(question, question=True)))  # sums in another order have other last digits
        text, conversation = np.zeros(self._size), np.zeros(self._groups)
        possible = 0.0
        for word in asked:
            rows, counts = self._postings.get(word, _NOTHING)
            dated = self._dates.get(word)
            frequency = self._add_to_neighbors(rows, counts)
            if dated is not None:
                frequency[dated] += 1
            weight = _word_weight(len(rows) or (0 if dated is None else len(dated)), self._size + _OTHER_TEXTS)
            possible += weight
            text += weight * _saturate_frequency(frequency, self._length_norm)
            in_groups = self._sum_per_group(self._group[rows], counts)
            found = int(np.count_nonzero(in_groups))
            conversation += _word_weight(found, self._groups) * _saturate_frequency(in_groups, self._group_norm)
        return TextScores(
            text / possible if possible else text,
            self._score_matching_rows(self._speakers, set(split_words(question)), scale=False),
            self._score_matching_rows(
                self._dates, {word for word in asked if word in TIME_STEMS or word.isdigit()}, scale=True
            ),
            self._tells_time if asks_for_time(question) else np.zeros(self._size),
            (conversation / (conversation.max(initial=0) or 1.0))[self._group],
            self._asks,
        )

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

    def _score_matching_rows(self, index: Mapping[str, Rows], words: set[str], *, scale: bool) -> Numbers:
        """Return a score for each row: 1 if it has any of the words or, if `scale`, the share of its words."""
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
    return float(np.log1p((size - found + 0.5) / (found + 0.5)))
