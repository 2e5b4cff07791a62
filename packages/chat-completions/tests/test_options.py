from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest
from chat_completions import CompletionsOptions, Dialect
from chat_core.options import ChatOptions, ProviderOptions

PLAIN = Dialect(model="m")


def test_completions_options_are_found_by_class() -> None:
    options: ProviderOptions = CompletionsOptions(user="u")
    assert options.provider == "chat-completions"
    assert ChatOptions(extras=(options,)).extra(CompletionsOptions, "p") is options


def test_options_and_dialects_are_immutable_and_comparable() -> None:
    assert CompletionsOptions(metadata={"a": "b"}) == CompletionsOptions(metadata={"a": "b"})
    assert hash(CompletionsOptions(metadata={"a": "b"})) == hash(CompletionsOptions(metadata={"a": "b"}))
    assert Dialect(model="m") == Dialect(model="m")
    with pytest.raises(FrozenInstanceError):
        Dialect(model="m").model = "n"  # type: ignore[misc]  # wrong on purpose


@pytest.mark.parametrize(
    "dialect",
    [
        Dialect(model="m", provider="q"),
        Dialect(model="m", system_role="developer"),
        Dialect(model="m", reasoning_replay="never"),
        Dialect(model="m", reasoning_field="reasoning"),
        Dialect(model="m", short_call_ids=True),
        Dialect(model="m", null_content=False),
        Dialect(model="m", reasoning_required=True),
        Dialect(model="m", files=()),
        Dialect(model="m", files=("image",)),
    ],
)
def test_dialect_fields_that_change_message_encoding_change_the_turn_key(dialect: Dialect) -> None:
    assert dialect.turn_key != PLAIN.turn_key


def test_other_dialect_fields_do_not_change_the_turn_key() -> None:
    other = Dialect(
        model="n",
        max_tokens_field="max_tokens",
        seed_field="random_seed",
        reasoning_style="object",
        strict_output=False,
        strict_tools=True,
        mixed_strict_tools=False,
        strict_rewrite=False,
        stream_usage=False,
        structured="json_object",
        structured_with_tools=False,
        tools=False,
        top_k=True,
        refuses=("seed",),
        dimensions=3,
        dimensions_field="output_dimension",
        encoding_format="base64",
        join_messages=True,
        assistant_after_tools=True,
        system_first=True,
        finish_reasons=(("eos", "stop"),),
    )
    assert other.turn_key == PLAIN.turn_key
    settable = {item.name for item in fields(Dialect) if item.init}
    same = {name for name in settable if getattr(other, name) == getattr(PLAIN, name)}
    assert same == {
        "provider", "system_role", "reasoning_replay", "reasoning_field", "reasoning_required", "short_call_ids",
        "null_content", "files", "url_files",
    }  # fmt: skip


@pytest.mark.parametrize(
    "dialect",
    [
        Dialect(model="m", strict_tools=True),
        Dialect(model="m", mixed_strict_tools=False),
        Dialect(model="m", strict_rewrite=False),
    ],
)
def test_dialect_fields_that_change_tool_encoding_change_the_tools_key(dialect: Dialect) -> None:
    assert dialect.tools_key != PLAIN.tools_key
