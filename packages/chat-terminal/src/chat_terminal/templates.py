"""Prompt templates of the user, and `chat templates`, which manages them."""

from __future__ import annotations

import os
import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast, final

import click

TEMPLATES_VARIABLE: Final = "CHAT_TEMPLATES"
"""Environment variable with the directory of the templates. Default: `templates` in the application directory."""

_INPUT: Final = "input"
_TEXT_KEYS: Final = ("prompt", "system", "model", "base_url", "schema")
_NEW_FILE: Final = """\
# Uncomment what you need. $input is what you pass or pipe to the command; -p NAME VALUE sets another $NAME.
# prompt = "Summarize in $count words: $input"
# system = "Answer in plain English."
# model = "claude:claude-sonnet-4-5"
# tools = ["tools.py"]
# schema = "title, summary"
"""


@final
@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with values of options, for use in many questions.

    Attributes:
        prompt: text with placeholders such as `$input`.
        system: system prompt of a new session.
        schema: value of `--schema`.
        settings: values of `--model`, `--base-url` and `--tools`.
    """

    prompt: str = ""
    system: str | None = None
    schema: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict[str, object])

    def render(self, text: str, params: Mapping[str, str]) -> str:
        """Return the prompt with all placeholders replaced.

        Args:
            text: value of `$input`. If the prompt has no `$input`, the text is appended to the prompt.
            params: values of the other placeholders.

        Raises:
            click.UsageError: a placeholder has no value, or a value has no placeholder.
        """
        template = string.Template(self.prompt)
        names = set(template.get_identifiers())
        if _INPUT in names and not text:
            msg = "the template needs an input: add a question, or pipe something in"
            raise click.UsageError(msg)
        if missing := sorted(names - {_INPUT} - set(params)):
            msg = f"the template needs values: {' '.join(f'-p {name} VALUE' for name in missing)}"
            raise click.UsageError(msg)
        if unknown := sorted(set(params) - (names - {_INPUT})):
            msg = f"the template has no placeholder ${unknown[0]} for -p: remove it, or write it in the prompt"
            raise click.UsageError(msg)
        prompt = template.substitute({**params, _INPUT: text})
        return prompt if _INPUT in names or not text else f"{prompt}\n\n{text}"


NO_TEMPLATE: Final = PromptTemplate()
"""The template without `--template`: it changes nothing."""


def load_template(name: str | None) -> PromptTemplate:
    """Return a template of the user. Without a name, the template is empty.

    Args:
        name: name of the template, or None.

    Raises:
        click.UsageError: the template does not exist or is invalid.
    """
    if name is None:
        return NO_TEMPLATE
    path = _path_of(name)
    if not path.is_file():
        msg = f"there is no template {name!r}; `chat templates` lists them, and `chat templates edit {name}` creates it"
        raise click.UsageError(msg)
    try:
        values: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
        return _create_template(values)
    except (OSError, ValueError) as error:
        msg = f"the template {path} cannot be used: {error}"
        raise click.UsageError(msg) from error


@click.group("templates", help="List the prompt templates, which --template uses.", invoke_without_command=True)
@click.pass_context
def templates(ctx: click.Context) -> int:
    """Print the name of each template and the beginning of its prompt, and return the exit code.

    Args:
        ctx: Click context. A subcommand runs instead.
    """
    if ctx.invoked_subcommand is None:
        paths = sorted(_template_folder().glob("*.toml"))
        if not paths:
            click.echo("There are no templates: create one with `chat templates edit NAME`.", err=True)
        for path in paths:
            try:
                prompt = load_template(path.stem).prompt
            except click.UsageError as error:
                prompt = f"✖ {error.__cause__ or error.format_message()}"
            click.echo(f"{path.stem:16} {' '.join(prompt.split())[:60]}".rstrip())
    return 0


@templates.command("edit", help="Edit a template in your editor, and create it if it does not exist.")
@click.argument("name")
def edit_template(name: str) -> int:
    """Edit a template, and return the exit code.

    Args:
        name: name of the template.
    """
    path = _path_of(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(_NEW_FILE, encoding="utf-8")
    click.edit(filename=str(path))
    load_template(name)
    return 0


@templates.command("path", help="Print the directory of the templates.")
def print_template_path() -> int:
    """Print the directory of the templates, and return the exit code."""
    click.echo(_template_folder())
    return 0


def _template_folder() -> Path:
    named = os.environ.get(TEMPLATES_VARIABLE)
    return Path(named) if named else Path(click.get_app_dir("chat-core")) / "templates"


def _path_of(name: str) -> Path:
    if not name.replace("-", "").replace("_", "").isalnum():
        msg = f"the name of a template has letters, digits, - and _ only, not {name!r}"
        raise click.UsageError(msg)
    return _template_folder() / f"{name}.toml"


def _create_template(values: Mapping[str, object]) -> PromptTemplate:
    """Return the template with the values of a file.

    Raises:
        ValueError: a value has an unknown name or the wrong type.
    """
    for key, value in values.items():
        if key not in (*_TEXT_KEYS, "tools"):
            msg = f"it has the unknown key {key!r}; the keys are {', '.join(_TEXT_KEYS)} and tools"
            raise ValueError(msg)
        if key in _TEXT_KEYS and not isinstance(value, str):
            msg = f"{key} must be a string, not {value!r}"
            raise ValueError(msg)
    tools = values.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(item, str) for item in cast("list[object]", tools)):
        msg = f"tools must be a list of strings, not {tools!r}"
        raise ValueError(msg)
    prompt = cast("str", values.get("prompt", ""))
    if not string.Template(prompt).is_valid():
        msg = "the prompt has a $ that begins no name: write $$ for a dollar sign"
        raise ValueError(msg)
    settings = {key: values[key] for key in ("model", "base_url", "tools") if key in values}
    return PromptTemplate(
        prompt, cast("str | None", values.get("system")), cast("str | None", values.get("schema")), settings
    )
