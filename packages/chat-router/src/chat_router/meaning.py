"""A strategy that compares the meaning of a message with the descriptions of the models."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Final, final

from chat_core import ChatError, ChatOptions, EmbeddingsProvider, UsageError

from chat_router.candidate import Candidate
from chat_router.request import RouteRequest

_LOG = logging.getLogger("chat_router")
_MAX_QUESTIONS: Final = 256
"""Number of message vectors that are cached. Each step of a run needs the vector of the same message."""


@final
class ByMeaning:
    """Strategy that prefers the model whose description is closest in meaning to the last user message.

    A model is described by `ProviderMeta.description`. Descriptions are embedded once. If the embedder fails, the
    models keep their order. The tokens of the embedder are not part of the usage of the run.

    Args:
        embedder: provider that embeds the descriptions and the messages.
    """

    def __init__(self, embedder: EmbeddingsProvider) -> None:
        self._embedder = embedder
        self._vectors: dict[str, tuple[float, ...]] = {}
        self._questions: dict[str, tuple[float, ...]] = {}

    async def __call__(self, request: RouteRequest, /) -> Sequence[Candidate]:
        """Return the models ordered by the similarity of their descriptions to the message.

        Raises:
            UsageError: a model has no description.
        """
        descriptions = {item.name: item.meta.description for item in request.candidates}
        if missing := [name for name, text in descriptions.items() if not text.strip()]:
            msg = f"ByMeaning() needs a description of each model, but these models have none: {', '.join(missing)}"
            raise UsageError(msg)
        question = request.question
        if not question.strip():
            return request.candidates
        try:
            vector = await self._embed(question, list(descriptions.values()))
        except ChatError as error:
            _LOG.warning("the models keep their order, because the message could not be embedded: %s", error)
            return request.candidates
        return sorted(
            request.candidates, key=lambda item: -_cosine_similarity(vector, self._vectors[item.meta.description])
        )

    async def _embed(self, question: str, descriptions: Sequence[str]) -> tuple[float, ...]:
        """Return the vector of a message, and embed the descriptions that have no vector yet."""
        known = self._questions.get(question)
        new = [text for text in dict.fromkeys(descriptions) if text not in self._vectors]
        texts = [*new, *([] if known is not None else [question])]
        if texts:
            response = await self._embedder.embed(texts, ChatOptions())
            self._vectors.update(zip(new, response.vectors, strict=False))
            if known is None:
                known = response.vectors[-1]
                while len(self._questions) >= _MAX_QUESTIONS:
                    del self._questions[next(iter(self._questions))]
                self._questions[question] = known
        assert known is not None  # noqa: S101 - found or embedded
        return known


def _cosine_similarity(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of two vectors, or 0 if one of them has the length 0."""
    product = sum([left * right for left, right in zip(one, other, strict=True)])
    lengths = math.hypot(*one) * math.hypot(*other)
    return product / lengths if lengths and math.isfinite(product) else 0.0
