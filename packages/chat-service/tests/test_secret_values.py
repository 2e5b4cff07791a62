"""Secrets: the order of their sources, their replacement at run time, and that no text shows them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import keyring
import keyring.backends.fail
import pytest
from chat_service.config import Config
from chat_service.secret_values import SecretError, Secrets, find_keyring

NAME = "llm.api_key"


class FakeKeyring:
    """A keyring in memory. It raises an error if it is locked."""

    def __init__(self, *, locked: bool = False) -> None:
        self.stored: dict[tuple[str, str], str] = {}
        self._locked = locked

    def get_password(self, service: str, username: str) -> str | None:
        if self._locked:
            raise RuntimeError
        return self.stored.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self._locked:
            raise RuntimeError(password)
        self.stored[service, username] = password


def create(backend: FakeKeyring | None, variables: dict[str, str], folder: Path) -> Secrets:
    def read() -> Config:
        return Config.load(environment={"CHAT_SERVICE_CONFIG_DIR": str(folder / "none")}, directory=folder)

    return Secrets(read, environment=variables, find=lambda: (backend, "there is none"))


def write_file(folder: Path, key: str) -> None:
    file = folder / "chat-service.toml"
    file.write_text(f'[llm]\napi_key = "{key}"\n')
    file.chmod(0o600)


def test_the_sources_are_the_keyring_then_the_environment_then_the_file(tmp_path: Path) -> None:
    backend, variables = FakeKeyring(), {"CHAT_SERVICE_LLM_API_KEY": "from the environment"}
    secrets = create(backend, variables, tmp_path)
    backend.set_password("chat-service", NAME, "from the keyring")
    write_file(tmp_path, "from the file")

    first = secrets.read(NAME)
    backend.stored.clear()
    second = secrets.read(NAME)
    variables.clear()
    third = secrets.read(NAME)
    (tmp_path / "chat-service.toml").unlink()

    assert (first, second) == (
        ("from the keyring", "keyring"),
        ("from the environment", "CHAT_SERVICE_LLM_API_KEY"),
    )
    assert third == ("from the file", f"{tmp_path / 'chat-service.toml'}:2")
    assert secrets.read(NAME) is None


@pytest.mark.anyio
async def test_a_replaced_secret_is_used_without_a_restart(tmp_path: Path) -> None:
    secrets = create(None, {}, tmp_path)
    get = secrets.getter(NAME)
    write_file(tmp_path, "old")
    before = await get()
    write_file(tmp_path, "new")
    after = await get()
    (tmp_path / "chat-service.toml").unlink()

    assert (before, after) == ("old", "new")
    with pytest.raises(SecretError, match="is not set any more"):
        await get()


def test_a_secret_in_a_file_is_reported_once_without_its_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_file(tmp_path, "hidden")
    secrets = create(None, {}, tmp_path)
    with caplog.at_level(logging.WARNING):
        secrets.read(NAME)
        secrets.read(NAME)

    assert caplog.text.count("is stored in plain text") == 1
    assert "hidden" not in caplog.text + repr(secrets)


def test_a_locked_keyring_is_skipped_in_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secrets = create(FakeKeyring(locked=True), {"CHAT_SERVICE_LLM_API_KEY": "key"}, tmp_path)

    assert secrets.read(NAME) == ("key", "CHAT_SERVICE_LLM_API_KEY")
    assert "cannot be read: RuntimeError" in caplog.text


def test_a_secret_is_stored_only_in_a_keyring(tmp_path: Path) -> None:
    backend = FakeKeyring()
    create(backend, {}, tmp_path).store(NAME, "key")

    assert backend.stored == {("chat-service", NAME): "key"}
    with pytest.raises(SecretError, match="set the environment variable CHAT_SERVICE_LLM_API_KEY"):
        create(None, {}, tmp_path).store(NAME, "hidden")
    with pytest.raises(SecretError, match="raised RuntimeError") as caught:
        create(FakeKeyring(locked=True), {}, tmp_path).store(NAME, "hidden")
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_keyring_that_stores_nothing_or_plain_text_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    fail: Any = keyring.backends.fail
    plain = type("PlaintextKeyring", (), {"__module__": "keyrings.alt.file"})()
    safe = type("Keyring", (), {"__module__": "keyring.backends.SecretService"})()
    found: list[object] = []
    for backend in (plain, fail.Keyring(), safe):
        monkeypatch.setattr(keyring, "get_keyring", lambda backend=backend: backend)
        found.append(find_keyring()[0])

    assert found == [None, None, safe]
