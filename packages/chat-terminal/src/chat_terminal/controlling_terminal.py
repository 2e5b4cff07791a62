"""Access to the controlling terminal, even if the standard streams are redirected, as in `git diff | chat …`."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Final, TextIO

TERMINAL: Final = "/dev/tty"
"""Device file of the controlling terminal on POSIX systems."""


def find_approver() -> str | None:
    """Return the name of the user at the terminal, or None if the terminal cannot be used."""
    with redirect_to_terminal() as reachable:
        if not reachable:
            return None
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "somebody at a terminal"  # users of a container may have no name


@contextmanager
def redirect_to_terminal() -> Generator[bool]:
    """Make the standard streams refer to the terminal until the context exits.

    Nothing is replaced if all three streams are terminals, or if the terminal cannot be opened.

    Yields:
        Whether a user can be prompted.
    """
    terminal = None if sys.stdin.isatty() and sys.stderr.isatty() and sys.stdout.isatty() else _open_terminal()
    if terminal is None:
        yield sys.stdin.isatty()
        return
    stdin, (reader, writer) = sys.stdin, terminal
    with reader, writer, redirect_stdout(writer), redirect_stderr(writer):
        sys.stdin = reader
        try:
            yield True
        finally:
            sys.stdin = stdin


def discard_pending_input() -> None:
    """Discard what was typed on the terminal and not read yet. Do nothing if the standard input is not a terminal."""
    if not sys.stdin.isatty():
        return
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - exists only on Windows

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios  # noqa: PLC0415 - does not exist on Windows

        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _open_terminal() -> tuple[TextIO, TextIO] | None:
    """Open the terminal and return a reader and a writer, or None if that is not possible.

    A background process gets None, because the operating system would stop it when it reads from the terminal.
    """
    encoding = sys.stderr.encoding or "utf-8"
    with suppress(OSError):
        descriptor = os.open(TERMINAL, os.O_RDWR)
        if sys.platform == "win32" or os.tcgetpgrp(descriptor) != os.getpgrp():
            os.close(descriptor)
            return None
        reader = open(descriptor, encoding=encoding)  # noqa: SIM115, PTH123 - the caller closes it
        writer = open(os.dup(descriptor), "w", encoding=encoding, errors="backslashreplace")  # noqa: SIM115, PTH123 - the caller closes it
        return reader, writer
    return None
