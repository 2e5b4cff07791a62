"""The command line: `chat "question"`, and what is done with sessions."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import anyio
import click
from chat_core import ChatOptions, ChatResponse, PendingToolsError
from chat_core.messages import Content
from chat_store import UnknownConversationError
from click.core import ParameterSource

from chat_terminal.controlling_terminal import person_here
from chat_terminal.forced_choice import Freed
from chat_terminal.inputs import parts, piped_in
from chat_terminal.models import COMPLETIONS, LOCAL, choose, from_anywhere
from chat_terminal.runner import Outcome, Runner, failure, report
from chat_terminal.screen import Screen, call, plain
from chat_terminal.sessions import Session, Sessions
from chat_terminal.tool_options import Approve, chosen, scopes

ANSWERED, FAILED, WAITS, INTERRUPTED = 0, 1, 3, 130
"""How a process ends: with the answer, with an error, at a call that nobody decided, by ctrl-C. 2 is click's."""

_LOCAL_TOKENS: Final = 400
_LOCAL_TEMPERATURE: Final = 0.0
_LOCAL_SYSTEM: Final = "You are a helpful assistant."
"""A small model may never stop, rambles where it may choose its words, and does better when it is told who it is.

Said where nothing else is; the temperature only to the model that comes with the command.
"""

_WORDS: Final = "chat_terminal.words"
_SESSION: Final = "chat_terminal.session"
"""Where a context keeps what was said and the name of the session, for those who tell of a failure."""

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
        """Options may come first, as in `chat --model … "question"`: they are those of `ask`, but for `--store`."""
        own, rest = _of_the_group(args)
        if not rest and not sys.stdin.isatty():
            rest = ["ask"]  # what is piped in is the question
        elif rest and rest[0].startswith("-") and rest[0] not in {"--help", "--version", "-h"}:
            rest = ["ask", *rest]
        ctx.meta[_WORDS] = rest
        with _reported(ctx, rest):
            return super().parse_args(ctx, [*own, *rest])

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Where its words are wrong, they may have been a question."""
        words: Sequence[str] = ctx.meta[_WORDS]
        with _reported(ctx, words):
            try:
                return super().invoke(ctx)
            except click.UsageError as error:
                if not words[1:] or words[0] == "ask" or any(word.startswith("-") for word in words):
                    raise
                msg = f"{error.format_message()}\nIf it was a question: chat ask {shlex.join(words)}"
                raise click.UsageError(msg, error.ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the group and its commands, and those of a question, which most people look for."""
        asking = self.commands["ask"]
        within = click.Context(asking, parent=ctx, info_name="ask")
        own = {param.name for param in self.get_params(ctx)}
        options = [param for param in asking.params if isinstance(param, click.Option) and param.name not in own]
        records = [option.get_help_record(within) for option in options]
        with formatter.section("Options of a question"):
            formatter.write_dl([record for record in records if record is not None])
        super().format_options(ctx, formatter)


@contextmanager
def _reported(ctx: click.Context, words: Sequence[str]) -> Generator[None]:
    """Where one JSON object was asked for, a failure is one, too."""
    try:
        yield
    except (click.Abort, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        options = words[: words.index("--")] if "--" in words else words
        if "--json" in options:
            click.echo(failure(ctx.meta.get(_SESSION), error))
        raise


def _of_the_group(args: list[str]) -> tuple[list[str], list[str]]:
    count = 0
    while count < len(args) and args[count].partition("=")[0] == "--store":
        count += 1 if "=" in args[count] else 2
    return args[:count], args[count:]


def _use_store(ctx: click.Context, _param: click.Parameter, store: Path | None) -> None:
    if store is not None:
        ctx.obj = Sessions(store)


_STORE: Final = click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    expose_value=False,
    callback=_use_store,
    help="The file of the sessions.",
)
"""Said to any command, before or behind its name."""


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
        click.option(
            "--tool-choice",
            metavar="auto|required|none|TOOL",
            help="Whether the model must call a tool before it answers, or which one.",
        ),
        click.option(
            "--temperature", type=float, help="Of the answer; 0 for the local model, else the provider's own."
        ),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Of the answer, at most."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(
    cls=Questions,
    subcommand_metavar='"A QUESTION" | COMMAND [ARGS]...',
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="chat-terminal")
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
@_STORE
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
    if go_on and session is not None:
        msg = f"--continue is for the last session, and --session for {session!r}: say one of them"
        raise click.UsageError(msg)
    if session is not None and not (session.strip() and session.isprintable()):
        msg = f"the name of a session is a text that can be seen, not {session!r}"
        raise click.UsageError(msg)
    given = parts(words, piped_in(sys.stdin), files)
    known = sessions.last() if go_on else next((one for one in sessions.all() if one.id == session), None)
    settings = _settings(known, asking)
    if system is None and str(settings["model"]).startswith(LOCAL):
        system = _LOCAL_SYSTEM
    runner = _runner(sessions, **cast("Any", asking | settings))
    name = sessions.use(known.id if known else session, " ".join(words) or "piped in", settings)
    click.get_current_context().meta[_SESSION] = name
    try:
        outcome = runner.ask(name, given, system)
    except PendingToolsError as error:
        msg = f"something waits in this session; decide about it first: chat resume {shlex.quote(name)}"
        raise click.ClickException(msg) from error
    return _finish(name, outcome, as_json=bool(asking["as_json"]))


