"""Texts of sessions: their order, and the search."""

from __future__ import annotations

import json
from typing import Any

from chat_core import FunctionCall
from chat_core.messages import Content, Text, Tool, Turn
from chat_terminal.session_texts import format_content


def test_calls_and_texts_are_shown_in_their_order() -> None:
    tool = Tool(FunctionCall("pay", {"cents": 1}, id="call_1"), call_id="call_1")
    content = Content("model", [Turn([Text("First\nI pay."), tool]), Turn([Text("Done.")])])

    assert format_content(content) == ["First", "I pay.", "pay(cents=1): pending", "Done."]


def test_sessions_are_searched_in_questions_answers_and_calls(chat: Any, user_dir: Any) -> None:
    chat("Name a river.", "--session", "rivers", *user_dir.talker)
    chat("Pay Bo.", "--session", "bills", *user_dir.payer, "--approve", "none")

    assert chat("sessions", "search", "LOIRE").out == "rivers     The Loire.\n"
    assert chat("sessions", "search", "name", "a").out == "rivers     Name a river.\n"
    (row,) = [json.loads(line) for line in chat("sessions", "search", "cents=500", "--json").out.splitlines()]
    assert (row["id"], row["line"]) == ("bills", 'pay(to="Bo", cents=500): pending')
    absent = chat("sessions", "search", "no", "such text")
    assert (absent.code, absent.out, absent.err) == (0, "", "No session contains 'no such text'.\n")
    assert len(chat("sessions").out.splitlines()) == 2


def test_long_lines_are_shortened_around_the_match(chat: Any, user_dir: Any) -> None:
    chat("x" * 200 + " needle " + "y" * 200, *user_dir.talker)

    line = chat("sessions", "search", "needle").out.strip()
    assert "…xxx" in line
    assert " needle yyy" in line
    assert line.endswith("y…")


def test_search_needs_a_text(chat: Any) -> None:
    assert chat("sessions", "search").code == 2
