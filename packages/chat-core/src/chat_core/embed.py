"""Texts to vectors: cut into the batches that a provider takes, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast, final

from chat_core.engine.call import Patience, spent
from chat_core.errors import ChatError, InvalidResponse, UsageError
from chat_core.provider import EmbeddingsProvider, EmbeddingsResponse
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.engine.plan import Settings
    from chat_core.options import ChatOptions


async def embed(
    provider: EmbeddingsProvider, texts: Sequence[str], options: ChatOptions, settings: Settings
) -> EmbeddingsResponse:
    """One vector per text, in the order of the texts. Nothing is sent for no texts.

    Raises:
        UsageError: `texts` is not a list of strings.
        ChatError: a batch failed for good; `usage` is of everything that was paid for until then.
    """
    _require_texts(texts)
    size = max(1, provider.metadata.max_embedding_batch)
    batches = _Batches(provider, options, Patience(settings))
    vectors: list[tuple[float, ...]] = []
    model: str | None = None
    for start in range(0, len(texts), size):
        part = await batches.embed(texts[start : start + size])
        vectors.extend(part.vectors)
        model = model or part.model
    return EmbeddingsResponse(tuple(vectors), batches.usage, model)


@final
class _Batches:
    """The requests of one call: what they cost together, and how long they may still wait."""

    __slots__ = ("_options", "_patience", "_provider", "usage")

    def __init__(self, provider: EmbeddingsProvider, options: ChatOptions, patience: Patience) -> None:
        self._provider = provider
        self._options = options
        self._patience = patience
        self.usage = Usage()

    async def embed(self, texts: Sequence[str]) -> EmbeddingsResponse:
        attempt = 1
        while True:
            try:
                answer = await self._provider.embed(texts, self._options)
                _require_all(answer, texts)
            except ChatError as error:
                self.usage += spent(error)
                error.usage = self.usage
                await self._patience.wait(error, attempt, delivered=False)
                attempt += 1
            else:
                self.usage += answer.usage
                return answer


def _require_all(answer: EmbeddingsResponse, texts: Sequence[str]) -> None:
    if len(answer.vectors) != len(texts):
        msg = f"{len(texts)} texts were sent and {len(answer.vectors)} vectors came back: there must be one for each"
        error = InvalidResponse(msg, path="vectors")
        error.usage = answer.usage
        raise error


def _require_texts(texts: object) -> None:
    if isinstance(texts, str):
        msg = f"embed() needs a list of texts, not one text: embed([{texts!r}])"
        raise UsageError(msg)
    if not isinstance(texts, Sequence) or isinstance(texts, (bytes, bytearray)):
        msg = f"embed() needs a list of texts, not {texts!r}"
        raise UsageError(msg)
    for index, text in enumerate(cast("Sequence[object]", texts)):
        if not isinstance(text, str):
            msg = f"embed() needs a list of texts, and number {index} is {text!r}"
            raise UsageError(msg)
