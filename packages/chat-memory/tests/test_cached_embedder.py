"""A cache of vectors by the hash of the text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from chat_core import ChatOptions, EmbeddingsProvider
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory.cached_embedder import CachedEmbedder

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


def test_the_cache_file_contains_no_text(tmp_path: Path) -> None:
    async def embed() -> None:
        async with CachedEmbedder(Lengths(), tmp_path / "vectors.db") as cached:
            await cached.embed(["a secret of Ana"], NO_OPTIONS)

    anyio.run(embed)
    assert list(tmp_path.iterdir())
    assert not any(b"secret" in file.read_bytes() for file in tmp_path.iterdir())
