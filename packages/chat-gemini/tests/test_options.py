from __future__ import annotations

import dataclasses

import pytest
from chat_core.errors import UnsupportedOptionError
from chat_core.options import ChatOptions
from chat_gemini.options import Dialect, EmbeddingDialect, EmbeddingOptions, GeminiOptions, SafetySetting


def test_gemini_options_are_rejected_if_the_provider_expects_another_class() -> None:
    options = ChatOptions(extras=(GeminiOptions(top_k=3),))
    assert options.extra(GeminiOptions, "gemini") == GeminiOptions(top_k=3)
    with pytest.raises(UnsupportedOptionError, match="GeminiOptions"):
        options.extra(EmbeddingOptions, "gemini")


def test_options_are_immutable_hashable_and_comparable() -> None:
    one = GeminiOptions(safety=(SafetySetting("HARM_CATEGORY_HARASSMENT", "BLOCK_NONE"),), labels={"a": "b"})
    assert one == dataclasses.replace(one)
    assert hash(one) == hash(dataclasses.replace(one))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(one, "top_k", 3)  # noqa: B010 - what the types forbid
    assert EmbeddingDialect(model="m").method == "batchEmbedContents"


def test_a_safety_setting_may_have_a_method() -> None:
    assert SafetySetting("X", "OFF").to_dict() == {"category": "X", "threshold": "OFF"}
    assert SafetySetting("X", "OFF", "SEVERITY").to_dict() == {
        "category": "X",
        "threshold": "OFF",
        "method": "SEVERITY",
    }


def test_cache_keys_depend_on_the_settings_that_change_an_encoding() -> None:
    base = Dialect(model="m")
    assert base.turn_key == Dialect(model="other", thinking="budget").turn_key
    for unlike in (Dialect(model="m", provider="p"), Dialect(model="m", stand_in="s")):
        assert unlike.turn_key != base.turn_key
    assert Dialect(model="m", files_in_results=False).turn_key != base.turn_key
    assert Dialect(model="m", schemas="openapi").tools_key != base.tools_key
