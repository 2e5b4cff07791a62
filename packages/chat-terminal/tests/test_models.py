"""Which model answers."""

from __future__ import annotations

from typing import Any

import click
import pytest
from chat_terminal.models import build_model, load_module, make_absolute


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
def test_a_provider_is_named_before_its_model(
    name: str, variable: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "sk-test")
    model = build_model(name)

    assert type(model).__name__ == kind
    assert model.metadata.model == name.partition(":")[2]


def test_any_server_of_the_chat_completions_wire_is_named_by_its_address() -> None:
    model = build_model("completions:qwen3", "http://localhost:11434/v1")

    assert model.metadata.model == "qwen3"


def test_an_object_of_the_user_s_own_is_a_model(desk: Any) -> None:
    assert build_model(f"python:{desk.module}:talker").metadata.name == "scripted"


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
        build_model(name, base_url)


def test_a_file_that_is_not_there_is_told(desk: Any) -> None:
    with pytest.raises(click.UsageError, match="there is no file"):
        load_module(str(desk.folder / "missing.py"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "SyntaxError"),
        ("\nnowhere\n", r"NameError: name 'nowhere' is not defined \(.*broken\.py, line 2\)"),
        ("import sys\nsys.exit(7)\n", "SystemExit: 7"),
        ("import nothing_of_this_name\n", "No module named 'nothing_of_this_name'"),
    ],
)
def test_a_module_that_fails_is_refused_with_what_it_said_and_where(desk: Any, text: str, told: str) -> None:
    (desk.folder / "broken.py").write_text(text)

    for _ in range(2):  # what has failed once is not half a module then
        with pytest.raises(click.UsageError, match=told):
            load_module(str(desk.folder / "broken.py"))


@pytest.mark.parametrize("place", ["", "..x"])
def test_what_can_be_no_module_is_refused_too(place: str) -> None:
    with pytest.raises(click.UsageError, match="cannot be imported"):
        load_module(place)


def test_a_file_is_one_module_in_which_dataclasses_work_and_its_neighbours_are_found(desk: Any) -> None:
    (desk.folder / "a_neighbour.py").write_text("number = 4\n")
    (desk.folder / "whole.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from a_neighbour import number\n"
        "@dataclass\n"
        "class Point:\n"
        "    x: int\n"
        "    count: ClassVar[int] = number\n"
    )
    module = load_module(str(desk.folder / "whole.py"))

    assert module.Point(1).count == 4
    assert load_module(str(desk.folder / "whole.py")) is module


def test_a_module_of_the_folder_that_the_command_runs_in_is_found(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.folder / "module_of_the_folder.py").write_text("number = 5\n")
    monkeypatch.chdir(desk.folder)

    assert load_module("module_of_the_folder").number == 5


def test_files_are_named_so_that_they_are_found_from_anywhere(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)
    (desk.folder / "model.gguf").write_text("")
    (desk.folder / "openai").write_text("")
    mine = str(desk.module.resolve())

    assert make_absolute("mine.py") == mine
    assert make_absolute("mine.py:tools") == f"{mine}:tools"
    assert make_absolute("python:mine.py:talker") == f"python:{mine}:talker"
    assert make_absolute("local:model.gguf") == f"local:{mine.removesuffix('mine.py')}model.gguf"
    for place in ("local", "openai:x", "json:tools", "missing.py:tools", "python:json:loads"):
        assert make_absolute(place) == place
