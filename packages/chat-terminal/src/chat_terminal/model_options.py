"""Options that select a model and its tools, and the runner that they describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import click
from chat_core import ChatOptions, UsageError
from click.core import ParameterSource

from chat_terminal.controlling_terminal import find_approver
from chat_terminal.models import COMPLETIONS, LOCAL, build_model, make_absolute
from chat_terminal.runner import Runner, user_may_decide
from chat_terminal.schema_option import load_output
from chat_terminal.screen import Screen
from chat_terminal.sessions import Session, Sessions
from chat_terminal.templates import NO_TEMPLATE, PromptTemplate
from chat_terminal.tool_options import Approve, load_scopes, parse_tool_choice

_LOCAL_TOKENS: Final = 400
_LOCAL_TEMPERATURE: Final = 0.0
_LOCAL_SYSTEM: Final = "You are a helpful assistant."
"""Defaults for small local models, which may never stop, ramble at higher temperatures and need a system prompt.

The token limit and the system prompt apply to every local model, the temperature only to the bundled one.
"""

_SESSION_SETTINGS: Final = ("model", "base_url", "tools")
"""Names of the options that are stored with a session and reused for later questions."""

F = TypeVar("F", bound=Callable[..., Any])


def add_model_options(command: F) -> F:
    """Decorate a Click command with the options that select a model and its tools."""
    options = [
        click.option(
            "--model", "-m", default=LOCAL, envvar="CHAT_MODEL", show_default=True, help="Model: PROVIDER:NAME."
        ),
        click.option("--base-url", envvar="CHAT_BASE_URL", help="URL of the server for --model completions:NAME."),
        click.option(
            "--tools", "-t", multiple=True, metavar="MODULE", help="Tools: a module or file.py, or MODULE:NAME."
        ),
        click.option(
            "--approve",
            type=click.Choice(["ask", "all", "none"]),
            default="ask",
            show_default=True,
            help="How calls without a policy are decided.",
        ),
        click.option(
            "--tool-choice",
            metavar="auto|required|none|TOOL",
            help="Whether the model must call a tool before it answers, and which one.",
        ),
        click.option(
            "--temperature",
            type=float,
            help="Sampling temperature. Default: 0 for the local model, else the provider's default.",
        ),
        click.option(
            "--schema",
            metavar="SCHEMA",
            help="Structured output: fields such as 'name, age int', a JSON Schema or its file, or python:MODULE:NAME.",
        ),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum number of tokens of an answer."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def resolve_settings(
    session: Session | None, options: Mapping[str, object], template: PromptTemplate = NO_TEMPLATE
) -> dict[str, object]:
    """Return the model, base URL and tools.

    Each value is read from the command line, the template, the session or the environment, in this order.

    Args:
        session: the session to continue, or None.
        options: values of all options of the current command.
        template: the template of `--template`.

    Raises:
        click.UsageError: the session and `CHAT_BASE_URL` name different servers.
    """
    given = _make_absolute({name: options[name] for name in _SESSION_SETTINGS})
    source = click.get_current_context().get_parameter_source
    explicit = {name for name in given if source(name) is ParameterSource.COMMANDLINE}
    remembered = (
        {}
        if session is None
        else {name: session.settings[name] for name in _SESSION_SETTINGS if name in session.settings}
    )
    settings = given | remembered | _make_absolute(template.settings) | {name: given[name] for name in explicit}
    if "base_url" not in explicit and not str(settings["model"]).startswith(f"{COMPLETIONS}:"):
        return settings | {"base_url": None}  # the remembered URL belongs to another model
    used = settings["base_url"]
    if used and used == remembered.get("base_url") and source("base_url") is ParameterSource.ENVIRONMENT:
        _require_same_server(str(used), str(given["base_url"]))
    return settings | {"base_url": settings["base_url"] or given["base_url"]}


def _require_same_server(remembered: str, current: str) -> None:
    """Raise an error if the environment names another server than the session, which must not receive its key."""
    if remembered.rstrip("/") != current.rstrip("/"):
        # A URL may contain a password before the host, or a key in the query.
        old, new = [re.sub(r"//[^/]*@", "//", url).partition("?")[0] for url in (remembered, current)]
        msg = f"this session uses {old}, but CHAT_BASE_URL is {new}: choose one of them with --base-url"
        raise click.UsageError(msg)


def _make_absolute(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings in which the model and the tools have absolute paths."""
    changed = dict(settings)
    if "model" in changed:
        changed["model"] = make_absolute(str(changed["model"]))
    if "tools" in changed:
        changed["tools"] = [make_absolute(place) for place in cast("Sequence[str]", changed["tools"])]
    return changed


def build_runner(
    sessions: Sessions,
    *,
    model: str,
    base_url: str | None,
    tools: Sequence[str],
    approve: Approve,
    tool_choice: str | None,
    temperature: float | None,
    schema: str | None,
    max_tokens: int | None,
    as_json: bool,
    plain: bool = False,
) -> Runner:
    """Build the runner of a command.

    Args:
        sessions: session file.
        model: model name.
        base_url: URL of a Chat Completions server.
        tools: references to modules with tools.
        approve: how calls without a policy are decided.
        tool_choice: value of `--tool-choice`.
        temperature: sampling temperature; None selects the default.
        schema: value of `--schema`.
        max_tokens: maximum number of output tokens; None selects the default.
        as_json: whether one JSON object is printed at the end, and nothing before.
        plain: write the text of responses unchanged on a terminal too.

    Raises:
        click.UsageError: a model or a tool does not exist, a required value is missing, or a value is not allowed.
    """
    scopes = load_scopes(tools, approve)
    choice = parse_tool_choice(tool_choice, scopes)
    if max_tokens is None and model.startswith(LOCAL):
        max_tokens = _LOCAL_TOKENS
    if temperature is None and model == LOCAL:
        temperature = _LOCAL_TEMPERATURE
    try:
        options = ChatOptions(temperature=temperature, max_tokens=max_tokens, tool_choice=choice)
        built = build_model(model, base_url)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    person = find_approver() if approve == "ask" else None
    output = None if schema is None else load_output(schema)
    screen = Screen(quiet=as_json, plain=plain, with_text=output is None)
    return Runner(built, options, scopes, sessions, screen, user_may_decide, person, output)


def choose_system_prompt(system: str | None, settings: Mapping[str, object]) -> str | None:
    """Return the system prompt of a new session. Local models need one.

    Args:
        system: value of the option `--system`.
        settings: model of the session.
    """
    return _LOCAL_SYSTEM if system is None and str(settings["model"]).startswith(LOCAL) else system
