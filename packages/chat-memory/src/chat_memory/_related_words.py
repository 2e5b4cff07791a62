"""Words of a scope that are similar in meaning to the words of a question, such as "film" to "movie"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
import numpy.typing as npt

WordVectors: TypeAlias = npt.NDArray[np.float32]

_LEAST_SIMILARITY: Final = 0.4
"""The least cosine between the vectors of related words."""


@runtime_checkable
class WordEmbedder(Protocol):
    """Protocol of an embedder that computes vectors of single words at almost no cost."""

    def embed_words(self, words: Sequence[str], /) -> WordVectors:
        """Return a vector of length 1, or of zeros, for each word."""
        ...


@final
class RelatedWords:
    """The vocabulary of a scope, with a vector for each stem.

    Args:
        forms: a word for each stem.
        embedder: computes the vectors.

    Attributes:
        stems: the stems of the vocabulary.
    """

    def __init__(self, forms: Mapping[str, str], embedder: WordEmbedder) -> None:
        self._embedder = embedder
        self._stems = [stem for stem in sorted(forms) if not stem.isdigit()]
        self.stems = frozenset(forms)
        self._vectors = embedder.embed_words([forms[stem] for stem in self._stems])

    def find(self, words: Mapping[str, str]) -> dict[str, list[tuple[str, float]]]:
        """Return the related stems of each stem of a question, with their similarities.

        Args:
            words: a word for each stem of the question.
        """
        asked = [stem for stem in words if not stem.isdigit()]
        if not asked or not self._stems:
            return {}
        # `@` would start threads, which costs more than it saves for a few words.
        cosines = np.einsum("ij,kj->ik", self._embedder.embed_words([words[stem] for stem in asked]), self._vectors)
        return {stem: self._select_related(stem, row) for stem, row in zip(asked, cosines, strict=True)}

    def _select_related(self, stem: str, cosines: WordVectors) -> list[tuple[str, float]]:
        near = np.flatnonzero(cosines >= _LEAST_SIMILARITY)
        found = [(self._stems[row], float(cosines[row])) for row in near.tolist()]
        return [item for item in found if item[0] != stem]
