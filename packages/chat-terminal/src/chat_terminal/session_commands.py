"""Commands about sessions: `chat sessions`, `chat show` and `chat forget`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import anyio
import click
from chat_core.messages import Content
from chat_store import UnknownConversationError

from chat_terminal.screen import replace_control_characters
from chat_terminal.session_texts import find_sessions, format_content
from chat_terminal.sessions import Sessions


def _use_store(ctx: click.Context, _param: click.Parameter, store: Path | None) -> None:
    """Make the current command use the session file that `--store` names (Click callback)."""
    if store is not None:
        ctx.obj = Sessions(store)


STORE_OPTION: Final = click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    expose_value=False,
    callback=_use_store,
    help="The file of the sessions.",
)
"""The option `--store` of every command, so that it can also follow the command's name."""

_AS_JSON_LINES: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")


@click.group(
    "sessions",
    help="""List the sessions, the last used session first.

    ⏸ is followed by the number of waiting calls. ↻ is a run that did not end; after a crash, it is known within 30
    seconds.
    """,
    invoke_without_command=True,
)
@STORE_OPTION
@_AS_JSON_LINES
@click.pass_context
def list_sessions(ctx: click.Context, /, *, as_json: bool) -> int:
    """Print each session with its number of waiting tool calls, and return the exit code.

    Args:
        ctx: Click context. A subcommand runs instead.
        as_json: whether to print one JSON object per session.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    sessions = cast("Sessions", ctx.obj)
    waiting, unfinished = anyio.run(_load_states, sessions)
    for session in sessions.list_all():
        count = waiting.get(session.id, 0)
        if as_json:
            row = {"id": session.id, "title": session.title, "used": session.last_used.isoformat(), "waiting": count}
            row["unfinished"] = session.id in unfinished
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            mark = f"  ⏸ {count}" if count else "  ↻" if session.id in unfinished else ""
            click.echo(
                replace_control_characters(
                    f"{session.id:10} {session.last_used.astimezone():%Y-%m-%d %H:%M}  {session.title}{mark}"
                )
            )
    return 0


@list_sessions.command("search", help="List the sessions that contain a text, with the line that contains it.")
@STORE_OPTION
@click.argument("words", nargs=-1, required=True)
@_AS_JSON_LINES
@click.pass_obj
def search_sessions(sessions: Sessions, /, *, words: tuple[str, ...], as_json: bool) -> int:
    """Print each session with a text or a call that contains the words, in any case, and return the exit code.

    Args:
        sessions: session file.
        words: words to find. They must occur in this order, separated by one space.
        as_json: whether to print one JSON object per session.
    """
    text = " ".join(words)
    found = anyio.run(find_sessions, sessions, text)
    if not found:
        click.echo(f"No session contains {text!r}.", err=True)
    for session, line in found:
        if as_json:
            click.echo(json.dumps({"id": session.id, "title": session.title, "line": line}, ensure_ascii=False))
        else:
            click.echo(replace_control_characters(f"{session.id:10} {line}"))
    return 0


@click.command(help="Show a session. Default: the last session.")
@STORE_OPTION
@click.argument("session", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the whole stored document.")
@click.pass_obj
def show(sessions: Sessions, /, session: str | None, *, as_json: bool) -> int:
    """Print the conversation of a session, and return the exit code.

    Args:
        sessions: session file.
        session: name of the session; None selects the last session.
        as_json: whether to print the stored document.
    """
    name = (sessions.get(session) if session else sessions.last()).id
    document, contents = anyio.run(_load_session, sessions, name)
    if as_json:
        click.echo(document)
    for content in [] if as_json else contents:
        click.echo(f"{content.role}:")
        for line in format_content(content):
            click.echo(f"  {replace_control_characters(line)}")
    return 0


@click.command(help="Delete a session and its history.")
@STORE_OPTION
@click.argument("session")
@click.pass_obj
def forget(sessions: Sessions, /, session: str) -> int:
    """Delete a session and its conversation, and return the exit code.

    Args:
        sessions: session file.
        session: name of the session.
    """
    name = sessions.get(session).id
    anyio.run(_delete_conversation, sessions, name)
    sessions.remove(name)
    return 0


async def _load_states(sessions: Sessions) -> tuple[Mapping[str, int], Container[str]]:
    """Return the numbers of waiting calls by session, and the sessions that a run can continue, as after a crash."""
    async with sessions.store() as store:
        waiting = Counter(waiting.conversation for waiting in await store.waiting())
        return waiting, {due.conversation for due in await store.due()}


async def _load_session(sessions: Sessions, session: str) -> tuple[str, list[Content]]:
    async with sessions.store() as store:
        messages = (await store.load(session)).messages
        return messages.to_json(), list(messages)


async def _delete_conversation(sessions: Sessions, session: str) -> None:
    # A session whose first run failed early has no stored conversation.
    async with sessions.store() as store:
        with suppress(UnknownConversationError):
            await store.delete(session)


COMMANDS: Final = (list_sessions, show, forget)
"""The commands of this module, for the group `chat`."""