@chat.command()
@_STORE
@click.argument("session", required=False)
@_asking
@click.pass_obj
def resume(sessions: Sessions, /, session: str | None, **asking: object) -> int:
    """Go on with what waits in a session, the last one unless named."""
    known = sessions.require(session) if session else sessions.last()
    settings = _settings(known, asking)
    runner = _runner(sessions, **cast("Any", asking | settings))
    sessions.use(known.id, known.title, settings)
    click.get_current_context().meta[_SESSION] = known.id
    return _finish(known.id, runner.go_on(known.id), as_json=bool(asking["as_json"]))


@chat.command("sessions")
@_STORE
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
            click.echo(plain(f"{session.id:10} {session.used.astimezone():%Y-%m-%d %H:%M}  {session.title}{mark}"))
    return ANSWERED


@chat.command()
@_STORE
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
            click.echo(f"  {plain(line)}")
    return ANSWERED


@chat.command()
@_STORE
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
    """What is said now; else what is remembered of a session; else what the environment says."""
    said = {name: asking[name] for name in _REMEMBERED}
    said["model"] = from_anywhere(str(said["model"]))
    said["tools"] = [from_anywhere(place) for place in cast("Sequence[str]", said["tools"])]
    source = click.get_current_context().get_parameter_source
    told = {name for name in said if source(name) is ParameterSource.COMMANDLINE}
    kept = {} if session is None else {name: session.settings[name] for name in _REMEMBERED if name in session.settings}
    settings = said | kept | {name: said[name] for name in told}
    if "base_url" not in told and not str(settings["model"]).startswith(f"{COMPLETIONS}:"):
        return settings | {"base_url": None}  # an address that was said for another model
    return settings | {"base_url": settings["base_url"] or said["base_url"]}


def _runner(
    sessions: Sessions,
    *,
    model: str,
    base_url: str | None,
    tools: Sequence[str],
    approve: Approve,
    tool_choice: str | None,
    temperature: float | None,
    max_tokens: int | None,
    as_json: bool,
) -> Runner:
    found = scopes(tools, approve)
    choice = chosen(tool_choice, found)
    if max_tokens is None and model.startswith(LOCAL):
        max_tokens = _LOCAL_TOKENS
    if temperature is None and model == LOCAL:
        temperature = _LOCAL_TEMPERATURE
    options = ChatOptions(temperature=temperature, max_tokens=max_tokens, tool_choice=choice)
    person = person_here() if approve == "ask" else None
    return Runner(Freed(choose(model, base_url)), options, found, sessions, Screen(quiet=as_json), person)


def _finish(session: str, outcome: Outcome, *, as_json: bool) -> int:
    if as_json:
        click.echo(report(session, outcome))
    if isinstance(outcome, ChatResponse):
        return ANSWERED
    if not as_json:
        for wait in outcome.waiting:
            click.echo(f"⏸ {call(wait.name, wait.arguments)} waits", err=True)
        click.echo(f"stored; go on with: chat resume {shlex.quote(session)}", err=True)
    return WAITS


async def _waiting(sessions: Sessions) -> dict[str, int]:
    async with sessions.store() as store:
        found = [waiting.conversation for waiting in await store.waiting()]
    return {session: found.count(session) for session in set(found)}


async def _read(sessions: Sessions, session: str) -> tuple[str, list[Content]]:
    async with sessions.store() as store:
        messages = (await store.load(session)).messages
        return messages.to_json(), list(messages)


async def _delete(sessions: Sessions, session: str) -> None:
    # A session that came to nothing is in the list alone.
    async with sessions.store() as store:
        with suppress(UnknownConversationError):
            await store.delete(session)


def _lines(content: Content) -> list[str]:
    lines = content.text.splitlines()
    for tool in content.tools:
        lines.append(f"{call(tool.name, tool.effective_arguments)}: {type(tool.status).__name__.lower()}")
    return lines
