"""The function `embed()`, which embeds texts in batches of the size that the provider accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Protocol, cast, final, overload

from chat_core.engine.model_call import usage_of_failure
from chat_core.engine.plan import Settings
from chat_core.engine.retry import RetryBudget
from chat_core.errors import ChatError, InvalidResponseError, UsageError
from chat_core.options import ChatOptions
from chat_core.provider import Attempt, AttemptAware, EmbeddingsProvider, EmbeddingsResponse
from chat_core.usage import Usage


class Texts(Protocol):
    """Protocol for a sequence of texts, such as a list or a tuple, that excludes `str`."""

    def __contains__(self, value: object, /) -> bool: ...  # excludes `str`, which accepts no object here
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> str: ...
    @overload
    def __getitem__(self, index: slice, /) -> Sequence[str]: ...


async def embed(
    provider: EmbeddingsProvider, texts: Texts, options: ChatOptions, settings: Settings
) -> EmbeddingsResponse:
    """Return one embedding vector per text, in the order of the texts. Sends no request if there are no texts.

    Args:
        provider: provider that computes the embeddings.
        texts: texts to embed.
        options: options of each request.
        settings: settings of the chat, with its retry policy and observers.

    Raises:
        UsageError: `texts` is not a sequence of strings.
        ChatError: a batch failed permanently; `usage` includes the successful batches.
    """
    _require_texts(texts)
    size = max(1, provider.metadata.max_embedding_batch)
    batches = _Batches(provider, options, settings)
    vectors: list[tuple[float, ...]] = []
    model: str | None = None
    for start in range(0, len(texts), size):
        chunk = texts[start : start + size]
        part = await (batches.embed_observed(chunk) if settings.observers else batches.embed(chunk))
        vectors.extend(part.vectors)
        model = model or part.model
    return EmbeddingsResponse(tuple(vectors), batches.usage, model)


@final
class _Batches:
    """The batched requests of one `embed()` call, with their total usage and shared retry budget."""

    __slots__ = ("_observers", "_options", "_provider", "_retry_budget", "usage")

    def __init__(self, provider: EmbeddingsProvider, options: ChatOptions, settings: Settings) -> None:
        self._provider = provider
        self._options = options
        self._observers = settings.observers
        self._retry_budget = RetryBudget(settings.retry)
        self.usage = Usage()

    async def embed_observed(self, texts: Sequence[str]) -> EmbeddingsResponse:
        """Send one batch with retries, report the request to the observers, and return the response."""
        from chat_core.engine.observation import observe_embedding  # noqa: PLC0415 - most chats have no observers
        from chat_core.observer import CallRecord  # noqa: PLC0415

        record = CallRecord("embeddings", self._provider.metadata, streamed=False, options=self._options)

        async def send_batch() -> EmbeddingsResponse:
            before = self.usage
            try:
                response = await self.embed(texts)
            finally:
                record.usage = _subtract_usage(before, self.usage)
            record.model = response.model
            return response

        return await observe_embedding(self._observers, record, self._retry_budget, send_batch)

    async def embed(self, texts: Sequence[str]) -> EmbeddingsResponse:
        """Send one batch with retries, and return the response."""
        attempt = 1
        failed: list[ChatError] = []
        provider = self._provider
        while True:
            try:
                response = await provider.embed(texts, self._options)
                _require_one_vector_per_text(response, texts)
            except ChatError as error:
                self.usage += usage_of_failure(error)
                error.usage = self.usage
                await self._retry_budget.wait(error, attempt, delivered=False)
                attempt += 1
                failed.append(error)
                if isinstance(provider, AttemptAware):
                    provider = cast("EmbeddingsProvider", provider.with_attempt(Attempt(attempt, tuple(failed))))
            else:
                self.usage += response.usage
                return response


def _subtract_usage(before: Usage, now: Usage) -> Usage:
    return Usage(*[after - earlier for earlier, after in zip(astuple(before), astuple(now), strict=True)])


def _require_one_vector_per_text(response: EmbeddingsResponse, texts: Sequence[str]) -> None:
    if len(response.vectors) != len(texts):
        msg = (
            f"the provider returned {len(response.vectors)} vectors for {len(texts)} texts; it must return one per text"
        )
        error = InvalidResponseError(msg, path="vectors")
        error.usage = response.usage
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
            msg = f"embed() needs a list of texts, but item {index} is {text!r}"
            raise UsageError(msg)
