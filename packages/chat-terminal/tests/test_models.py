"""Model names on the command line."""

from __future__ import annotations

from typing import Any

import click
import pytest
from chat_terminal.keys import KeyFile
from chat_terminal.models import build_embedder, build_model, load_module, make_absolute


@pytest.mark.parametrize(
    ("name", "variable", "kind"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY", "OpenAIProvider"),
        ("claude:claude-sonnet-4-5", "ANTHROPIC_API_KEY", "ClaudeProvider"),
        ("gemini:gemini-2.5-flash", "GEMINI_API_KEY", "GeminiProvider"),
        ("openrouter:qwen/qwen3-32b", "OPENROUTER_API_KEY", "OpenRouterProvider"),
        ("groq:llama-3.3-70b-versatile", "GROQ_API_KEY", "CompletionsChatProvider"),
    ],
)
def test_provider_prefix_selects_the_provider(
    name: str, variable: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "sk-test")
    model = build_model(name)

    assert type(model).__name__ == kind
    assert model.metadata.model == name.partition(":")[2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY: export OPENAI_API_KEY=…, or store it: chat keys set openai"),
        (
            "gemini:g",
            "GOOGLE_API_KEY (or GEMINI_API_KEY): export GOOGLE_API_KEY=…, or store it: chat keys set gemini",
        ),
    ],
)
def test_missing_key_error_names_the_variable_and_the_export_command(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(click.UsageError) as caught:
        build_model(name)

    assert caught.value.message == f"--model {name} needs an API key in the environment variable {words}"


def test_completions_model_uses_the_base_url() -> None:
    model = build_model("completions:qwen3", "http://localhost:11434/v1")

    assert model.metadata.model == "qwen3"


def test_python_reference_loads_a_provider_object(user_dir: Any) -> None:
    assert build_model(f"python:{user_dir.module}:talker").metadata.name == "scripted"


@pytest.mark.parametrize(
    ("name", "base_url", "told"),
    [
        ("nobody:x", None, "there is no provider 'nobody'"),
        ("openai", None, "'openai' contains no model name"),
        ("completions:x", None, "needs --base-url"),
        ("openai:x", "http://localhost/v1", "--base-url needs --model completions:NAME"),
        ("python:json:loads", None, "is not a streaming model"),
        ("python:nowhere_at_all:x", None, "nowhere_at_all cannot be imported"),
    ],
)
def test_invalid_model_name_raises_usage_error(name: str, base_url: str | None, told: str) -> None:
    with pytest.raises(click.UsageError, match=told):
        build_model(name, base_url)


def test_missing_file_raises_usage_error(user_dir: Any) -> None:
    with pytest.raises(click.UsageError, match="there is no file"):
        load_module(str(user_dir.folder / "missing.py"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "SyntaxError"),
        ("\nnowhere\n", r"NameError: name 'nowhere' is not defined \(.*broken\.py, line 2\)"),
        ("import sys\nsys.exit(7)\n", "SystemExit: 7"),
        ("import nothing_of_this_name\n", "No module named 'nothing_of_this_name'"),
    ],
)
def test_failing_module_reports_its_error_and_line(user_dir: Any, text: str, told: str) -> None:
    (user_dir.folder / "broken.py").write_text(text)

    for _ in range(2):  # a failed import leaves no partial module behind
        with pytest.raises(click.UsageError, match=told):
            load_module(str(user_dir.folder / "broken.py"))


@pytest.mark.parametrize("place", ["", "..x"])
def test_invalid_module_raises_usage_error(place: str) -> None:
    with pytest.raises(click.UsageError, match="cannot be imported"):
        load_module(place)


def test_file_is_imported_once_and_can_import_siblings(user_dir: Any) -> None:
    (user_dir.folder / "a_neighbour.py").write_text("number = 4\n")
    (user_dir.folder / "whole.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from a_neighbour import number\n"
        "@dataclass\n"
        "class Point:\n"
        "    x: int\n"
        "    count: ClassVar[int] = number\n"
    )
    module = load_module(str(user_dir.folder / "whole.py"))

    assert module.Point(1).count == 4
    assert load_module(str(user_dir.folder / "whole.py")) is module


def test_module_in_the_current_directory_is_found(user_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (user_dir.folder / "module_of_the_folder.py").write_text("number = 5\n")
    monkeypatch.chdir(user_dir.folder)

    assert load_module("module_of_the_folder").number == 5


def test_relative_file_references_become_absolute(user_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(user_dir.folder)
    (user_dir.folder / "model.gguf").write_text("")
    (user_dir.folder / "openai").write_text("")
    mine = str(user_dir.module.resolve())

    assert make_absolute("mine.py") == mine
    assert make_absolute("mine.py:tools") == f"{mine}:tools"
    assert make_absolute("python:mine.py:talker") == f"python:{mine}:talker"
    assert make_absolute("local:model.gguf") == f"local:{mine.removesuffix('mine.py')}model.gguf"
    for place in ("local", "openai:x", "json:tools", "missing.py:tools", "python:json:loads"):
        assert make_absolute(place) == place


def test_stored_key_is_used_if_the_environment_has_none(user_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_dir.folder.is_dir()
    for variable in ("OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    KeyFile().set("openai", "sk-stored")

    assert build_model("openai:gpt-5-mini").metadata.model == "gpt-5-mini"
    assert build_embedder("openai:text-embedding-3-small").metadata.name == "openai"
    with pytest.raises(click.UsageError, match="chat keys set groq"):
        build_model("groq:llama-3.3-70b-versatile")


def test_embedder_is_loaded_from_a_module(user_dir: Any) -> None:
    assert build_embedder(f"python:{user_dir.module}:model").metadata.name == "scripted"
    with pytest.raises(click.UsageError, match="cannot compute embeddings"):
        build_embedder(f"python:{user_dir.module}:number")
