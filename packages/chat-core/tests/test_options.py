from __future__ import annotations

import math
from dataclasses import dataclass, fields

import pytest
from chat_core.errors import UnsupportedOptionError, UsageError
from chat_core.options import ChatOptions, NamedTool, ProviderOptions


@dataclass(frozen=True)
class ClaudeOptions:
    top_k: int = 0
    provider: str = "claude"


@dataclass(frozen=True)
class OpenAIOptions:
    tier: str = ""
    provider: str = "openai"


def test_chat_options_are_all_unset_by_default() -> None:
    options = ChatOptions()
    assert {getattr(options, item.name) for item in fields(options)} == {None, ()}


def test_over_replaces_the_defaults_that_are_set_and_keeps_the_others() -> None:
    defaults = ChatOptions(temperature=0.5, max_tokens=100, stop=("END",), tool_choice=NamedTool("f"))
    mine = ChatOptions(temperature=0.0, parallel_tool_calls=False)
    assert mine.over(defaults) == ChatOptions(
        temperature=0.0, max_tokens=100, stop=("END",), tool_choice=NamedTool("f"), parallel_tool_calls=False
    )
    assert defaults.temperature == 0.5


def test_over_treats_zero_and_empty_values_as_set() -> None:
    over = ChatOptions(temperature=0.0, seed=0, stop=(), reasoning=0).over(
        ChatOptions(temperature=1.0, seed=7, stop=("a",), reasoning="high")
    )
    assert (over.temperature, over.seed, over.stop, over.reasoning) == (0.0, 0, (), 0)


def test_over_with_empty_options_returns_the_other_options() -> None:
    some = ChatOptions(seed=1, extras=(ClaudeOptions(1),))
    assert ChatOptions().over(some) == some
    assert some.over(ChatOptions()) == some


def test_over_replaces_an_extra_of_the_same_class_and_keeps_the_others() -> None:
    defaults = ChatOptions(extras=(ClaudeOptions(1), OpenAIOptions("flex")))
    over = ChatOptions(extras=(ClaudeOptions(2),)).over(defaults)
    assert over.extras == (OpenAIOptions("flex"), ClaudeOptions(2))


def test_extra_returns_the_options_of_the_given_provider() -> None:
    mine, none = ChatOptions(extras=(ClaudeOptions(3),)), ChatOptions()
    assert mine.extra(ClaudeOptions, "claude") == ClaudeOptions(3)
    assert none.extra(ClaudeOptions, "claude") is None


def test_extra_raises_if_there_are_options_of_another_provider() -> None:
    both = ChatOptions(extras=(ClaudeOptions(), OpenAIOptions()))
    with pytest.raises(UnsupportedOptionError, match="claude does not support OpenAIOptions, an option of openai"):
        both.extra(ClaudeOptions, "claude")


def test_refuse_raises_if_an_unsupported_option_is_set() -> None:
    options = ChatOptions(seed=0)
    options.refuse("claude", "temperature", "top_p")
    with pytest.raises(UnsupportedOptionError, match="claude does not support the option seed=0"):
        options.refuse("claude", "temperature", "seed")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stop": "END"}, r"stop=\('END',\)"),
        ({"max_tokens": 0}, "at least 1"),
        ({"timeout": 0}, "more than 0"),
        ({"timeout": -1.0}, "more than 0"),
    ],
)
def test_chat_options_raise_for_values_without_a_meaning(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ChatOptions(**wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - that is the test


def test_options_with_a_provider_attribute_are_provider_options() -> None:
    assert isinstance(ClaudeOptions(), ProviderOptions)
    assert not isinstance("claude", ProviderOptions)


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("temperature", "hot", "a finite number, such as 0.7, not 'hot'"),
        ("temperature", math.nan, "a finite number, such as 0.7, not nan"),
        ("temperature", True, "a finite number"),
        ("top_p", math.inf, "a finite number, such as 0.9, not inf"),
        ("top_k", 0, "a whole number that is at least 1, not 0"),
        ("top_k", 0.9, "a whole number that is at least 1, not 0.9"),
        ("max_tokens", 0, "a whole number that is at least 1, not 0"),
        ("max_tokens", 1.5, "a whole number that is at least 1, not 1.5"),
        ("stop", "END", r"a tuple of texts, such as stop=\('END',\), not 'END'"),
        ("stop", ["END"], "a tuple of texts"),
        ("stop", (1,), "a tuple of texts"),
        ("seed", "7", "a whole number, such as 7, not '7'"),
        ("tool_choice", "lookup", r"'auto', 'none', 'required' or NamedTool\('…'\), not 'lookup'"),
        ("parallel_tool_calls", 1, "True or False, not 1"),
        (
            "reasoning",
            "huge",
            "one of 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', or a whole number of tokens",
        ),
        ("reasoning", 0.5, "one of .* or a whole number of tokens, not 0.5"),
        ("timeout", 0, "in seconds and more than 0, such as 30.0, not 0"),
        ("timeout", math.nan, "in seconds and more than 0"),
        ("extras", ClaudeOptions(), "a tuple of provider options"),
        ("extras", (5,), "a tuple of provider options"),
    ],
)
def test_chat_options_raise_for_a_value_of_the_wrong_type_and_name_the_allowed_values(
    name: str, value: object, instead: str
) -> None:
    with pytest.raises(UsageError, match=f"{name} must be {instead}"):
        ChatOptions(**{name: value})  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
