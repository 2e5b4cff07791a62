"""Options of a command that select a model."""

from __future__ import annotations

from typing import Any

import pytest
from chat_core.testing import ScriptedProvider
from chat_terminal import model_options


@pytest.mark.parametrize(
    ("words", "temperature"),
    [
        pytest.param(("local",), 0, id="the bundled model"),
        pytest.param(("local", "--temperature", "0.7"), 0.7, id="the bundled model with the option"),
        pytest.param(("local:own.gguf",), None, id="another local model"),
        pytest.param(("openai:x",), None, id="a model of a vendor"),
    ],
)
def test_default_temperature_applies_only_to_the_bundled_model(
    chat: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], temperature: float | None
) -> None:
    model = ScriptedProvider("The Loire.")

    def choose(_name: str, _base_url: str | None) -> ScriptedProvider:
        return model

    monkeypatch.setattr(model_options, "build_model", choose)

    assert chat("Name a river.", "--model", *words).code == 0
    assert [asked.options.temperature for asked in model.asked] == [temperature]


@pytest.mark.parametrize(
    ("words", "roles"),
    [
        pytest.param(("local",), ["system", "user"], id="a local model"),
        pytest.param(("openai:x",), ["user"], id="a model of a vendor"),
    ],
)
def test_only_a_local_model_has_a_default_system_prompt(
    chat: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], roles: list[str]
) -> None:
    def choose(_name: str, _base_url: str | None) -> ScriptedProvider:
        return ScriptedProvider("The Loire.")

    monkeypatch.setattr(model_options, "build_model", choose)
    chat("Name a river.", "--model", *words)

    shown = chat("show").out.splitlines()
    assert [line.removesuffix(":") for line in shown if line.endswith(":")][:-1] == roles


def test_a_remembered_server_does_not_get_the_key_of_another_one(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str | None] = []

    def choose(_name: str, base_url: str | None) -> ScriptedProvider:
        used.append(base_url)
        return ScriptedProvider("The Loire.")

    monkeypatch.setattr(model_options, "build_model", choose)
    old, new = "http://old.test/v1", "http://new.test/v1"
    assert chat("Name a river.", "--model", "completions:m", "--base-url", old).code == 0
    monkeypatch.setenv("CHAT_BASE_URL", "http://me:secret@new.test/v1?key=secret")
    refused = chat("-c", "Another?")

    assert (refused.code, refused.out) == (2, "")
    assert f"this session uses {old}, but CHAT_BASE_URL is {new}: choose one of them with --base-url" in refused.err
    assert chat("-c", "Another?", "--base-url", old).code == 0
    monkeypatch.setenv("CHAT_BASE_URL", f"{old}/")
    assert chat("-c", "Another?").code == 0
    assert used == [old, old, old]
