"""Embeddings: order, batches, usage, retries and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from chat_core import (
    ChatBuilder,
    ChatError,
    ChatOptions,
    EmbeddingsChat,
    EmbeddingsProvider,
    EmbeddingsResponse,
    InvalidResponseError,
    Messages,
    NetworkError,
    ProviderError,
    ProviderMeta,
    Retry,
    Usage,
    UsageError,
)
from chat_core.errors import (
    AuthenticationError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    ServerError,
)

pytestmark = pytest.mark.anyio


class Embedder:
    """Provider that returns the length of each text, or a scripted failure. `asked` contains the batches."""

    def __init__(self, *script: Exception | EmbeddingsResponse | None, limit: int = 2048) -> None:
        self._script = list(script)
        self._limit = limit
        self.asked: list[list[str]] = []
        self.options: list[ChatOptions] = []

    @property
    def metadata(self) -> ProviderMeta:
        return ProviderMeta("lengths", "length-1", max_embedding_batch=self._limit)

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        self.asked.append(list(texts))
        self.options.append(options)
        said = self._script.pop(0) if self._script else None
        if isinstance(said, Exception):
            raise said
        vectors = tuple([(float(len(text)),) for text in texts])
        return said or EmbeddingsResponse(vectors, Usage(input_tokens=len(texts)), "length-1")


def chat_of(model: EmbeddingsProvider, times: int = 2) -> EmbeddingsChat:
    return ChatBuilder().with_model(model).with_embeddings().with_retry(Retry(times=times, base=0.0)).build()


def failure(tokens: int) -> NetworkError:
    return NetworkError("reset by peer", usage=Usage(input_tokens=tokens))


async def test_embed_returns_one_vector_per_text_in_order() -> None:
    model = Embedder()
    answer = await chat_of(model).embed(["a", "bbb", "cc"])
    assert answer == EmbeddingsResponse(((1.0,), (3.0,), (2.0,)), Usage(input_tokens=3), "length-1")
    assert model.asked == [["a", "bbb", "cc"]]


async def test_embed_sends_batches_within_the_limit_of_the_provider() -> None:
    model = Embedder(limit=2)
    answer = await chat_of(model).embed(("a", "bb", "ccc", "dddd", "eeeee"))
    assert model.asked == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]
    assert [vector[0] for vector in answer.vectors] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert answer.usage == Usage(input_tokens=5)


async def test_embed_sends_no_request_for_an_empty_list() -> None:
    model = Embedder()
    assert await chat_of(model).embed([]) == EmbeddingsResponse(())
    assert model.asked == []


async def test_embed_retries_only_the_batch_that_failed() -> None:
    model = Embedder(None, failure(7), limit=1)
    answer = await chat_of(model).embed(["a", "bb"])
    assert model.asked == [["a"], ["bb"], ["bb"]]
    assert answer.usage == Usage(input_tokens=9)


async def test_the_error_of_embed_reports_the_usage_of_all_requests() -> None:
    model = Embedder(None, failure(7), failure(7), limit=1)
    with pytest.raises(NetworkError) as caught:
        await chat_of(model, times=1).embed(["a", "bb"])
    assert caught.value.usage == Usage(input_tokens=15)
    assert caught.value.attempts == 2


async def test_embed_does_not_retry_a_permanent_error() -> None:
    model = Embedder(ProviderError("no such model", status=404))
    with pytest.raises(ProviderError):
        await chat_of(model).embed(["a"])
    assert len(model.asked) == 1


async def test_embed_refuses_a_response_with_too_few_vectors() -> None:
    model = Embedder(EmbeddingsResponse(((1.0,),), Usage(input_tokens=2)))
    with pytest.raises(InvalidResponseError, match="the provider returned 1 vectors for 2 texts") as caught:
        await chat_of(model).embed(["a", "bb"])
    assert caught.value.usage == Usage(input_tokens=2)
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ("one text", r"a list of strings, not one string: embed\(\['one text'\]\)"),
        (b"bytes", "a list of strings, not b'bytes'"),
        (5, "a list of strings, not 5"),
        (["a", 5], "a list of strings, but item 1 is 5"),
        (Messages.from_user("a"), "a list of strings, not Messages"),
    ],
)
async def test_embed_refuses_arguments_that_are_no_list_of_texts(texts: object, sentence: str) -> None:
    model = Embedder()
    with pytest.raises(UsageError, match=sentence):
        await chat_of(model).embed(cast("Any", texts))
    assert model.asked == []


async def test_options_of_an_embed_call_take_precedence_over_options_of_the_chat() -> None:
    model = Embedder()
    builder = ChatBuilder().with_options(ChatOptions(timeout=5, seed=1)).with_model(model).with_embeddings()
    chat = builder.with_options(ChatOptions(seed=2)).build()
    await chat.embed(["a"])
    await chat.embed(["a"], options=ChatOptions(seed=3))
    assert model.options == [ChatOptions(timeout=5, seed=2), ChatOptions(timeout=5, seed=3)]
    with pytest.raises(UsageError, match="needs ChatOptions, not "):
        await chat.embed(["a"], options=cast("Any", {"seed": 3}))


# --- Several requests, and texts that fail alone ----------------------------------------------------------------------


class Limited(Embedder):
    """Provider that refuses the text `bad`. `most` is the highest number of concurrent requests."""

    def __init__(self, *, characters: int | None = None, concurrency: int = 1, limit: int = 2048) -> None:
        super().__init__(limit=limit)
        self._characters = characters
        self._concurrency = concurrency
        self.active = self.most = self.cancelled = 0
        self.error: ChatError = InvalidRequestError("bad text", status=400)

    @property
    def metadata(self) -> ProviderMeta:
        return replace(
            super().metadata, max_embedding_characters=self._characters, embedding_concurrency=self._concurrency
        )

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            for _ in texts[0]:  # longer texts take longer
                await anyio.lowlevel.checkpoint()
            response = await super().embed(texts, options)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        finally:
            self.active -= 1
        if "bad" in texts:
            raise self.error
        return response


async def test_embed_keeps_requests_within_the_limit_of_characters() -> None:
    model = Limited(characters=4, limit=3)
    answer = await chat_of(model).embed(["aa", "bb", "c", "ddddddd", "", "e", "f", "g"])
    assert model.asked == [["aa", "bb"], ["c"], ["ddddddd"], ["", "e", "f"], ["g"]]
    assert [vector[0] for vector in answer.vectors] == [2, 2, 1, 7, 0, 1, 1, 1]
    assert (await chat_of(model).embed([])).vectors == ()


@pytest.mark.parametrize("concurrency", [1, 3, 9])
async def test_embed_sends_requests_concurrently_and_keeps_the_order(concurrency: int) -> None:
    model = Limited(concurrency=concurrency, limit=1)
    texts = ["a" * length for length in (40, 1, 30, 2, 20)]
    answer = await chat_of(model).embed(texts)
    assert [vector[0] for vector in answer.vectors] == [40, 1, 30, 2, 20]
    assert (model.most, answer.usage) == (min(concurrency, 5), Usage(input_tokens=5))


async def test_a_failed_request_cancels_the_concurrent_ones() -> None:
    model = Limited(concurrency=3, limit=1)
    with pytest.raises(InvalidRequestError, match="bad text"):
        await chat_of(model).embed(["a" * 99, "bad", "b" * 99, "c"])
    assert (model.cancelled, ["c"] in model.asked) == (2, False)


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_texts_that_fail_alone_are_reported_by_their_index(limit: int) -> None:
    model = Limited(limit=limit)
    texts = ["a", "bb", "bad", "cccc", "bad", "e"]
    answer = await chat_of(model).embed(texts, allow_failures=True)
    assert answer.vectors == ((1.0,), (2.0,), (), (4.0,), (), (1.0,))
    assert answer.failures == {2: model.error, 4: model.error}
    assert not answer.is_complete
    with pytest.raises(InvalidRequestError):
        await chat_of(model).embed(texts)
    assert (await chat_of(model).embed(["a"], allow_failures=True)).is_complete


async def test_token_counts_and_truncated_texts_keep_the_index_of_their_text() -> None:
    class Truncating:
        metadata = ProviderMeta("truncating", max_embedding_batch=2)

        async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
            del options
            sizes = [len(text) for text in texts]
            return EmbeddingsResponse(
                tuple((1.0,) for _ in texts),
                token_counts={index: size for index, size in enumerate(sizes) if size != 2},
                truncated=frozenset(index for index, size in enumerate(sizes) if size > 3),
            )

    response = await chat_of(Truncating()).embed(["a", "bb", "cccc", "ddd", "eeeee"])
    assert (response.token_counts, response.truncated) == ({0: 1, 2: 4, 3: 3, 4: 5}, frozenset({2, 4}))


async def test_an_outage_fails_the_texts_of_its_request() -> None:
    model = Limited(limit=2)
    model.error = ServerError("down", status=503)
    answer = await chat_of(model, times=1).embed(["a", "bad", "b"], allow_failures=True)
    assert (answer.vectors, [*answer.failures]) == (((), (), (1.0,)), [0, 1])
    assert model.asked == [["a", "bad"], ["a", "bad"], ["b"]]


@pytest.mark.parametrize("kind", [AuthenticationError, NotFoundError, PermissionDeniedError, QuotaExceededError])
async def test_errors_that_concern_every_text_are_raised(kind: type[ProviderError]) -> None:
    model = Limited(limit=1)
    model.error = kind("no", status=400)
    with pytest.raises(kind):
        await chat_of(model).embed(["a", "bad"], allow_failures=True)
