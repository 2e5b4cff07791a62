from __future__ import annotations

import dataclasses

import pytest
from chat_core.errors import UnsupportedOptionError
from chat_core.options import ChatOptions
from chat_gemini.options import Dialect, EmbeddingDialect, EmbeddingOptions, GeminiOptions, SafetySetting


def test_options_belong_to_their_provider() -> None:
    options = ChatOptions(extras=(GeminiOptions(top_k=3),))
    assert options.extra(GeminiOptions, "gemini") == GeminiOptions(top_k=3)  # noqa: S610 - not Django
    with pytest.raises(UnsupportedOptionError, match="GeminiOptions"):
        options.extra(EmbeddingOptions, "gemini")  # noqa: S610 - not Django


def test_options_are_values() -> None:
    one = GeminiOptions(safety=(SafetySetting("HARM_CATEGORY_HARASSMENT", "BLOCK_NONE"),), labels={"a": "b"})
    assert one == dataclasses.replace(one)
    assert hash(one) == hash(dataclasses.replace(one))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(one, "top_k", 3)  # noqa: B010 - what the types forbid
    assert EmbeddingDialect(model="m").method == "batchEmbedContents"


def test_a_severity_is_a_method_of_its_own() -> None:
    assert SafetySetting("X", "OFF").to_dict() == {"category": "X", "threshold": "OFF"}
    assert SafetySetting("X", "OFF", "SEVERITY").to_dict() == {
        "category": "X",
        "threshold": "OFF",
        "method": "SEVERITY",
    }


def test_what_an_encoding_depends_on_is_in_its_key() -> None:
    base = Dialect(model="m")
    assert base.turn_key == Dialect(model="other", thinking="budget").turn_key
    for unlike in (Dialect(model="m", provider="p"), Dialect(model="m", stand_in="s")):
        assert unlike.turn_key != base.turn_key
    assert Dialect(model="m", files_in_results=False).turn_key != base.turn_key
    assert Dialect(model="m", schemas="openapi").tools_key != base.tools_key
