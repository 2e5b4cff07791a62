"""Prompt templates: their files, placeholders, settings and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from chat_core import Messages

MISUSED = 2
PERSON = """
from chat_core.testing import ScriptedProvider

person = ScriptedProvider('{"name": "Ana"}')
"""


@pytest.fixture
def folder(user_dir: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder: Path = user_dir.folder / "templates"
    folder.mkdir()
    monkeypatch.setenv("CHAT_TEMPLATES", str(folder))
    return folder


def ask(chat: Any, *words: str, piped: str = "") -> str:
    """Ask a question, and return the text that the model received."""
    ended = chat(*words, piped=piped)
    assert (ended.code, ended.err) == (0, "")
    messages = Messages.from_json(chat("show", "--json").out)
    return next(content.text for content in reversed(list(messages)) if content.role == "user")


QUESTIONS = {
    "words": ("Shorten to $count words: $input", "the report", "", "Shorten to 50 words: the report"),
    "pipe": ("Shorten to $count words: $input", "", "the report\n", "Shorten to 50 words: the report"),
    "pipe and words": ("Use $count words. $input", "Shorten it.", "text", "Use 50 words. text\n\nShorten it."),
    "no placeholder for the input": ("Use $count words.", "Shorten it.", "", "Use 50 words.\n\nShorten it."),
    "no input": ("Name $count rivers.", "", "", "Name 50 rivers."),
    "a dollar sign": ("What costs $$$count? $input", "Now.", "", "What costs $50? Now."),
    "a placeholder in the input": ("Use $count words: $input", "costs $count", "", "Use 50 words: costs $count"),
}


@pytest.mark.parametrize("case", QUESTIONS.values(), ids=list(QUESTIONS))
def test_placeholders_are_replaced(chat: Any, user_dir: Any, folder: Path, case: tuple[str, str, str, str]) -> None:
    prompt, words, piped, received = case
    (folder / "short.toml").write_text(f"prompt = {json.dumps(prompt)}")

    options = *user_dir.talker, "--template", "short", "-p", "count", "50"

    assert ask(chat, *options, *words.split(), piped=piped) == received


def test_a_template_without_a_prompt_sets_options_only(chat: Any, user_dir: Any, folder: Path) -> None:
    (folder / "talker.toml").write_text(f'model = "{user_dir.talker[1]}"\nsystem = "Be brief."')

    assert ask(chat, "--template", "talker", "Name a river.") == "Name a river."
    systems = [content.text for content in Messages.from_json(chat("show", "--json").out) if content.role == "system"]
    assert systems == ["Be brief."]


def test_options_of_the_command_line_take_precedence(chat: Any, user_dir: Any, folder: Path) -> None:
    (folder / "other.toml").write_text('model = "python:nowhere:model"\nsystem = "Be brief."')

    ask(chat, "--template", "other", "-s", "Be long.", "Name a river.", *user_dir.talker)

    systems = [content.text for content in Messages.from_json(chat("show", "--json").out) if content.role == "system"]
    assert systems == ["Be long."]


def test_a_template_takes_precedence_over_the_session(chat: Any, user_dir: Any, folder: Path) -> None:
    (folder / "pay.toml").write_text(f'model = "python:{user_dir.module}:model"\ntools = ["{user_dir.module}"]')
    chat("Name a river.", *user_dir.talker)

    ended = chat("-c", "--template", "pay", "Another?", "--approve", "all")

    assert ended.out == "It is done.\n"
    assert chat("-c", "And?").out == "Anything else?\n"  # the session has stored the model of the template


def test_relative_references_are_stored_as_absolute_ones(
    chat: Any, user_dir: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "near.toml").write_text('model = "python:mine.py:talker"')
    monkeypatch.chdir(user_dir.folder)
    chat("--template", "near", "Name a river.")
    monkeypatch.chdir("/")

    assert chat("-c", "Another?").out == "The Seine.\n"


def test_a_template_sets_the_schema(chat: Any, user_dir: Any, folder: Path) -> None:
    (user_dir.folder / "person.py").write_text(PERSON)
    model = f"python:{user_dir.folder}/person.py:person"
    (folder / "person.toml").write_text(f'prompt = "Invent a person."\nschema = "name"\nmodel = "{model}"')

    assert json.loads(chat("--template", "person").out) == {"name": "Ana"}


WRONG_FILES = {
    "an unknown key": ('promt = "Hello."', "unknown key 'promt'; the keys are prompt, system, model"),
    "a number": ("prompt = 5", "prompt must be a string, not 5"),
    "tools as a string": ('tools = "tools.py"', "tools must be a list of strings, not 'tools.py'"),
    "a lone dollar sign": ('prompt = "It costs $ 5."', "write $$ for a dollar sign"),
    "not TOML": ("prompt = ", "short.toml cannot be used: Invalid value"),
    "not UTF-8": (b'prompt = "\xff"', "short.toml cannot be used: 'utf-8' codec"),
}


@pytest.mark.parametrize(("written", "message"), WRONG_FILES.values(), ids=list(WRONG_FILES))
def test_wrong_file_is_a_usage_error(chat: Any, folder: Path, written: str | bytes, message: str) -> None:
    (folder / "short.toml").write_bytes(written.encode() if isinstance(written, str) else written)

    ended = chat("--template", "short", "Hello.")

    assert (ended.code, ended.out) == (MISUSED, "")
    assert message in ended.err
    listed = chat("templates")
    reason = ended.err.partition("cannot be used: ")[2].strip()
    assert (listed.code, f"✖ {reason[:40]}" in listed.out) == (0, True)


WRONG_USES = {
    "unknown template": (["--template", "long", "Hello."], "`chat templates edit long` creates it"),
    "a path": (["--template", "../short", "Hello."], "has letters, digits, - and _ only, not '../short'"),
    "no value": (["--template", "short", "Hello."], "the template needs values: -p count VALUE -p tone VALUE"),
    "unknown placeholder": (
        ["--template", "short", "Hello.", *("-p", "count", "5"), *("-p", "tone", "kind"), *("-p", "Count", "5")],
        "the template has no placeholder $Count for -p",
    ),
    "input as a parameter": (
        ["--template", "short", "Hello.", *("-p", "count", "5"), *("-p", "tone", "kind"), *("-p", "input", "5")],
        "the template has no placeholder $input for -p",
    ),
    "no input": (["--template", "short"], "the template needs an input: add a question, or pipe something in"),
    "no template": (["-p", "count", "5", "Hello."], "-p sets the value of a placeholder in a template"),
}


@pytest.mark.parametrize(("words", "message"), WRONG_USES.values(), ids=list(WRONG_USES))
def test_wrong_use_is_a_usage_error(chat: Any, folder: Path, words: list[str], message: str) -> None:
    (folder / "short.toml").write_text('prompt = "Use $count words, be $tone: $input"')

    ended = chat("ask", *words)

    assert (ended.code, ended.out) == (MISUSED, "")
    assert message in " ".join(ended.err.split())


def test_list_shows_the_beginning_of_each_prompt(chat: Any, folder: Path) -> None:
    (folder / "short.toml").write_text('prompt = """\nShorten:\n$input"""')
    (folder / "brief.toml").write_text('system = "Be brief."')

    assert chat("templates").out == "brief\nshort            Shorten: $input\n"


def test_edit_creates_a_file_without_effect(chat: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def edit(filename: str) -> None:
        opened.append(filename)

    monkeypatch.setattr(click, "edit", edit)

    assert chat("templates", "edit", "short").code == 0
    assert opened == [f"{folder}/short.toml"]
    assert chat("templates").out == "short\n"


def test_edit_keeps_an_existing_file_and_reports_its_errors(
    chat: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "short.toml"
    path.write_text('prompt = "Hello."')

    def edit(filename: str) -> None:
        Path(filename).write_text("prompt = 5")

    monkeypatch.setattr(click, "edit", edit)

    ended = chat("templates", "edit", "short")

    assert ended.code == MISUSED
    assert "prompt must be a string, not 5" in ended.err
    assert path.read_text() == "prompt = 5"


def test_path_is_printed(chat: Any, folder: Path) -> None:
    assert chat("templates", "path").out == f"{folder}\n"


def test_the_list_without_templates_names_the_command_that_creates_one(chat: Any, folder: Path) -> None:
    empty = chat("templates")
    folder.joinpath("short.toml").write_text('prompt = "Shorten: $input"', encoding="utf-8")
    listed = chat("templates")

    assert (empty.code, empty.out) == (0, "")
    assert empty.err == "There are no templates: create one with `chat templates edit NAME`.\n"
    assert (listed.out, listed.err) == (f"{'short':16} Shorten: $input\n", "")
