"""Which model answers."""

from __future__ import annotations

from typing import Any

import click
import pytest
from chat_cli.models import choose, load


@pytest.mark.parametrize(
    ("name", "variable", "kind"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY", "OpenAIProvider"),
        ("claude:claude-sonnet-4-5", "ANTHROPIC_API_KEY", "ClaudeProvider"),
        ("gemini:gemini-2.5-flash", "GEMINI_API_KEY", "GeminiProvider"),
        ("groq:llama-3.3-70b-versatile", "GROQ_API_KEY", "CompletionsChatProvider"),
    ],
)
def test_a_provider_is_named_before_its_model(
    name: str, variable: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "sk-test")
    model = choose(name)

    assert type(model).__name__ == kind
    assert model.metadata.model == name.partition(":")[2]


def test_any_server_of_the_chat_completions_wire_is_named_by_its_address() -> None:
    model = choose("completions:qwen3", "http://localhost:11434/v1")

    assert model.metadata.model == "qwen3"


def test_an_object_of_the_user_s_own_is_a_model(desk: Any) -> None:
    assert choose(f"python:{desk.module}:talker").metadata.name == "scripted"


@pytest.mark.parametrize(
    ("name", "base_url", "told"),
    [
        ("nobody:x", None, "there is no provider 'nobody'"),
        ("openai", None, "'openai' needs the name of a model"),
        ("completions:x", None, "needs --base-url"),
        ("openai:x", "http://localhost/v1", "--base-url is for completions:NAME"),
        ("python:json:loads", None, "is no model that streams"),
        ("python:nowhere_at_all:x", None, "nowhere_at_all cannot be imported"),
    ],
)
def test_what_makes_no_model_is_refused_in_words(name: str, base_url: str | None, told: str) -> None:
    with pytest.raises(click.UsageError, match=told):
        choose(name, base_url)


def test_a_file_that_is_not_there_is_told(desk: Any) -> None:
    with pytest.raises(click.UsageError, match="there is no file"):
        load(str(desk.folder / "missing.py"))
