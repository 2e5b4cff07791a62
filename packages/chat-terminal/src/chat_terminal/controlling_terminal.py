"""The person at the terminal, also where the standard streams lead elsewhere: `git diff | chat …`."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Final, TextIO

TERMINAL: Final = "/dev/tty"
"""The terminal of a process, whatever its streams are. POSIX has it."""


def person_here() -> str | None:
    """Who decides at this terminal; `None` where nobody can be asked."""
    with facing() as reachable:
        if not reachable:
            return None
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "somebody at a terminal"  # in a container, a user may have no name


@contextmanager
def facing() -> Generator[bool]:
    """Let what is asked be shown, and answered, at the terminal; whether there is a person at it.

    The standard streams are used where they lead to it. Where one does not, the terminal takes their place.
    """
    terminal = None if sys.stdin.isatty() and sys.stderr.isatty() and sys.stdout.isatty() else _terminal()
    if terminal is None:
        yield sys.stdin.isatty()
        return
    stdin, (reads, writes) = sys.stdin, terminal
    with reads, writes, redirect_stdout(writes), redirect_stderr(writes):
        sys.stdin = reads
        try:
            yield True
        finally:
            sys.stdin = stdin


def _terminal() -> tuple[TextIO, TextIO] | None:
    """The terminal to read from and to write to. None for a process in the background, which it would stop."""
    encoding = sys.stderr.encoding or "utf-8"
    with suppress(OSError):
        descriptor = os.open(TERMINAL, os.O_RDWR)
        if sys.platform == "win32" or os.tcgetpgrp(descriptor) != os.getpgrp():
            os.close(descriptor)
            return None
        reads = open(descriptor, encoding=encoding)  # noqa: SIM115, PTH123 - whoever asks closes it
        writes = open(os.dup(descriptor), "w", encoding=encoding, errors="backslashreplace")  # noqa: SIM115, PTH123
        return reads, writes
    return None
