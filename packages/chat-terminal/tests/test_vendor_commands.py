"""The commands about vendors: models, keys and embeddings."""

from __future__ import annotations

import json
from typing import Any

import pytest

SECRET = "sk-secret-123"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "GROQ_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)


def test_keys_are_set_listed_and_removed_and_never_printed(chat: Any) -> None:
    ended = [
        chat("keys", "set", "openai", piped=f"{SECRET}\n"),
        chat("keys", "list"),
        chat("models"),
        chat("models", "--json"),
        chat("keys", "remove", "openai"),
        chat("keys", "list"),
    ]

    assert [one.code for one in ended] == [0] * 6
    assert [ended[1].out, ended[5].out] == ["openai\n", ""]
    assert all(SECRET not in one.out + one.err for one in ended)


def test_key_path_is_printed(chat: Any, user_dir: Any) -> None:
    assert chat("keys", "path").out == f"{user_dir.folder / 'config' / 'keys.json'}\n"


@pytest.mark.parametrize(
    ("words", "piped", "message"),
    [
        pytest.param(("set", "opnai"), "sk", "there is no such vendor with a key", id="unknown-vendor"),
        pytest.param(("set", "local"), "sk", "there is no such vendor with a key", id="no-key-needed"),
        pytest.param(("set", "openai"), " \n", "nothing was stored", id="empty"),
        pytest.param(("set", "openai"), "a b\n", "nothing was stored", id="space"),
        pytest.param(("set", "openai"), "“sk”\n", "nothing was stored", id="curly-quotes"),
        pytest.param(("remove", "openai"), "", "there is no stored key of 'openai'", id="nothing-to-remove"),
    ],
)
def test_invalid_key_command_is_a_usage_error(chat: Any, words: tuple[str, ...], piped: str, message: str) -> None:
    ended = chat("keys", *words, piped=piped)

    assert ended.code == 2
    assert message in ended.err
    assert chat("keys", "list").out == ""


def test_models_shows_where_each_key_comes_from(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", SECRET)
    chat("keys", "set", "openai", piped=SECRET)
    rows = {row["vendor"]: row for row in map(json.loads, chat("models", "--json").out.splitlines())}

    assert (rows["openai"]["ready"], rows["openai"]["detail"]) == (True, "stored key")
    assert rows["groq"]["ready"]
    assert rows["local"]["ready"]
    assert not rows["claude"]["ready"]
    assert rows["claude"]["detail"].startswith("no key: chat keys set claude, or set ANTHROPIC_API_KEY")
    assert "✖ claude:NAME" in chat("models").out


def test_embedding_is_printed_as_json(chat: Any, user_dir: Any) -> None:
    model = f"python:{user_dir.module}:embedder"

    assert json.loads(chat("embed", "-m", model, "two", "words").out) == [9.0, 1.0]
    assert json.loads(chat("embed", "-m", model, piped="abc").out) == [3.0, 1.0]
    assert "there is no text" in chat("embed", "-m", model).err
