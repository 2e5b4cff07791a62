"""Stored API keys: only the user can read them, and errors do not contain them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click
import pytest
from chat_terminal.keys import KeyFile

SECRET = "sk-secret-123"


def test_keys_are_stored_replaced_and_removed(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "new" / "keys.json")
    assert (keys.names(), keys.get("openai")) == ([], None)
    keys.set("openai", "old")
    keys.set("groq", "other")
    keys.set("openai", SECRET)

    assert (keys.names(), keys.get("openai")) == (["groq", "openai"], SECRET)
    assert (keys.remove("openai"), keys.remove("openai"), keys.names()) == (True, False, ["groq"])
    assert [file.name for file in keys.path.parent.iterdir()] == ["keys.json"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_only_the_user_can_read_the_keys(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    previous = os.umask(0)
    try:
        keys.set("openai", SECRET)
        keys.set("openai", SECRET)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600

    keys.path.chmod(0o644)
    with pytest.raises(click.ClickException, match=r"other users can access the keys in .*: run chmod 600"):
        keys.get("openai")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(f"{{{SECRET}", "it is not JSON", id="no-json"),
        pytest.param(f'["{SECRET}"]', "it must be a JSON object of texts", id="no-object"),
        pytest.param(f'{{"openai": ["{SECRET}"]}}', "it must be a JSON object of texts", id="no-texts"),
    ],
)
def test_damaged_file_is_an_error_without_the_keys(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(click.ClickException) as caught:
        KeyFile(path).names()

    assert caught.value.message == f"the keys in {path} cannot be read: {reason}"
    assert caught.value.__cause__ is None


def test_variable_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_KEYS", str(tmp_path / "mine.json"))
    assert KeyFile().path == tmp_path / "mine.json"
    monkeypatch.delenv("CHAT_KEYS")
    assert KeyFile().path.name == "keys.json"
