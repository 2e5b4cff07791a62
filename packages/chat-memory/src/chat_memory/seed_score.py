"""A score that combines similarity with confidence, as the memory of arawn does. It is compared with `Recall`.

`Recall` does not use this score. Because the score depends mostly on confidence, every fact that a user stated exceeds
the threshold, relevant or not. `docs/guides/memory.md` contains the measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final, final

_MAX_NEIGHBORS: Final = 5


@final
@dataclass(frozen=True, slots=True)
class SeedScore:
    """The score of a text, from its similarity, confidence and neighbors, and a threshold for relevant texts.

    Attributes:
        threshold: minimum score of a match.
    """

    threshold: float = 0.6

    def score(self, cosine: float, confidence: float, neighbors: int = 0) -> float:
        """Return the blended score, from 0 to 1.

        Args:
            cosine: the cosine of the angle between the vectors of the question and of the text.
            confidence: the confidence in the text, from 0 to 1.
            neighbors: the number of entities near the text in the graph.
        """
        similarity = 1 / (1 + sqrt(max(2 - 2 * cosine, 0)))  # of the distance between vectors of length 1
        if not neighbors:
            return 0.6 * similarity + 0.4 * confidence
        return 0.4 * similarity + 0.3 * min(neighbors, _MAX_NEIGHBORS) / _MAX_NEIGHBORS + 0.3 * confidence

    def passes(self, cosine: float, confidence: float, neighbors: int = 0) -> bool:
        """Return whether the score is at least the threshold.

        Args:
            cosine: see `score()`.
            confidence: see `score()`.
            neighbors: see `score()`.
        """
        return self.score(cosine, confidence, neighbors) >= self.threshold
