"""Embeddings with `embed()`, which splits texts into batches of the size that the provider accepts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, cast, final, overload

import anyio

from chat_core.engine.model_call import usage_of_failure
from chat_core.engine.plan import Settings
from chat_core.engine.retry import RetryBudget
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    InvalidRequestError,
    InvalidResponseError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    UsageError,
)
from chat_core.options import ChatOptions
from chat_core.provider import Attempt, AttemptAware, EmbeddingsProvider, EmbeddingsResponse, ProviderMeta
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.observer import CallRecord

_Send = Callable[[Sequence[str]], Awaitable[EmbeddingsResponse]]
_OF_EVERY_REQUEST = (AuthenticationError, NotFoundError, PermissionDeniedError, QuotaExceededError, UsageError)
"""Errors that do not depend on the texts of a request, such as a rejected API key."""
_OF_ONE_TEXT = (InvalidRequestError, InvalidResponseError)
"""Errors that a single text of a request may cause."""


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
    provider: EmbeddingsProvider,
    texts: Texts,
    options: ChatOptions,
    settings: Settings,
    *,
    allow_failures: bool = False,
) -> EmbeddingsResponse:
    """Return one embedding vector per text, in the order of the texts. Sends no request if there are no texts.

    Args:
        provider: provider that computes the embeddings.
        texts: texts to embed.
        options: settings of each request.
        settings: settings of the chat, with its retry policy and observers.
        allow_failures: whether to return errors of single texts in `failures` instead of raising the first error.

    Raises:
        UsageError: `texts` is not a sequence of strings.
        ChatError: a batch failed permanently; `usage` includes the successful batches.
    """
    _require_texts(texts)
    metadata = provider.metadata
    batches = _Batches(provider, options, settings)
    send: _Send = batches.embed_observed if settings.observers else batches.embed
    if allow_failures:
        send = _with_failures(send)
    parts = await _send_all(send, _split_texts(texts, metadata), metadata.embedding_concurrency)
    return _join_parts(parts, batches.usage)


def _split_texts(texts: Texts, metadata: ProviderMeta) -> list[Sequence[str]]:
    """Split the texts into batches that the provider accepts."""
    size, limit = max(1, metadata.max_embedding_batch), metadata.max_embedding_characters
    if limit is None:
        return [texts[start : start + size] for start in range(0, len(texts), size)]
    batches: list[Sequence[str]] = []
    start = characters = 0
    for index, text in enumerate(texts):
        if index - start == size or (index > start and characters + len(text) > limit):
            batches.append(texts[start:index])
            start, characters = index, 0
        characters += len(text)
    return [*batches, texts[start:]] if texts else batches


async def _send_all(send: _Send, batches: Sequence[Sequence[str]], concurrency: int) -> list[EmbeddingsResponse]:
    """Send batches, some of them at the same time, and return their responses in order. Raise the first error."""
    if concurrency <= 1 or len(batches) == 1:
        return [await send(batch) for batch in batches]
    found: dict[int, EmbeddingsResponse] = {}
    failed: list[Exception] = []
    remaining = iter(enumerate(batches))

    async def send_next() -> None:
        for index, batch in remaining:
            try:
                found[index] = await send(batch)
            except Exception as error:  # noqa: BLE001 - raised below, because the task group would wrap it
                failed.append(error)
                group.cancel_scope.cancel()
                return

    async with anyio.create_task_group() as group:
        for _ in range(min(concurrency, len(batches))):
            group.start_soon(send_next)
    if failed:
        raise failed[0]
    return [found[index] for index in range(len(batches))]


def _with_failures(send: _Send) -> _Send:
    """Return a function that sends a batch and returns the errors of its texts instead of raising them."""

    async def send_separately(texts: Sequence[str]) -> EmbeddingsResponse:
        try:
            return await send(texts)
        except _OF_EVERY_REQUEST:
            raise
        except ChatError as error:
            if len(texts) == 1 or not isinstance(error, _OF_ONE_TEXT):
                return EmbeddingsResponse(((),) * len(texts), failures=dict.fromkeys(range(len(texts)), error))
        middle = len(texts) // 2
        return _join_parts([await send_separately(texts[:middle]), await send_separately(texts[middle:])], Usage())

    return send_separately


def _join_parts(parts: Sequence[EmbeddingsResponse], usage: Usage) -> EmbeddingsResponse:
    """Join the responses of several batches into one response."""
    vectors: list[tuple[float, ...]] = []
    failures: dict[int, ChatError] = {}
    token_counts: dict[int, int] = {}
    truncated: set[int] = set()
    for part in parts:
        start = len(vectors)
        failures |= {start + index: error for index, error in part.failures.items()}
        token_counts |= {start + index: count for index, count in part.token_counts.items()}
        truncated |= {start + index for index in part.truncated}
        vectors += part.vectors
    model = next((part.model for part in parts if part.model), None)
    return EmbeddingsResponse(tuple(vectors), usage, model, failures, token_counts, frozenset(truncated))


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
        from chat_core.observer import CallRecord  # noqa: PLC0415 - as above

        record = CallRecord("embeddings", self._provider.metadata, streamed=False, options=self._options)

        async def send_batch() -> EmbeddingsResponse:
            response = await self.embed(texts, record)
            record.model = response.model
            return response

        return await observe_embedding(self._observers, record, send_batch)

    async def embed(self, texts: Sequence[str], record: CallRecord | None = None) -> EmbeddingsResponse:
        """Send one batch with retries, and return the response.

        Args:
            texts: the texts of the batch.
            record: record that receives the usage and the failed attempts.
        """
        failed: list[ChatError] = []
        provider = self._provider
        while True:
            try:
                response = await provider.embed(texts, self._options)
                _require_one_vector_per_text(response, texts)
            except ChatError as error:
                self._add_usage(usage_of_failure(error), record)
                error.usage = self.usage
                if record is not None:
                    record.failures.append(error)
                await self._retry_budget.wait(error, failed, delivered=False)
                if isinstance(self._provider, AttemptAware):
                    attempt = Attempt(len(failed) + 1, tuple(failed))
                    provider = cast("EmbeddingsProvider", self._provider.with_attempt(attempt))
            else:
                self._add_usage(response.usage, record)
                return response

    def _add_usage(self, usage: Usage, record: CallRecord | None) -> None:
        self.usage += usage
        if record is not None:
            record.usage += usage


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
        msg = f"embed() needs a list of strings, not one string: embed([{texts!r}])"
        raise UsageError(msg)
    if not isinstance(texts, Sequence) or isinstance(texts, (bytes, bytearray)):
        msg = f"embed() needs a list of strings, not {texts!r}"
        raise UsageError(msg)
    for index, text in enumerate(cast("Sequence[object]", texts)):
        if not isinstance(text, str):
            msg = f"embed() needs a list of strings, but item {index} is {text!r}"
            raise UsageError(msg)
