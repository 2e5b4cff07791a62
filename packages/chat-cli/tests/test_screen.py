"""What a person sees."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
from chat_cli.screen import Screen, call, finished
from chat_core import FunctionCall, TextDelta, Tool, ToolStarted
from hypothesis import given
from hypothesis import strategies as st

ESCAPES = re.compile(r"\x1b\[[?\d;]*[a-zA-Z]")
PAGE = "# Rivers\n\nOne *and* two.\n\n```\na\n\nb\n```\n\nlast"


def test_finished_paragraphs_are_cut_off_and_a_block_of_code_stays_whole() -> None:
    assert finished("a\n\nb") == ("a\n\n", "b")
    assert finished("a\n```\nb\n\nc") == ("", "a\n```\nb\n\nc")
    assert finished(PAGE)[1] == "last"


@given(st.text(alphabet="ab`~# \n", max_size=60))
def test_nothing_is_lost_by_the_cut(text: str) -> None:
    done, rest = finished(text)

    assert done + rest == text


@given(st.lists(st.text(alphabet="ab \n", max_size=8), max_size=12))
def test_through_a_pipe_the_text_comes_as_it_is(pieces: list[str]) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        screen = Screen()
        for piece in pieces:
            screen.show(TextDelta(piece))
        screen.end()

    assert out.getvalue() == "".join(pieces) + ("\n" if pieces else "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_markdown_and_draws_no_finished_paragraph_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.redirect_stdout(Terminal()) as out:
        screen = Screen()
        screen.show(TextDelta("# Rivers\n\n"))
        heading = len(out.getvalue())
        for piece in ("One *and*", " two.\n\nThe", " last"):
            screen.show(TextDelta(piece))
        screen.end()

    first, then = out.getvalue()[:heading], ESCAPES.sub("", out.getvalue()[heading:])
    assert "Rivers" in first
    assert "# Rivers" not in first
    assert "Rivers" not in then
    assert "One and two." in then
    assert "The last" in then


def test_a_quiet_screen_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(quiet=True)
    screen.show(TextDelta("hello"))
    screen.show(ToolStarted(Tool(FunctionCall("pay", {}, id="call_1"))))
    screen.end()

    assert capsys.readouterr() == ("", "")


def test_a_call_is_a_line_of_code_in_any_script() -> None:
    assert call("pay", {"to": "Zoë", "cents": [1, None]}) == 'pay(to="Zoë", cents=[1, null])'
