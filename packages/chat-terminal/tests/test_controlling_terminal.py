"""The user at the terminal, with and without redirected streams."""

from __future__ import annotations

import getpass
import io
import os
import sys
from collections.abc import Generator
from contextlib import closing

import pytest
from chat_terminal import controlling_terminal
from chat_terminal.controlling_terminal import find_approver, redirect_to_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminal device")


class TerminalStream(io.StringIO):
    def isatty(self) -> bool:
        return True


def foreground_group(_descriptor: int) -> int:
    return os.getpgrp()


def other_group(_descriptor: int) -> int:
    return os.getpgrp() + 1


@pytest.fixture
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controlling_terminal, "TERMINAL", "/nonexistent/tty")


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Generator[int]:
    """The master side of a pseudo terminal that stands in for the controlling terminal."""
    master, slave = os.openpty()
    monkeypatch.setattr(controlling_terminal, "TERMINAL", os.ttyname(slave))
    monkeypatch.setattr(os, "tcgetpgrp", foreground_group)
    with closing(os.fdopen(master, "rb+", buffering=0)), closing(os.fdopen(slave, "rb+", buffering=0)):
        yield master


def test_approver_is_none_without_a_terminal(no_terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    assert find_approver() is None


def test_approver_is_the_user_if_stdin_is_a_terminal(no_terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TerminalStream())
    monkeypatch.setattr(getpass, "getuser", lambda: "ana")

    assert find_approver() == "ana"


def test_streams_that_are_terminals_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = TerminalStream(), TerminalStream(), TerminalStream()
    for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, stream)

    with redirect_to_terminal() as reachable:
        assert reachable
        assert (sys.stdin, sys.stdout, sys.stderr) == streams


def test_redirected_streams_are_replaced_by_the_terminal(master: int, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.StringIO("piped")
    monkeypatch.setattr(sys, "stdin", piped)

    with redirect_to_terminal() as reachable:
        assert reachable
        sys.stdout.write("approve?\n")
        sys.stdout.flush()
        assert os.read(master, 100) == b"approve?\r\n"
        os.write(master, b"yes\n")
        assert sys.stdin.readline() == "yes\n"
    assert sys.stdin is piped


def test_background_process_does_not_use_the_terminal(master: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(os, "tcgetpgrp", other_group)

    assert find_approver() is None
