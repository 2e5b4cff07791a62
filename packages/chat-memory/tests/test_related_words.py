"""Words of similar meaning are added to the words of a question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from chat_core import ChatOptions
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory import Passage, SqliteMemory
from chat_memory._related_words import RelatedWords
from chat_memory.embedder import LocalEmbedder, WordEmbedder
from chat_memory.recall import Recall

MEANINGS = {"violin": (1.0, 0.0), "instrument": (0.9, 0.4), "harp": (0.6, 0.8), "2023": (0.9, 0.4)}


class Words:
    """Places the words of `MEANINGS` in a plane, and all others at its center."""

    def embed_words(self, words: Sequence[str], /) -> npt.NDArray[np.float32]:
        return np.array([MEANINGS.get(word, (0.0, 0.0)) for word in words], dtype=np.float32)


class SameVector:
    """Embeds every text as the same vector."""

    metadata = ProviderMeta("same", "vector")

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        del options
        return EmbeddingsResponse(((1.0, 0.0),) * len(texts))


def related(*words: str) -> RelatedWords:
    return RelatedWords({word: word for word in words}, Words())


def test_words_of_similar_meaning_are_related() -> None:
    found = related("harp", "violin", "tea").find({"instrument": "instrument", "tea": "tea"})
    assert {word: round(similarity, 2) for word, similarity in found["instrument"]} == {"violin": 0.9, "harp": 0.86}
    assert found["tea"] == []


def test_a_word_is_not_related_to_itself_and_numbers_have_no_meaning() -> None:
    found = related("violin", "2023").find({"violin": "violin", "2023": "2023"})
    assert found == {"violin": []}
    assert related().find({"violin": "violin"}) == {}


@pytest.mark.anyio
async def test_a_search_finds_words_of_similar_meaning(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "memory.db") as memory:
        ana = memory.scope("ana")
        texts = ["I saw a film.", "The weather is cold today.", "We had a long meeting about taxes."]
        await ana.add_passages([Passage(text, str(place)) for place, text in enumerate(texts)])
        embedder = LocalEmbedder()
        assert isinstance(embedder, WordEmbedder)
        assert (await Recall(memory).search("ana", "movies")).matches == ()
        result = await Recall(memory, embedder, gate=0).search("ana", "movies")
        assert result.matches[0].document.text == texts[0]
        assert result.matches[0].reasons["text"] > 0


@pytest.mark.anyio
async def test_words_of_similar_meaning_are_found_without_an_embedder_of_texts(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "memory.db") as memory:
        await memory.scope("ana").add_passages([Passage("I saw a film.", "1"), Passage("It is cold.", "2")])
        result = await Recall(memory, words=LocalEmbedder(), gate=0).search("ana", "movies")
        assert [match.document.text for match in result.matches] == ["I saw a film."]
        assert set(result.matches[0].reasons) == {"text"}
        assert not result.degraded


@pytest.mark.anyio
async def test_an_embedder_of_texts_is_combined_with_another_embedder_of_words(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "memory.db") as memory:
        await memory.scope("ana").add_passages([Passage("I saw a film.", "1"), Passage("It is cold.", "2")])
        recall = Recall(memory, SameVector(), words=LocalEmbedder(), gate=0)
        result = await recall.search("ana", "movies")
        assert result.matches[0].document.text == "I saw a film."
        assert result.matches[0].reasons["text"] > 0


@pytest.mark.anyio
async def test_a_related_word_without_remaining_texts_finds_nothing(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "memory.db") as memory:
        ana = memory.scope("ana")
        await ana.add_passages([Passage("I saw a film.", "1"), Passage("The weather is cold.", "2")])
        recall = Recall(memory, LocalEmbedder(), gate=0)
        assert (await recall.search("ana", "movies")).matches[0].document.text == "I saw a film."
        await ana.add_passages([Passage("I ate.", "1")])
        assert all("text" not in match.reasons for match in (await recall.search("ana", "movies")).matches)


def test_a_vocabulary_is_extended() -> None:
    earlier = related("violin")
    extended = RelatedWords({"harp": "harp", "violin": "violin"}, Words(), earlier)
    assert [word for word, _ in extended.find({"instrument": "instrument"})["instrument"]] == ["harp", "violin"]
    assert [word for word, _ in earlier.find({"instrument": "instrument"})["instrument"]] == ["violin"]
