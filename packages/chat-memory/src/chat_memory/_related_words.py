"""Words of a scope that are similar in meaning to the words of a question, such as "film" to "movie"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from chat_memory.embedder import WordEmbedder  # circular: the embedder normalizes vectors as the index does

WordVectors: TypeAlias = npt.NDArray[np.float32]

_LEAST_SIMILARITY: Final = 0.4
"""Minimum cosine between the vectors of related words."""


@final
class RelatedWords:
    """The vocabulary of a scope, with a vector for each stem.

    Args:
        forms: for each stem, a word with that stem.
        embedder: object that computes the vectors.
        earlier: vocabulary whose vectors are reused. It is not modified.

    Attributes:
        stems: the stems, except those that are numbers.
        known: the same stems as a set.
        vectors: the vector of each stem.
    """

    def __init__(self, forms: Mapping[str, str], embedder: WordEmbedder, earlier: RelatedWords | None = None) -> None:
        self._embedder = embedder
        new = [stem for stem in sorted(forms) if not stem.isdigit() and not (earlier and stem in earlier.known)]
        self.stems: Sequence[str] = [*(earlier.stems if earlier else ()), *new]
        self.known: frozenset[str] = frozenset(self.stems)
        vectors = embedder.embed_words([forms[stem] for stem in new])
        self.vectors: WordVectors = np.concatenate((earlier.vectors, vectors)) if earlier else vectors

    def find(self, words: Mapping[str, str]) -> dict[str, list[tuple[str, float]]]:
        """Return the related stems of each stem of a question, with their similarities.

        Args:
            words: for each stem of the question, a word with that stem.
        """
        asked = [stem for stem in words if not stem.isdigit()]
        if not asked or not self.stems:
            return {}
        # `@` would start threads, which costs more than it saves for a few words.
        cosines = np.einsum("ij,kj->ik", self._embedder.embed_words([words[stem] for stem in asked]), self.vectors)
        return {stem: self._select_related(stem, row) for stem, row in zip(asked, cosines, strict=True)}

    def _select_related(self, stem: str, cosines: WordVectors) -> list[tuple[str, float]]:
        near = np.flatnonzero(cosines >= _LEAST_SIMILARITY)
        # Sorted, so that sums of scores do not depend on the order in which words were added.
        found = sorted((self.stems[row], float(cosines[row])) for row in near.tolist())
        return [item for item in found if item[0] != stem]
