"""Relevance scores of documents for a question, and the minimum score of a match."""

from __future__ import annotations

from math import log
from typing import Final

import numpy as np

from chat_memory._postings import Numbers
from chat_memory._text_index import TextScores
from chat_memory.weights import Weights

_LEAST_DEVIATION: Final = 0.02
"""Lower bound for the standard deviation of similarities. It suppresses rounding errors between equal texts."""
_GATE: Final = 0.24
_GATE_WITH_VECTORS: Final = 0.37
"""The gates for 550 documents or more, calibrated with `benchmarks/locomo.py`."""
_GATE_OF_FEW: Final = 0.15
"""The gate for up to 5 documents. It and the growth were calibrated with observations of LoCoMo as facts."""
_FEW: Final = 5
_MANY: Final = 550


def score_components(
    weights: Weights, scores: TextScores, near: Numbers, similarity: Numbers | None
) -> dict[str, Numbers]:
    """Return each component of the score of all documents. Their sum is the relevance.

    The other components are scaled by the best match of words and vectors. Therefore, they order documents that match
    about equally well, but cannot replace a match.

    Args:
        weights: the weights of the components.
        scores: match of the words, speakers and dates.
        near: proximity of each document to the entities of the question, from 0 to 1.
        similarity: the cosine between the vectors of the question and of each document, if vectors are compared. It is
            NaN for a document without a vector.
    """
    components = {"text": scores.text}
    if similarity is not None:
        # If no word of the question is known, only the vectors are compared.
        scale = weights.embedding * float(scores.text.max() or max(np.nanmax(similarity), 0.0))
        components["embedding"] = scale * _standardize(similarity)
    best = float(np.sum(list(components.values()), axis=0).max())
    components |= {
        "speaker": weights.speaker * best * scores.speaker,
        "date": weights.date * best * scores.date,
        "time": weights.time * best * scores.time,
        "conversation": weights.conversation * best * scores.conversation,
        "graph": weights.graph * best * near,
    }
    if similarity is not None:
        components["question"] = weights.question * best * scores.question
    return components


def _standardize(similarity: Numbers) -> Numbers:
    """Convert similarities to standard deviations above the mean.

    A document without a vector has an average similarity.
    """
    deviations = (similarity - np.nanmean(similarity)) / max(float(np.nanstd(similarity)), _LEAST_DEVIATION)
    return np.nan_to_num(deviations)


def default_gate(documents: int, *, vectors: bool) -> float:
    """Return the minimum score of a match, which grows with the number of documents.

    Args:
        documents: the number of documents that may be found.
        vectors: whether vectors are compared.
    """
    highest = _GATE_WITH_VECTORS if vectors else _GATE
    share = log(max(documents, _FEW) / _FEW) / log(_MANY / _FEW)
    return _GATE_OF_FEW + (highest - _GATE_OF_FEW) * min(share, 1.0) ** 3
