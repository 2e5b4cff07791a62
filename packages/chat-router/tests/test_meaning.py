"""Routing by meaning."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from chat_core import Messages, NetworkError, UsageError
from chat_core.testing import ScriptedProvider
from chat_router import ByMeaning
from router_helpers import model, names, request

pytestmark = pytest.mark.anyio

SUBJECTS = ("code", "weather", "food")


def counting(texts: list[str]) -> ScriptedProvider:
    def vector(text: str) -> Sequence[float]:
        texts.append(text)
        return [float(text.count(subject)) for subject in SUBJECTS]

    return ScriptedProvider(vectors=vector)


MODELS = [model("coder", description="code"), model("cook", description="food"), model("sky", description="weather")]


async def test_the_model_whose_description_is_closest_comes_first() -> None:
    strategy = ByMeaning(counting([]))
    assert names(await strategy(request(*MODELS, text="weather, weather and a bit of food"))) == [
        "sky",
        "cook",
        "coder",
    ]
    assert names(await strategy(request(*MODELS, text="what is food"))) == ["cook", "coder", "sky"]


async def test_descriptions_and_messages_are_embedded_once() -> None:
    texts: list[str] = []
    strategy = ByMeaning(counting(texts))
    for _ in range(3):
        await strategy(request(*MODELS, text="food"))
    await strategy(request(*MODELS, text="code please"))
    assert texts == ["code", "food", "weather", "food", "code please"]


async def test_the_models_keep_their_order_if_the_embedder_fails() -> None:
    def broken(_text: str) -> Sequence[float]:
        raise NetworkError("down")

    strategy = ByMeaning(ScriptedProvider(vectors=broken))
    assert names(await strategy(request(*MODELS, text="weather"))) == ["coder", "cook", "sky"]
    assert names(await strategy(request(*MODELS, messages=Messages()))) == ["coder", "cook", "sky"]


async def test_a_vector_without_direction_is_similar_to_nothing() -> None:
    assert names(await ByMeaning(counting([]))(request(*MODELS, text="hello"))) == ["coder", "cook", "sky"]


async def test_a_model_without_a_description_is_refused() -> None:
    with pytest.raises(UsageError, match="have none: b/m"):
        await ByMeaning(counting([]))(request(MODELS[0], model("b")))
