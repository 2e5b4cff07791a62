"""The demo in a terminal: questions, colors, ctrl-C."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_core import Interrupted, Pending

from .programs import Terminal, held_at, payments, run, the_answer, the_tool, words

WAITS, INTERRUPTED, STOPPED = 3, 4, 130
QUESTION = "approve, edit or reject? "


def test_arguments_are_edited_at_the_terminal(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    with Terminal(*words(tmp_path, "decide")) as terminal:
        terminal.until(QUESTION)
        terminal.type("perhaps\n")
        terminal.until(QUESTION)
        terminal.type("e\n")
        terminal.until("to [Bo] = ")
        terminal.type("\n")
        terminal.until("cents [500] = ")
        terminal.type("300\n")
        assert terminal.wait() == 0
        assert "That is settled." in terminal.seen

    assert payments(tmp_path) == ["300 cents to Bo"]
    assert the_tool(tmp_path).decisions[0].by == "ana"


def test_an_invalid_edit_prompts_again(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    with Terminal(*words(tmp_path, "decide")) as terminal:
        for cents in ("0", "300"):
            terminal.until(QUESTION)
            terminal.type("edit\n\n" + cents + "\n")
        assert terminal.wait() == 0
        assert "this cannot run" in terminal.seen

    assert payments(tmp_path) == ["300 cents to Bo"]


def test_ctrl_c_at_the_prompt_decides_nothing_and_the_prompt_returns(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    for typed in ("\x03", "reject\n", "edit\n"):
        with Terminal(*words(tmp_path, "decide")) as terminal:
            terminal.until(QUESTION)
            if typed != "\x03":
                terminal.type(typed)
                terminal.until("why? " if typed == "reject\n" else "to [Bo] = ")
            terminal.type("\x03")
            assert terminal.wait() == STOPPED
            assert "nothing else was decided" in terminal.seen
            assert "Traceback" not in terminal.seen
        tool = the_tool(tmp_path)
        assert isinstance(tool.status, Pending)
        assert tool.decisions == ()

    with Terminal(*words(tmp_path, "decide")) as terminal:
        terminal.until(QUESTION)
        terminal.type("approve\n")
        assert terminal.wait() == 0
    assert payments(tmp_path) == ["500 cents to Bo"]


def test_end_of_input_at_the_prompt_decides_nothing(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    with Terminal(*words(tmp_path, "decide")) as terminal:
        terminal.until(QUESTION)
        terminal.type("\x04")
        assert terminal.wait() == WAITS
    assert the_tool(tmp_path).decisions == ()


def test_the_demo_continues_after_ctrl_c_at_the_prompt(tmp_path: Path) -> None:
    with Terminal(*words(tmp_path)) as terminal:
        terminal.until(QUESTION)
        terminal.type("\x03")
        assert terminal.wait() == STOPPED
        assert "Traceback" not in terminal.seen
    assert the_tool(tmp_path).decisions == ()

    with Terminal(*words(tmp_path)) as terminal:
        terminal.until("a call is still waiting")
        terminal.until(QUESTION)
        terminal.type("approve\n")
        assert terminal.wait() == 0
    assert payments(tmp_path) == ["500 cents to Bo"]
    assert the_answer(tmp_path) == "That is settled."


def test_the_outcome_of_an_interrupted_call_is_entered_at_the_terminal(tmp_path: Path, gate: Path) -> None:
    run(*words(tmp_path, "ask"))
    with Terminal(*words(tmp_path, "decide", "--hold", gate)) as terminal:
        terminal.until(QUESTION)
        terminal.type("approve\n")
        with held_at(gate):
            terminal.kill()

    with Terminal(*words(tmp_path, "decide")) as terminal:
        terminal.until("1 payment(s) of this call")
        terminal.until("complete, retry or fail? ")
        terminal.type("complete\n")
        terminal.until("what came of it? ")
        terminal.type("It was paid.\n")
        assert terminal.wait() == 0
    assert payments(tmp_path) == ["500 cents to Bo"]
    assert the_answer(tmp_path) == "That is settled."


def test_ctrl_c_inside_a_tool_interrupts_its_call(tmp_path: Path, gate: Path) -> None:
    run(*words(tmp_path, "ask"))
    with Terminal(*words(tmp_path, "decide", "--hold", gate)) as terminal:
        terminal.until(QUESTION)
        terminal.type("approve\n")
        with held_at(gate):
            terminal.type("\x03")
            assert terminal.wait() == STOPPED
        assert "Traceback" not in terminal.seen

    assert isinstance(the_tool(tmp_path).status, Interrupted)
    assert run(*words(tmp_path, "decide", "--approve"))[0] == INTERRUPTED
    assert payments(tmp_path) == ["500 cents to Bo"]


@pytest.mark.parametrize(
    ("name", "value", "coloured"), [("TERM", "xterm", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)]
)
def test_terminal_output_is_colored_unless_disabled(tmp_path: Path, name: str, value: str, coloured: bool) -> None:
    with Terminal(*words(tmp_path, "ask"), environment={name: value}) as terminal:
        assert terminal.wait() == 0
    assert ("\x1b[" in terminal.seen) == coloured


def test_output_without_a_terminal_is_not_colored(tmp_path: Path) -> None:
    assert "\x1b[" not in run(*words(tmp_path, "ask"))[1]
