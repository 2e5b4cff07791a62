"""A cache of vectors by the hash of the text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from chat_core import ChatOptions, EmbeddingsProvider
from chat_core.errors import InvalidResponseError, UsageError
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory import Passage, SqliteMemory
from chat_memory.cached_embedder import CachedEmbedder
from chat_memory.recall import Recall

NO_OPTIONS = ChatOptions()


class Lengths:
    """Embeds each text as its length, and remembers what it was asked for."""

    def __init__(self, model: str = "one") -> None:
        self.metadata = ProviderMeta("test", model)
        self.asked: list[list[str]] = []

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        del options
        self.asked.append(list(texts))
        return EmbeddingsResponse(tuple((float(len(text)), 0.1) for text in texts))


@pytest.mark.anyio
async def test_a_text_is_embedded_once_across_processes(tmp_path: Path) -> None:
    embedder = Lengths()
    async with CachedEmbedder(embedder, tmp_path / "vectors.db") as cached:
        assert isinstance(cached, EmbeddingsProvider)
        first = await cached.embed(["tea", "rain", "tea"], NO_OPTIONS)
    async with CachedEmbedder(embedder, tmp_path / "vectors.db") as cached:
        second = await cached.embed(["rain", "snow!", "tea"], NO_OPTIONS)
        assert await cached.embed(["rain", "snow!", "tea"], NO_OPTIONS) == second
    assert embedder.asked == [["tea", "rain"], ["snow!"]]
    assert [vector[0] for vector in first.vectors] == [3, 4, 3]
    assert [vector[0] for vector in second.vectors] == [4, 5, 3]
    assert first.vectors[1] == second.vectors[0]


@pytest.mark.anyio
async def test_cached_vectors_of_another_model_are_not_used(tmp_path: Path) -> None:
    for embedder in (Lengths("one"), Lengths("two")):
        async with CachedEmbedder(embedder, tmp_path / "vectors.db") as cached:
            await cached.embed(["tea"], NO_OPTIONS)
        assert embedder.asked == [["tea"]]


@pytest.mark.anyio
async def test_vectors_of_another_length_are_not_used(tmp_path: Path) -> None:
    for dimensions in (256, 512):
        embedder = Lengths()
        embedder.metadata = ProviderMeta("test", "one", dimensions=dimensions)
        async with CachedEmbedder(embedder, tmp_path / "vectors.db") as cached:
            await cached.embed(["tea"], NO_OPTIONS)
        assert embedder.asked == [["tea"]]


@pytest.mark.anyio
async def test_texts_are_embedded_without_a_cache_that_cannot_be_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with CachedEmbedder(Lengths(), tmp_path / "missing" / "vectors.db") as cached:
        assert [vector[0] for vector in (await cached.embed(["tea"], NO_OPTIONS)).vectors] == [3]
    assert "the cache of vectors cannot be read" in caplog.text
    assert "vectors are not cached" in caplog.text


@pytest.mark.anyio
async def test_a_missing_vector_and_a_lone_surrogate_are_handled_by_the_cache(tmp_path: Path) -> None:
    class Silent(Lengths):
        async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
            del texts, options
            return EmbeddingsResponse(())

    async with CachedEmbedder(Silent(), tmp_path / "vectors.db") as cached:
        with pytest.raises(InvalidResponseError, match="returned 0 vectors for 1 texts"):
            await cached.embed(["tea"], NO_OPTIONS)
    async with CachedEmbedder(Lengths(), tmp_path / "vectors.db") as cached:
        assert len((await cached.embed(["tea \ud800"], NO_OPTIONS)).vectors) == 1


def test_the_cache_file_contains_no_text(tmp_path: Path) -> None:
    async def embed() -> None:
        async with CachedEmbedder(Lengths(), tmp_path / "vectors.db") as cached:
            await cached.embed(["a secret of Ana"], NO_OPTIONS)

    anyio.run(embed)
    assert list(tmp_path.iterdir())
    assert not any(b"secret" in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.anyio
async def test_questions_are_not_cached(tmp_path: Path) -> None:
    embedder = Lengths()
    async with (
        SqliteMemory(tmp_path / "memory.db") as memory,
        CachedEmbedder(embedder, tmp_path / "vectors.db") as cached,
    ):
        await memory.scope("ana").add_passages([Passage("tea", "a")])
        recall = Recall(memory, cached)
        for _ in range(2):
            await recall.search("ana", "Which drink?")
    assert embedder.asked == [["tea"], ["Which drink?"], ["Which drink?"]]


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_cache_without_a_file_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="requires the path of a file"):
        CachedEmbedder(Lengths(), path)
