"""Entry point and exit codes of the `chat` command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import cast

import click

from chat_terminal.commands import FAILED, INTERRUPTED, chat
from chat_terminal.screen import replace_control_characters


def main(argv: Sequence[str] | None = None) -> None:
    """Run the `chat` command and exit the process.

    Exit codes: 0 answered, 1 failed, 2 usage error, 3 a call waits for a decision, 130 ctrl-C, 143 SIGTERM.
    """
    terminated: list[int] = []

    def terminate(number: int, _frame: object) -> None:
        terminated.append(128 + number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job of a script
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)  # end like after ctrl-C: release the session and reset the terminal

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        code = _run(argv)
    finally:
        signal.signal(signal.SIGTERM, previous)
    sys.exit(terminated[0] if terminated else code)


def _run(argv: Sequence[str] | None) -> int:
    """Run the `chat` command, print its errors, and return the exit code."""
    _require_streams()
    try:
        # Click handles a broken pipe itself: it exits with 1 and prints nothing.
        return cast("int | None", chat.main(argv, prog_name="chat", standalone_mode=False)) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("", err=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - errors of files, databases and user code are printed on one line as well
        click.echo(replace_control_characters(f"{type(error).__name__}: {error}"), err=True)
        return FAILED


def _require_streams() -> None:
    """Replace closed standard streams by the null device, and escape characters that an output encoding lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the process exits
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
