"""An inverted index, which lists for each word the rows that contain it and their word counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.intp]

NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)
NO_COUNTS: Final[Numbers] = np.zeros(0)


@final
class Postings:
    """An inverted index in flat arrays, which are ordered by word and row.

    Args:
        added: rows in ascending order, each with the number of occurrences of each word.
        earlier: an index to update. It is unchanged.
        moved: new number of each row of `earlier`, in ascending order, or -1 for a removed row.

    Attributes:
        numbers: the number of each word. Words that no row contains any more keep their number.
        words: for each posting, the number of its word.
        rows: for each posting, its row.
        counts: for each posting, the number of occurrences of the word in the row.
    """

    words: Rows
    rows: Rows
    counts: Numbers

    def __init__(
        self,
        added: Iterable[tuple[int, Mapping[str, float]]] = (),
        earlier: Postings | None = None,
        moved: Rows = NO_ROWS,
    ) -> None:
        self.numbers: dict[str, int] = {} if earlier is None else dict(earlier.numbers)
        self.words, self.rows, self.counts = NO_ROWS, NO_ROWS, NO_COUNTS
        if earlier is not None:
            rows = moved[earlier.rows]
            kept = rows >= 0
            self.words, self.rows, self.counts = earlier.words[kept], rows[kept], earlier.counts[kept]
        self._insert_postings(
            [(self._number_of_word(word), row, count) for row, each in added for word, count in each.items()]
        )
        self._starts: list[int] = np.searchsorted(self.words, np.arange(len(self.numbers) + 1)).tolist()

    def _insert_postings(self, added: Sequence[tuple[int, int, float]]) -> None:
        """Insert postings, each with the number of a word, a row and a count."""
        words: Rows = np.array([word for word, _, _ in added], dtype=np.intp)
        rows: Rows = np.array([row for _, row, _ in added], dtype=np.intp)
        counts: Numbers = np.array([count for _, _, count in added], dtype=np.float64)
        order = np.lexsort((rows, words))
        words, rows, counts = words[order], rows[order], counts[order]
        size = 1 + max(int(rows.max(initial=0)), int(self.rows.max(initial=0)))
        places = np.searchsorted(self.words * size + self.rows, words * size + rows)
        self.words = np.insert(self.words, places, words)
        self.rows = np.insert(self.rows, places, rows)
        self.counts = np.insert(self.counts, places, counts)

    def __contains__(self, word: str) -> bool:
        return len(self.find(word)[0]) > 0

    def find(self, word: str) -> tuple[Rows, Numbers]:
        """Return the rows that contain a word, in ascending order, and the number of occurrences in each row."""
        number = self.numbers.get(word)
        if number is None:
            return NO_ROWS, NO_COUNTS
        place = slice(self._starts[number], self._starts[number + 1])
        return self.rows[place], self.counts[place]

    def _number_of_word(self, word: str) -> int:
        return self.numbers.setdefault(word, len(self.numbers))
