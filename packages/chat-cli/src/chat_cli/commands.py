"""The command line: `chat "question"`, and what is done with sessions."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import anyio
import click
from chat_core import ChatOptions, ChatResponse
from chat_core.messages import Content
from click.core import ParameterSource

from chat_cli.inputs import parts, piped_in
from chat_cli.models import LOCAL, choose
from chat_cli.running import Outcome, Runner, report
from chat_cli.screen import Screen, call
from chat_cli.sessions import Session, Sessions
from chat_cli.tooling import Approve, scopes

ANSWERED, FAILED, WAITS, INTERRUPTED = 0, 1, 3, 130
"""How a process ends: with the answer, with an error, at a call that nobody decided, by ctrl-C. 2 is click's."""

_LOCAL_TOKENS: Final = 400
_LOCAL_SYSTEM: Final = "You are a helpful assistant."
"""A small model may never stop, and does better when it is told who it is. Said where nothing else is."""

_REMEMBERED: Final = ("model", "base_url", "tools")
"""What a session goes on with, unless something else is said."""

F = TypeVar("F", bound=Callable[..., Any])


class Questions(click.Group):
    """A group in which what is no command is a question: `chat "why is the sky blue?"`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command; `ask`, with all the words, where the first one names none."""
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "ask", self.commands["ask"], args

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options may come first, as in `chat --model … "question"`: they are those of `ask`."""
        if not args and not sys.stdin.isatty():
            args = ["ask"]  # what is piped in is the question
        elif args and args[0].startswith("-") and args[0] not in {"--help", "--version", "-h"}:
            args = ["ask", *args]
        return super().parse_args(ctx, args)


def _asking(command: F) -> F:
    """The options of whatever asks a model."""
    options = [
        click.option("--model", "-m", default=LOCAL, envvar="CHAT_MODEL", show_default=True, help="PROVIDER:NAME."),
        click.option("--base-url", envvar="CHAT_BASE_URL", help="Of a server, for --model completions:NAME."),
        click.option("--tools", "-t", multiple=True, metavar="MODULE", help="Tools: a module or file.py, with :NAME."),
        click.option(
            "--approve",
            type=click.Choice(["ask", "all", "none"]),
            default="ask",
            show_default=True,
            help="Who decides about calls that have no policy.",
        ),
        click.option("--temperature", type=float, help="Of the answer."),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Of the answer, at most."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=Questions, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="chat-cli")
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="CHAT_STORE",
    help="The file of the sessions.",
)
@click.pass_context
def chat(ctx: click.Context, store: Path | None) -> None:
    """Ask a model: `chat "a question"`, with files, pipes, tools and sessions.

    Without --model, the answer comes from a small model in this process: no key, no network.
    """
    ctx.obj = Sessions(store or Path(click.get_app_dir("chat-core")) / "chats.db")


@chat.command()
@click.argument("words", nargs=-1)
@click.option("--file", "-f", "files", multiple=True, type=click.Path(path_type=Path), help="Attach a file.")
@click.option("--system", "-s", help="What the model is told first, in a new session.")
@click.option("--session", help="The session to go on with, or to begin under this name.")
@click.option("--continue", "-c", "go_on", is_flag=True, help="Go on with the last session.")
@_asking
@click.pass_obj
def ask(
    sessions: Sessions,
    /,
    *,
    words: tuple[str, ...],
    files: tuple[Path, ...],
    system: str | None,
    session: str | None,
    go_on: bool,
    **asking: object,
) -> int:
    """Ask a question. What is piped in, and files, come before it."""
    given = parts(words, piped_in(sys.stdin), files)
    known = sessions.last() if go_on else next((one for one in sessions.all() if one.id == session), None)
    settings = _settings(known, asking)
    if system is None and str(settings["model"]).startswith(LOCAL):
        system = _LOCAL_SYSTEM
    runner = _runner(sessions, **cast("Any", asking | settings))
    name = sessions.use(known.id if known else session, " ".join(words) or "piped in", settings)
    return _finish(name, runner.ask(name, given, system), as_json=bool(asking["as_json"]))


@chat.command()
@click.argument("session", required=False)
@_asking
@click.pass_obj
def resume(sessions: Sessions, /, session: str | None, **asking: object) -> int:
    """Go on with what waits in a session, the last one unless named."""
    known = sessions.require(session) if session else sessions.last()
    settings = _settings(known, asking)
    runner = _runner(sessions, **cast("Any", asking | settings))
    sessions.use(known.id, known.title, settings)
    return _finish(known.id, runner.go_on(known.id), as_json=bool(asking["as_json"]))


@chat.command("sessions")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_obj
def list_sessions(sessions: Sessions, /, *, as_json: bool) -> int:
    """List the sessions, the last used one first, and what waits in them."""
    waiting = anyio.run(_waiting, sessions)
    for session in sessions.all():
        count = waiting.get(session.id, 0)
        if as_json:
            row = {"id": session.id, "title": session.title, "used": session.used.isoformat(), "waiting": count}
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            mark = f"  ⏸ {count}" if count else ""
            click.echo(f"{session.id:10} {session.used.astimezone():%Y-%m-%d %H:%M}  {session.title}{mark}")
    return ANSWERED


@chat.command()
@click.argument("session", required=False)
@click.option("--json", "as_json", is_flag=True, help="The whole document, as it is stored.")
@click.pass_obj
def show(sessions: Sessions, /, session: str | None, *, as_json: bool) -> int:
    """Show a session, the last one unless named."""
    name = (sessions.require(session) if session else sessions.last()).id
    document, contents = anyio.run(_read, sessions, name)
    if as_json:
        click.echo(document)
    for content in [] if as_json else contents:
        click.echo(f"{content.role}:")
        for line in _lines(content):
            click.echo(f"  {line}")
    return ANSWERED


@chat.command()
@click.argument("session")
@click.pass_obj
def forget(sessions: Sessions, /, session: str) -> int:
    """Delete a session and its history."""
    name = sessions.require(session).id
    anyio.run(_delete, sessions, name)
    sessions.forget(name)
    return ANSWERED


# --- Below ------------------------------------------------------------------------------------------------------------


def _settings(session: Session | None, asking: Mapping[str, object]) -> dict[str, object]:
    """What is remembered of a session, and over it what is said now."""
    ctx = click.get_current_context()
    said = {name: asking[name] for name in _REMEMBERED}
    if session is None:
        return said
    kept = {name: session.settings.get(name, value) for name, value in said.items()}
    told = {name for name in said if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    return kept | {name: said[name] for name in told}


def _runner(
    sessions: Sessions,
    *,
    model: str,
    base_url: str | None,
    tools: Sequence[str],
    approve: Approve,
    temperature: float | None,
    max_tokens: int | None,
    as_json: bool,
) -> Runner:
    found = scopes(tools, approve)
    if max_tokens is None and model.startswith(LOCAL):
        max_tokens = _LOCAL_TOKENS
    person = getpass.getuser() if approve == "ask" and sys.stdin.isatty() else None
    options = ChatOptions(temperature=temperature, max_tokens=max_tokens)
    return Runner(choose(model, base_url), options, found, sessions, Screen(quiet=as_json), person)


def _finish(session: str, outcome: Outcome, *, as_json: bool) -> int:
    if as_json:
        click.echo(report(session, outcome))
    if isinstance(outcome, ChatResponse):
        return ANSWERED
    if not as_json:
        for wait in outcome.waiting:
            click.echo(f"⏸ {call(wait.name, wait.arguments)} waits", err=True)
        click.echo(f"stored; go on with: chat resume {session}", err=True)
    return WAITS


async def _waiting(sessions: Sessions) -> dict[str, int]:
    async with sessions.store() as store:
        found = [waiting.conversation for waiting in await store.waiting()]
    return {session: found.count(session) for session in set(found)}


async def _read(sessions: Sessions, session: str) -> tuple[str, list[Content]]:
    async with sessions.store() as store, store.open(session) as conversation:
        return conversation.messages.to_json(), list(conversation.messages)


async def _delete(sessions: Sessions, session: str) -> None:
    async with sessions.store() as store:
        await store.delete(session)


def _lines(content: Content) -> list[str]:
    lines = content.text.splitlines()
    for tool in content.tools:
        lines.append(f"{call(tool.name, tool.effective_arguments)}: {type(tool.status).__name__.lower()}")
    return lines
