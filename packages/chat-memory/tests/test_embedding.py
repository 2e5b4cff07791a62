"""Vectors of the texts of a scope, if the embedder fails for some texts or for all of them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

import pytest
from chat_core import ChatOptions
from chat_core.errors import InvalidResponseError, NetworkError, RateLimitedError, ServerError
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory import Passage, SqliteMemory
from chat_memory.cached_embedder import CachedEmbedder
from chat_memory.recall import Recall

pytestmark = pytest.mark.anyio


class Embedder:
    """Fails for requests with the word "broken", and for the requests with the numbers `down`."""

    metadata = ProviderMeta("test", "embedder")

    def __init__(self, error: type[ServerError | NetworkError | InvalidResponseError | RateLimitedError]) -> None:
        self.error = error
        self.down: Container[int] = ()
        self.texts: list[str] = []
        self.requests = 0

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        assert options == ChatOptions()
        self.requests += 1
        self.texts += texts
        if self.requests in self.down:
            raise self.error("it is down")
        if any("broken" in text for text in texts):
            raise self.error("it crashed")
        return EmbeddingsResponse(tuple((1.0, float(len(text))) for text in texts))


async def add_texts(memory: SqliteMemory, *texts: str) -> None:
    await memory.scope("ana").add_passages([Passage(text, "a", n) for n, text in enumerate(texts)])


@pytest.mark.parametrize("error", [ServerError, NetworkError, InvalidResponseError], ids=lambda error: error.__name__)
async def test_a_text_that_the_embedder_fails_for_does_not_block_the_others(
    memory: SqliteMemory,
    caplog: pytest.LogCaptureFixture,
    error: type[ServerError | NetworkError | InvalidResponseError],
) -> None:
    await add_texts(memory, *(f"tea {n}" for n in range(6)), "broken tea", "coffee")
    embedder = Embedder(error)
    recall = Recall(memory, embedder)
    assert await recall.embed("ana") == 8
    assert "only words find the document 7, because test/embedder has no vector for it: it crashed" in caplog.text
    assert caplog.text.count("only words") == 1
    sent = embedder.texts.count("broken tea")
    found = await recall.search("ana", "broken tea")
    assert ("broken tea" in [match.document.text for match in found.matches], found.degraded) == (True, True)
    assert await recall.embed("ana") == 0
    assert embedder.texts.count("broken tea") == sent + 1  # the question


async def test_an_outage_leads_to_a_single_other_request(memory: SqliteMemory) -> None:
    await add_texts(memory, *(f"tea {n}" for n in range(50)))
    embedder = Embedder(ServerError)
    embedder.down = range(99)
    with pytest.raises(ServerError, match="it is down"):
        await Recall(memory, embedder).embed("ana")
    assert embedder.requests == 2


async def test_an_outage_that_begins_between_requests_leaves_texts_without_a_vector(memory: SqliteMemory) -> None:
    await add_texts(memory, *(f"tea {n}" for n in range(64)))
    embedder = Embedder(ServerError)
    embedder.down = (1, *range(3, 99))
    with pytest.raises(ServerError, match="it is down"):
        await Recall(memory, embedder).embed("ana")
    assert embedder.requests == 9  # the batch, the check, six halves down to one text, and the check again
    assert await Recall(memory, Embedder(ServerError)).embed("ana") == 64


async def test_an_outage_is_detected_with_a_cached_embedder(memory: SqliteMemory, tmp_path: Path) -> None:
    await add_texts(memory, "tea")
    embedder = Embedder(ServerError)
    async with CachedEmbedder(embedder, tmp_path / "vectors.db") as cache:
        await cache.embed(["text"], ChatOptions())
        embedder.down = range(99)
        with pytest.raises(ServerError, match="it is down"):
            await Recall(memory, cache).embed("ana")
    assert embedder.requests == 3


async def test_a_text_whose_second_attempt_succeeds_has_a_vector(
    memory: SqliteMemory, caplog: pytest.LogCaptureFixture
) -> None:
    await add_texts(memory, "tea", "coffee")
    embedder = Embedder(ServerError)
    embedder.down = (1, 3)
    assert await Recall(memory, embedder).embed("ana") == 2
    assert "only words" not in caplog.text
    assert embedder.requests == 6  # the batch, the check, the first text, the check, its second attempt, the other text


async def test_a_rate_limit_does_not_lead_to_more_requests(memory: SqliteMemory) -> None:
    await add_texts(memory, "tea", "broken tea")
    embedder = Embedder(RateLimitedError)
    with pytest.raises(RateLimitedError):
        await Recall(memory, embedder).embed("ana")
    assert embedder.requests == 1
