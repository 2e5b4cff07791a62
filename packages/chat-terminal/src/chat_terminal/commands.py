"""Command line interface: `chat "question"`, and commands that manage sessions."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import click
from chat_core import Paused, PendingToolsError, StructuredResponse

from chat_terminal import session_commands, vendor_commands
from chat_terminal.command_words import KEY_USAGE, accepts_arguments, is_sentence, require_no_key, require_question
from chat_terminal.dialog import Dialog
from chat_terminal.inputs import build_parts, decode_question, read_piped_input
from chat_terminal.model_options import add_model_options, build_runner, choose_system_prompt, resolve_settings
from chat_terminal.runner import Outcome, format_failure, format_outcome
from chat_terminal.screen import format_call
from chat_terminal.session_commands import STORE_OPTION
from chat_terminal.sessions import Session, Sessions
from chat_terminal.templates import load_template, templates

ANSWERED, FAILED, WAITS, INTERRUPTED = 0, 1, 3, 130
"""Exit codes: answered, run failed, a call waits for a decision, ctrl-C. Click uses 2 for usage errors."""

_ARGUMENTS: Final = "chat_terminal.words"
_SESSION: Final = "chat_terminal.session"
"""Keys of `Context.meta` under which the command line and the session name are stored for failure reports."""


class QuestionGroup(click.Group):
    """Command group that treats any text that is not a command as a question: `chat "why is the sky blue?"`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Implement `click.Group.resolve_command`: return the named command, or `ask` with all arguments."""
        if args and args[0] in self.commands and not is_sentence(args, self.commands[args[0]]):
            return super().resolve_command(ctx, args)
        if args and args[0] not in self.commands:
            require_question(args, self.commands)
        return "ask", self.commands["ask"], args

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Implement `click.Command.parse_args`: let options of `ask` come first, as in `chat --model … "question"`."""
        own, rest = _split_group_options(args)
        if not rest and not sys.stdin.isatty():
            rest = ["ask"]  # the piped input is the question
        elif rest and rest[0].startswith("-") and rest[0] not in {"--help", "--version", "-h"}:
            rest = ["ask", *rest]
        ctx.meta[_ARGUMENTS] = rest
        with _report_failures_as_json(ctx, rest):
            return super().parse_args(ctx, [*own, *rest])

    def invoke(self, ctx: click.Context) -> object:
        """Implement `click.Command.invoke`: add a hint if a question may begin with a command's name."""
        words: Sequence[str] = ctx.meta[_ARGUMENTS]
        with _report_failures_as_json(ctx, words):
            try:
                return super().invoke(ctx)
            except click.UsageError as error:
                command = self.commands.get(words[0]) if words else None
                plain = [word for word in words[1:] if not word.startswith("-")]
                if command is None or accepts_arguments(plain, command):
                    raise
                if command.name == "keys":
                    raise click.UsageError(KEY_USAGE, error.ctx) from None
                if plain != words[1:]:
                    raise
                msg = f"{error.format_message()}\nIf it was a question: chat ask {shlex.join(words)}"
                raise click.UsageError(msg, error.ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Implement `click.Command.format_options`: list the options of `ask` before those of the group."""
        ask_command = self.commands["ask"]
        ask_context = click.Context(ask_command, parent=ctx, info_name="ask")
        own = {param.name for param in self.get_params(ctx)}
        options = [param for param in ask_command.params if isinstance(param, click.Option) and param.name not in own]
        records = [option.get_help_record(ask_context) for option in options]
        with formatter.section("Options of a question"):
            formatter.write_dl([record for record in records if record is not None])
        super().format_options(ctx, formatter)


@contextmanager
def _report_failures_as_json(ctx: click.Context, words: Sequence[str]) -> Generator[None]:
    """Print an error as one JSON object if `--json` was given, and re-raise it."""
    try:
        yield
    except (click.Abort, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        options = words[: words.index("--")] if "--" in words else words
        if "--json" in options:
            click.echo(format_failure(ctx.meta.get(_SESSION), error))
        raise


def _split_group_options(args: list[str]) -> tuple[list[str], list[str]]:
    """Split off the leading `--store` options, which belong to the group. Return them and the other arguments."""
    count = 0
    while count < len(args) and args[count].partition("=")[0] == "--store":
        count += 1 if "=" in args[count] else 2
    return args[:count], args[count:]


def _refuse_key(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - a text or pairs
    """Raise an error if the value of an option that is sent to the model seems to contain an API key."""
    for text in [value] if isinstance(value, str) else [text for _, text in value or ()]:
        require_no_key([text])
    return value


_SYSTEM: Final = click.option("--system", "-s", callback=_refuse_key, help="System prompt of a new session.")
_SESSION_NAME: Final = click.option("--session", help="Name of the session to continue or to create.")
_CONTINUE: Final = click.option("--continue", "-c", "resume_last", is_flag=True, help="Continue the last session.")


@click.group(
    cls=QuestionGroup,
    help="""Ask a model: `chat "a question"`, with files, pipes, tools and sessions.

    Without --model, the answer comes from a small model in this process: no key, no network.
    """,
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
    """Set the session file that the subcommands use.

    Args:
        ctx: Click context, whose `obj` becomes the `Sessions`.
        store: session file; None selects the file in the application directory of the user.
    """
    ctx.obj = Sessions(store or Path(click.get_app_dir("chat-core")) / "chats.db")


for _command in (*vendor_commands.COMMANDS, *session_commands.COMMANDS, templates):
    chat.add_command(_command)


@chat.command(help="Ask a question. Piped input and files are placed before it.")
@STORE_OPTION
@click.argument("words", nargs=-1)
@click.option("--file", "-f", "files", multiple=True, type=click.Path(path_type=Path), help="Attach a file.")
@_SYSTEM
@click.option("--template", metavar="NAME", help="Use a prompt template; `chat templates` lists them.")
@click.option(
    "--param",
    "-p",
    "params",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    callback=_refuse_key,
    help="Value of a placeholder.",
)
@_SESSION_NAME
@_CONTINUE
@add_model_options
@click.pass_obj
def ask(
    sessions: Sessions,
    /,
    *,
    words: tuple[str, ...],
    files: tuple[Path, ...],
    system: str | None,
    template: str | None,
    params: tuple[tuple[str, str], ...],
    session: str | None,
    resume_last: bool,
    **model_options: object,
) -> int:
    """Ask the model a question in a session, print the response, and return the exit code.

    Args:
        sessions: session file.
        words: words of the question.
        files: files to attach.
        system: system prompt of a new session.
        template: name of a prompt template.
        params: names and values of the placeholders of the template.
        session: name of the session; it is created if it does not exist.
        resume_last: whether to use the last session.
        **model_options: values of the options from `add_model_options`.
    """
    _require_session_name(session, resume_last=resume_last)
    if params and template is None:
        msg = "-p sets the value of a placeholder in a template: add --template NAME"
        raise click.UsageError(msg)
    require_no_key(words)
    words = (decode_question(" ".join(words)),)
    used = load_template(template)
    piped = read_piped_input(sys.stdin)
    if used.prompt:
        text = "\n\n".join(filter(None, ((piped or "").strip(), " ".join(words))))
        parts = build_parts([used.render(text, dict(params))], None, files)
    else:
        parts = build_parts(words, piped, files)
    known = _find_session(sessions, session, resume_last=resume_last)
    settings = resolve_settings(known, model_options, used)
    if model_options["schema"] is None:
        model_options["schema"] = used.schema
    runner = build_runner(sessions, **cast("Any", model_options | settings))
    name = _record_start(sessions, known, session, " ".join(words) or "piped in", settings)
    click.get_current_context().meta[_SESSION] = name
    try:
        with _record_settings(sessions, name, settings):
            outcome = runner.ask(name, parts, choose_system_prompt(system or used.system, settings))
    except PendingToolsError as error:
        msg = f"a call in this session waits for a decision; decide it first: chat resume {shlex.quote(name)}"
        raise click.ClickException(msg) from error
    return _print_outcome(name, outcome, as_json=bool(model_options["as_json"]))


@chat.command(help="Talk with the model. Type messages; a message interrupts the response. Ctrl-D ends the dialog.")
@STORE_OPTION
@_SYSTEM
@_SESSION_NAME
@_CONTINUE
@add_model_options
@click.pass_obj
def talk(
    sessions: Sessions,
    /,
    *,
    system: str | None,
    session: str | None,
    resume_last: bool,
    **model_options: object,
) -> int:
    """Talk with the model until the input ends, and return the exit code.

    Args:
        sessions: session file.
        system: system prompt of a new session.
        session: name of the session; it is created if it does not exist.
        resume_last: whether to use the last session.
        **model_options: values of the options from `add_model_options`.
    """
    if model_options["as_json"] or model_options["schema"] is not None or not sys.stdin.isatty():
        msg = 'a dialog needs a terminal, without --json and --schema: for one question, use chat "a question"'
        raise click.UsageError(msg)
    _require_session_name(session, resume_last=resume_last)
    known = _find_session(sessions, session, resume_last=resume_last)
    settings = resolve_settings(known, model_options)
    runner = build_runner(sessions, **cast("Any", model_options | settings), plain=True)
    name = _record_start(sessions, known, session, "a dialog", settings)
    dialog = Dialog(runner, name, choose_system_prompt(system, settings))
    try:
        paused = dialog.run()
    except click.Abort:
        _print_resume_command(name, after_prompt=True)
        raise
    finally:
        if dialog.has_answered:
            sessions.record_use(name, "a dialog", settings)
    return ANSWERED if paused is None else _print_outcome(name, paused, as_json=False)


@chat.command(help="Decide the waiting calls of a session and continue it. Default: the last session.")
@STORE_OPTION
@click.argument("session", required=False)
@add_model_options
@click.pass_obj
def resume(sessions: Sessions, /, session: str | None, **model_options: object) -> int:
    """Resume a session, print the response, and return the exit code.

    Args:
        sessions: session file.
        session: name of the session; None selects the last session.
        **model_options: values of the options from `add_model_options`.
    """
    known = sessions.get(session) if session else sessions.last()
    settings = resolve_settings(known, model_options)
    runner = build_runner(sessions, **cast("Any", model_options | settings))
    _record_start(sessions, known, None, known.title, settings)
    click.get_current_context().meta[_SESSION] = known.id
    try:
        with _record_settings(sessions, known.id, settings):
            outcome = runner.resume(known.id)
    except PendingToolsError as error:
        if model_options["approve"] != "all":
            raise
        name = shlex.quote(known.id)
        msg = f"calls of this session wait: --approve all applies to later calls only; decide them: chat resume {name}"
        raise click.ClickException(msg) from error
    return _print_outcome(known.id, outcome, as_json=bool(model_options["as_json"]))


# --- Helpers ----------------------------------------------------------------------------------------------------------


def _require_session_name(session: str | None, *, resume_last: bool) -> None:
    """Raise an error if the options select no session or several, or if the session name has no visible characters."""
    if resume_last and session is not None:
        msg = f"--continue is for the last session, and --session for {session!r}: use one of them"
        raise click.UsageError(msg)
    if session is not None and not (session.strip() and session.isprintable()):
        msg = f"the name of a session must be visible text, not {session!r}"
        raise click.UsageError(msg)


def _find_session(sessions: Sessions, session: str | None, *, resume_last: bool) -> Session | None:
    """Return the selected session, or None if it is new."""
    if resume_last:
        return sessions.last()
    return next((one for one in sessions.list_all() if one.id == session), None)


def _record_start(
    sessions: Sessions, known: Session | None, name: str | None, title: str, settings: Mapping[str, object]
) -> str:
    """Record that a session is used now, with the settings that it has or that a new session gets. Return its name."""
    return sessions.record_use(known.id if known else name, title, known.settings if known else settings)


@contextmanager
def _record_settings(sessions: Sessions, session: str, settings: Mapping[str, object]) -> Generator[None]:
    """Record the settings of a run that succeeded or paused. The settings of a failed run may be wrong."""
    try:
        yield
    except click.Abort:  # the user left the prompt for a decision
        sessions.record_use(session, "", settings)
        _print_resume_command(session, after_prompt=True)
        raise
    sessions.record_use(session, "", settings)


def _print_resume_command(session: str, *, after_prompt: bool = False) -> None:
    if after_prompt:
        click.echo("", err=True)  # ctrl-C leaves the cursor after the prompt
    click.echo(f"stored; continue with: chat resume {shlex.quote(session)}", err=True)


def _print_outcome(session: str, outcome: Outcome, *, as_json: bool) -> int:
    if as_json:
        click.echo(format_outcome(session, outcome))
    elif isinstance(outcome, StructuredResponse):
        click.echo(json.dumps(json.loads(outcome.raw), indent=2, ensure_ascii=False))
    if not isinstance(outcome, Paused):
        return ANSWERED
    if not as_json:
        for wait in outcome.waiting:
            click.echo(f"⏸ {format_call(wait.name, wait.arguments)} waits", err=True)
        _print_resume_command(session)
    return WAITS
