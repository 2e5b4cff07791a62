"""Weights of the score by which `Recall` sorts documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the properties that score a document, relative to the best match of words and vectors.

    Each attribute is the weight of the property described below.

    Attributes:
        speaker: the question names the speaker.
        date: the question names the day, the month or the year.
        time: the question asks for a time, and the document contains a time expression.
        conversation: the match of the whole conversation that contains the document.
        question: the document ends with a question mark. The weight is negative, because the vectors of two questions
            are similar. It applies only if vectors are compared.
        embedding: the similarity of the vectors, in standard deviations above the mean of all documents. The vector of
            the question, without names of speakers, is compared with the weighted mean of the vectors of the document
            and its neighbors.
        graph: the fact is about an entity that the question names, or about a related entity.
        confidence: the confidence in a fact. The weight applies only to documents that pass the gate.
    """

    speaker: float = 0.5
    date: float = 0.6
    time: float = 0.3
    conversation: float = 0.35
    question: float = -0.12
    embedding: float = 0.2
    graph: float = 0.3
    confidence: float = 0.1
