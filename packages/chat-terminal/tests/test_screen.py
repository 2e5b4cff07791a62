"""Terminal output."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
from chat_core import FunctionCall, TextDelta, Tool, ToolStarted
from chat_terminal.screen import Screen, format_call, split_finished
from hypothesis import given
from hypothesis import strategies as st

ESCAPES = re.compile(r"\x1b\[[?\d;]*[a-zA-Z]")
PAGE = "# Rivers\n\nOne *and* two.\n\n```\na\n\nb\n```\n\nlast"


def test_split_finished_keeps_code_blocks_together() -> None:
    assert split_finished("a\n\nb") == ("a\n\n", "b")
    assert split_finished("a\n```\nb\n\nc") == ("", "a\n```\nb\n\nc")
    assert split_finished(PAGE)[1] == "last"
    for inner in ("```", "~~~", "```` python"):
        assert split_finished(f"````\n{inner}\na\n\nb")[0] == ""
    assert split_finished("````\n```\n\n````\n\nb")[1] == "b"


@given(st.text(alphabet="ab`~# \n", max_size=60))
def test_split_finished_loses_no_text(text: str) -> None:
    done, rest = split_finished(text)

    assert done + rest == text


@given(st.lists(st.text(alphabet="ab \n", max_size=8), max_size=12))
def test_text_written_to_a_pipe_is_unchanged(pieces: list[str]) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        screen = Screen()
        for piece in pieces:
            screen.show_event(TextDelta(piece))
        screen.finish_text()

    assert out.getvalue() == "".join(pieces) + ("\n" if pieces else "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_finished_paragraphs_are_not_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.redirect_stdout(Terminal()) as out:
        screen = Screen()
        screen.show_event(TextDelta("# Rivers\n\n"))
        heading = len(out.getvalue())
        for piece in ("One *and*", " two.\n\nThe", " last"):
            screen.show_event(TextDelta(piece))
        screen.finish_text()

    first, then = out.getvalue()[:heading], ESCAPES.sub("", out.getvalue()[heading:])
    assert "Rivers" in first
    assert "# Rivers" not in first
    assert "Rivers" not in then
    assert "One and two." in then
    assert "The last" in then


def test_one_blank_line_separates_streamed_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with contextlib.redirect_stdout(Terminal()) as out:
        screen = Screen()
        screen.show_event(TextDelta("\n\n"))
        for block in ("One.", "Two.", "1. three", "- four", "## Five", "Six."):
            screen.show_event(TextDelta(f"{block}\n\n"))
        screen.finish_text()
        screen.show_event(TextDelta("Seven.\n\n"))
        screen.finish_text()

    shown = [line.strip() for line in ESCAPES.sub("", out.getvalue()).splitlines()]
    assert shown == ["One.", "", "Two.", "", "1 three", "", "• four", "", "Five", "", "Six.", "Seven."]


def test_quiet_screen_prints_no_events(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(quiet=True)
    screen.show_event(TextDelta("hello"))
    screen.show_event(ToolStarted(Tool(FunctionCall("pay", {}, id="call_1"))))
    screen.finish_text()

    assert capsys.readouterr() == ("", "")


def test_format_call_looks_like_python_code() -> None:
    assert format_call("pay", {"to": "Zoë", "cents": [1, None]}) == 'pay(to="Zoë", cents=[1, null])'


BELL = "a\x1b]0;title\x07b\x9b31mc\rd"


def test_control_characters_of_model_output_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.redirect_stdout(Terminal()) as out, contextlib.redirect_stderr(Terminal()) as err:
        screen = Screen()
        screen.show_event(TextDelta(BELL))
        screen.print_progress(BELL)

    assert "a�]0;title�b�31mcd" in out.getvalue()
    assert "a�]0;title�b�31mcd" in err.getvalue()


def test_print_line_shows_invisible_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().print_line("why: a\u3164b\ufe0f\u202e")

    assert capsys.readouterr().err == "why: a\\u3164b\\ufe0f\\u202e\n"


def test_format_call_escapes_invisible_characters() -> None:
    assert format_call("pay", {"to": "Bo\u3164\u034f\ufe0f\U000e0100"}) == r'pay(to="Bo\u3164\u034f\ufe0f\udb40\udd00")'
    arguments = {"to\x1b": "Bo\u202egnp\x9b\u200b", "many": ["\U000e0041"]}

    assert format_call("pay", arguments) == r'pay(to\u001b="Bo\u202egnp\u009b\u200b", many=["\udb40\udc41"])'


def test_print_line_prints_on_a_quiet_screen(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(quiet=True).print_line("decide")

    assert capsys.readouterr() == ("", "decide\n")


def test_progress_line_written_to_a_pipe_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().print_progress("word " * 60)

    assert capsys.readouterr().err == "word " * 60 + "\n"
