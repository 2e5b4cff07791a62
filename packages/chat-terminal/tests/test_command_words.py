"""Misspelled commands are errors with a suggestion."""

from __future__ import annotations

from typing import Any

import click
import pytest
from chat_terminal.command_words import _KEY_COMMANDS, require_question  # pyright: ignore[reportPrivateUsage] - compared with the group
from chat_terminal.commands import QuestionGroup
from chat_terminal.vendor_commands import keys

COMMANDS = {
    "models": click.Command("models"),
    "keys": click.Group("keys", {"set": click.Command("set"), "list": click.Command("list")}),
    "sessions": click.Group("sessions", {"search": click.Command("search")}),
    "show": click.Command("show", params=[click.Argument(["session"])]),
}


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        pytest.param(["modles"], "models", id="lone-word"),
        pytest.param(["Model"], "models", id="capital"),
        pytest.param(["seshions", "search", "Bo"], "sessions", id="with-subcommand"),
        pytest.param(["modles", "--json"], "models", id="with-option"),
        pytest.param(["modles", "list"], "models", id="with-subcommand-of-another-group"),
        pytest.param(["sho", "abc"], "show", id="with-argument"),
        pytest.param(["sho", "abc", "--json"], "show", id="with-argument-and-option"),
        pytest.param(["help"], "--help", id="help"),
        pytest.param(["version"], "--version", id="version"),
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
        pytest.param(["how", "high"], id="similar-to-a-command-with-argument"),
        pytest.param(["sho", "me", "rivers"], id="more-words-than-arguments"),
        pytest.param(["help", "me"], id="help-me"),
        pytest.param(["key", "facts", "about", "rivers"], id="keys-of-something"),
        pytest.param(["the", "key", "is", "lost"], id="second-word"),
        pytest.param(["what is the key difference from text-embedding-3-large?"], id="name-of-a-model"),
        pytest.param(["key features of claude-sonnet-4-20250514"], id="name-with-a-date"),
        pytest.param(["is the primary key customer_id_2024 unique?"], id="name-of-a-column"),
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


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("key openai sk-SECRET", id="similar"),
        pytest.param("Key openai sk-SECRET", id="capital"),
        pytest.param("set key openai sk-SECRET", id="second-word"),
        pytest.param("set keys sk-SECRET", id="without-vendor"),
        pytest.param("openai key sk-SECRET", id="vendor-first"),
        pytest.param("kyes set openai sk-SECRET", id="misspelled"),
        pytest.param("key anthropic sk-SECRET-0123456789", id="long-key"),
        pytest.param("keys set openai sk-SECRET", id="argument"),
        pytest.param("keys set openai sk-SECRET --json", id="argument-and-option"),
        pytest.param("keys openai sk-SECRET", id="without-subcommand"),
        pytest.param("keys sk-SECRET", id="key-only"),
        pytest.param("keys set sk-SECRET", id="key-as-vendor"),
        pytest.param("--json key openai sk-SECRET", id="option-first"),
        pytest.param("--max-tokens 5 keys set openai sk-SECRET", id="option-with-value-first"),
        pytest.param("ask key openai sk-SECRET", id="ask"),
        pytest.param("key openai --json sk-SECRET", id="option-between"),
        pytest.param("keys set opnai my SECRET", id="misspelled-vendor"),
        pytest.param("embed --model openai:e key openai sk-SECRET", id="embed"),
    ],
)
def test_key_on_the_command_line_is_neither_sent_nor_repeated(chat: Any, words: str) -> None:
    ended = chat(*words.split())

    assert ended.code == 2
    assert "a key is never an argument" in ended.err or "there is no such vendor" in ended.err
    assert "SECRET" not in ended.out + ended.err
    assert f"chat ask {words.split(maxsplit=1)[0]}" not in ended.err
    assert chat("sessions").out == ""


@pytest.mark.parametrize(
    "question",
    [
        "what is sk-proj-SECRETabcdefgh0123456789?",
        "is (gsk_SECRETabcdefgh0123456789) valid",
        "my key is 0123456789abcdefSECRET",
        "key mistral 0123456789abcdefSECRET",
        "is this API key valid: 0123456789abcdefSECRET?",
        "explain MISTRAL_API_KEY='0123456789abcdefSECRET'",
        "say api-key=0123456789abcdefSECRET",
    ],
)
@pytest.mark.parametrize("command", [(), ("ask",), ("--json",), ("embed", "--model", "openai:e")])
def test_key_in_a_question_is_not_sent(chat: Any, command: tuple[str, ...], question: str) -> None:
    for words in ([question], question.split()):
        ended = chat(*command, *words)
        assert ended.code == 2
        assert "not sent" in ended.err or "a key is never an argument" in ended.err
        assert "SECRET" not in ended.out + ended.err


@pytest.mark.parametrize("option", [("--system",), ("--template", "any", "-p", "name")])
def test_key_in_an_option_is_not_sent(chat: Any, option: tuple[str, ...]) -> None:
    ended = chat("Hello?", *option, "use sk-proj-SECRETabcdefgh0123456789")

    assert ended.code == 2
    assert "not sent" in ended.err
    assert "SECRET" not in ended.err


@pytest.mark.parametrize(
    "question",
    [
        "key facts about Mistral",
        "key points of https://example.com/2024/report",
        "what changed in 633a4f7e0a2b4c6d8e0f1a2b3c4d5e6f70819203?",
        "skyscrapers-of-the-world-2024 in one sentence",
        "explain the key idea of commit 633a4f7e0a2b4c6d8e0f1a2b3c4d5e6f70819203",
        "list key people of France",
        "show me the rivers",
        "models of sailing boats",
        "keys to a happy life",
        "sessions of the council",
        "forget about it and go",
    ],
)
def test_sentence_is_a_question(chat: Any, user_dir: Any, question: str) -> None:
    assert chat(*question.split(), *user_dir.talker).out == "The Loire.\n"


@pytest.mark.parametrize("question", ["show me", "key openai facts", "keys"])
def test_question_in_quotes_is_a_question(chat: Any, user_dir: Any, question: str) -> None:
    assert chat("ask", question, *user_dir.talker).out == "The Loire.\n"


@pytest.mark.parametrize(
    "words", ["show me rivers", "sessions serach Bo", "templates edit a b", "embed a b c d", "forget a b"]
)
def test_command_with_wrong_arguments_is_no_question(chat: Any, words: str) -> None:
    assert chat(*words.split()).code == 2
    assert chat("sessions").out == ""


def test_key_commands_are_those_of_the_group() -> None:
    assert set(keys.commands) == _KEY_COMMANDS


@pytest.mark.parametrize("words", [("show", "nope"), ("keys", "remove", "claude"), ("forget", "nope")])
def test_error_of_a_complete_command_has_no_hint_about_questions(chat: Any, words: tuple[str, ...]) -> None:
    ended = chat(*words)

    assert ended.code == 2
    assert "chat ask" not in ended.err


def test_misspelled_group_has_one_hint(chat: Any) -> None:
    assert chat("seshions", "search", "Bo").err.count("chat ask") == 1


@pytest.mark.parametrize(
    "words",
    ["modles --json", "resum abc123", "forgot abc", "sho abc", "modles list", "seshions list", "template list", "help"],
)
def test_misspelled_command_with_arguments_is_not_sent(chat: Any, words: str) -> None:
    ended = chat(*words.split())

    assert ended.code == 2
    assert "did you mean" in ended.err
