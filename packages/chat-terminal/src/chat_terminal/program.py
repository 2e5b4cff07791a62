"""The whole program: what it is told, and how its process ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import cast

import click

from chat_terminal.commands import FAILED, INTERRUPTED, chat
from chat_terminal.screen import plain


def main(words: Sequence[str] | None = None) -> None:
    """Run the command, and end the process with its exit code.

    0: answered. 1: it failed. 2: the words make no command. 3: a call waits for somebody. 130: ctrl-C.
    """
    sys.exit(_run(words))


def _run(words: Sequence[str] | None) -> int:
    _require_streams()
    try:
        # A reader that has left is the business of click: it ends the process with 1, and nothing is complained about.
        return cast("int | None", chat.main(words, prog_name="chat", standalone_mode=False)) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("", err=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a file, a database or a model of the user's own fails in a line, too
        click.echo(plain(f"{type(error).__name__}: {error}"), err=True)
        return FAILED


def _require_streams() -> None:
    """Put nothing in the place of a stream that was closed, and let a narrow one take every sign."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
