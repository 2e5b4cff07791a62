"""Misspelled commands are errors with a suggestion."""

from __future__ import annotations

from typing import Any

import click
import pytest
from chat_terminal.command_words import require_question
from chat_terminal.commands import QuestionGroup

COMMANDS = {"models": click.Command("models"), "keys": click.Group("keys", {"set": click.Command("set")})}


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        pytest.param(["modles"], "models", id="lone-word"),
        pytest.param(["Model"], "models", id="capital"),
        pytest.param(["kyes", "set", "openai"], "keys", id="with-subcommand"),
    ],
)
def test_misspelled_command_is_an_error_with_a_suggestion(words: list[str], suggestion: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        require_question(words, COMMANDS)

    assert f"there is no command {words[0]!r}: did you mean {suggestion!r}?" in caught.value.message
    assert f"chat ask {words[0]}" in caught.value.message


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], id="nothing"),
        pytest.param(["hello"], id="other-word"),
        pytest.param(["kyes", "are", "lost"], id="sentence"),
        pytest.param(["model", "a river"], id="two-words"),
        pytest.param(["--model", "models"], id="option"),
    ],
)
def test_question_is_accepted(words: list[str]) -> None:
    ask = click.Command("ask")
    group = QuestionGroup("chat", {**COMMANDS, "ask": ask})

    assert group.resolve_command(click.Context(group), words) == ("ask", ask, words)


def test_command_line_refuses_a_misspelled_command(chat: Any) -> None:
    ended = chat("sesions")

    assert (ended.code, ended.out) == (2, "")
    assert "did you mean 'sessions'?" in ended.err
