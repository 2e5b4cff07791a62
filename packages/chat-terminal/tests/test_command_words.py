"""Misspelled commands are errors with a suggestion."""

from __future__ import annotations

from typing import Any

import click
import pytest
from chat_terminal.command_words import _KEY_COMMANDS, require_no_key, require_question  # pyright: ignore[reportPrivateUsage] - compared with the group
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
        pytest.param(["compare xai-grok-2-vision-1212 and pplx-70b-chat-2024-online"], id="models-with-a-prefix"),
        pytest.param(["what is hf_transfer_of_large_files in github_pat_expiration_hours?"], id="names-with-a-prefix"),
        pytest.param(["what are AKIA, ASIATIC and ghp_?"], id="prefixes"),
        pytest.param(["what is sk-learn-RandomForestClassifier, and hf_HubDownloadManager?"], id="names-of-classes"),
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


@pytest.mark.parametrize(
    ("prefix", "body"),
    [
        ("AIza", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"),
        ("AKIA", "QWERTYUIOPASDFGH"),
        ("AQ.", "Ab8RN6K_Vi-9GO8bcC8k5YyNXHRpz6t99fUHBp3H5zaLPB3X0Q"),
        ("ASIA", "QWERTYUIOPASDF23"),
        ("csk-", "2lxe0xmaw6qzta3ritjd1qfkdgcrggvlbweqcbkgt8ksfzo0"),
        ("fw_", "QWx7p2Lk9Zt4Rb1Nc6Vd8Ys3"),
        ("ghp_", "iK2ZWeqhFWCEPyYngFb51yBMWXaSCrUZoL8g"),
        ("github_pat_", "5ubbbPIa84yRnBUbHoWC8F_JowoRoWD8s7bA16J7PglOU3shVv5UTG79BG16QmtsL4F28GzL2cEpVZzAQl"),
        ("glpat-", "bzDZST6-aXqA-2h9Uz0T"),
        ("gsk_", "tVkAKqiaJcLnKDkXTNGcymwgnKRBLmFgQyWGdyb3FY9aBcDeFgHi"),
        ("hf_", "tVkAKqiaJcLnKDkXTNGcymwgnKRBLmFgQy"),
        ("npm_", "OKHPf2eY2nP1lG3BbLx52FTZso5mMF355pBC"),
        ("nvapi-", "a1-b2_C3-d4E5f-6G7h8I9j0K-1l2M3n4O5p6Q7r8S9t0U1v2W3x4Y5z6A7b8C9d0"),
        ("pplx-", "0123456789abcdef0123456789abcdef0123456789abcdef"),
        ("pypi-", "AgEIcHlwaS5vcmcUy9jG0zbW-jZ2fT6ayMapMOK00N5Mq4"),
        ("r8_", "OKHPf2eY2nP1lG3BbLx52FTZso5mMF355pBC1"),
        ("sk-", "0123456789abcdef0123456789abcdef"),
        ("sk-ant-", "api03-a1B2-c3D4e5-F6g7H8-i9J0k1L2-m3N4o5P6q7-R8s9T0u1-AA"),
        ("sk-or-v1-", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
        ("sk_live_", "qRoKi6hlXA8UNdZgIRrTgnqe"),
        ("tgp_v1_", "a1B2-c3D4e5-F6g7H8-i9J0k1L2-m3N4o5P6q7R8s9T"),
        ("xai-", "iK2ZWeqhFWCEPyYngFb51yBMWXaSCrUZoL8gOKHPf2eY2nP1lG3BbLx52FTZso5mMF355pBC12345678"),
        ("xoxb-", "1234567890-1234567890123-K2qYpSKVvx8ZPxztDMvIGkbj"),
        ("ya29.", "9ntXzvG1K_BR-nbSIh4MmDJIF0sqGy0ht0IJ9NI"),
    ],
)
def test_key_that_begins_like_the_keys_of_a_vendor_is_not_sent(prefix: str, body: str) -> None:
    for text in (
        f"Why is {prefix}{body} refused?",
        f'{{"token": "{prefix}{body}"}}',
        f"https://{prefix}{body}@example.com",
    ):
        with pytest.raises(click.UsageError, match="not sent") as caught:
            require_no_key([text])
        assert body not in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sk-" + "a" * 1_000_000, id="sk-without-digit"),
        pytest.param("sk-" + "a-" * 500_000, id="sk-with-hyphens"),
        pytest.param("hf_" + "_" * 1_000_000, id="underscores"),
        pytest.param("AIza" + "-" * 1_000_000, id="hyphens"),
        pytest.param("the key is " + "a" * 1_000_000 + "/", id="after-key"),
        pytest.param("the key is " + "1-" * 500_000 + "/", id="after-key-with-hyphens"),
    ],
)
def test_long_text_is_read_once_and_to_its_end(text: str) -> None:
    # With one more reading for each character, this would take hours.
    require_no_key([text])

    with pytest.raises(click.UsageError, match="not sent"):
        require_no_key([f"{text} sk-proj-abcdefgh0123456789"])


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
        "keys lost in Paris yesterday",
        "templates listed in that book",
        "show 20241231 events of history",
    ],
)
def test_sentence_is_a_question(chat: Any, user_dir: Any, question: str) -> None:
    assert chat(*question.split(), *user_dir.talker).out == "The Loire.\n"


@pytest.mark.parametrize("question", ["show me", "key openai facts", "keys"])
def test_question_in_quotes_is_a_question(chat: Any, user_dir: Any, question: str) -> None:
    assert chat("ask", question, *user_dir.talker).out == "The Loire.\n"


@pytest.mark.parametrize(
    "words",
    [
        "show me rivers",
        "sessions serach Bo",
        "sessions serach Bo Ann",
        "templates edit a b",
        "embed a b c d",
        "forget a b",
        "forget 1a2b3c4d 5e6f7a8b 9c0d1e2f",
    ],
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
    [
        "modles --json",
        "resum abc123",
        "forgot abc",
        "forgot 1a2b3c4d 5e6f7a8b 9c0d1e2f",
        "sho abc",
        "modles list",
        "seshions list",
        "seshions serach Bo Ann",
        "template list",
        "help",
    ],
)
def test_misspelled_command_with_arguments_is_not_sent(chat: Any, words: str) -> None:
    ended = chat(*words.split())

    assert ended.code == 2
    assert "did you mean" in ended.err
