"""The command `chat` in a terminal: prompts for approvals, and ctrl-C."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from pathlib import Path

import chat_terminal
import pytest

from .programs import Terminal

PROGRAM = Path(chat_terminal.__file__).parent
ANSWERED, WAITS, STOPPED = 0, 3, 130
QUESTION = "decide ([y]es, [e]dit, [n]o, [l]ater): "
MODULE = '''
import os

from chat_core import FunctionCall, ToolCollection
from chat_core.testing import Answer, ScriptedProvider

tools = ToolCollection()


@tools.tool
def pay(to: str, cents: int) -> str:
    """Pay somebody."""
    with open(os.path.join(os.path.dirname(__file__), "paid.txt"), "a") as file:
        file.write(f"{cents} cents to {to}\\n")
    return f"paid {cents} cents to {to}"


async def held():
    import anyio

    print("the model is thinking", flush=True)
    await anyio.sleep_forever()


call = FunctionCall("pay", {"to": "Bo", "cents": 500}, id="call_1")
model = ScriptedProvider(call, "It is **done**.", by_history=True)
slow = ScriptedProvider(Answer(["never"], before=held))
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MODULE)
    return tmp_path


def chat(folder: Path, *words: str, model: str = "model") -> Terminal:
    mine = folder / "mine.py"
    asking = ("--model", f"python:{mine}:{model}", "--tools", str(mine)) if words[0] == "ask" else ()
    return Terminal(
        *words, *asking, program=PROGRAM, environment={"CHAT_STORE": str(folder / "chats.db"), "COLUMNS": "80"}
    )


def paid(folder: Path) -> list[str]:
    file = folder / "paid.txt"
    return file.read_text().splitlines() if file.exists() else []


def stop(terminal: Terminal) -> int:
    """Press ctrl-C at a question until the program ends, and return its exit status.

    Python does not handle a signal that arrives between its last output and the blocking read until another signal
    arrives. A user presses the key again, and so does this function.
    """
    ended = threading.Event()

    def press() -> None:
        while not ended.wait(10):
            terminal.type("\x03")

    terminal.type("\x03")
    again = threading.Thread(target=press)
    again.start()
    try:
        return terminal.wait()
    finally:
        ended.set()
        again.join()


def test_arguments_are_edited_at_the_prompt_and_the_answer_is_shown(folder: Path) -> None:
    with chat(folder, "ask", "Pay Bo.") as terminal:
        terminal.until('pay(to="Bo", cents=500)')
        terminal.until(QUESTION)
        terminal.type("edit\n\n")
        terminal.until("cents [500]: ")
        terminal.type("300\n")
        assert terminal.wait() == ANSWERED
        assert "done" in terminal.seen
        assert "**" not in terminal.seen

    assert paid(folder) == ["300 cents to Bo"]


def test_a_postponed_call_is_resumed_with_its_model_and_tools(folder: Path) -> None:
    with chat(folder, "ask", "Pay Bo.") as terminal:
        terminal.until(QUESTION)
        terminal.type("later\n")
        assert terminal.wait() == WAITS
    assert paid(folder) == []

    with chat(folder, "resume") as terminal:
        terminal.until(QUESTION)
        terminal.type("approve\n")
        assert terminal.wait() == ANSWERED
    assert paid(folder) == ["500 cents to Bo"]


def test_ctrl_c_at_the_prompt_decides_nothing(folder: Path) -> None:
    with chat(folder, "ask", "Pay Bo.") as terminal:
        terminal.until(QUESTION)
        assert stop(terminal) == STOPPED
        assert "Traceback" not in terminal.seen

    with chat(folder, "sessions") as terminal:
        assert terminal.wait() == ANSWERED
        assert "⏸ 1" in terminal.seen
    assert paid(folder) == []


def test_ctrl_c_during_an_answer_keeps_the_question(folder: Path) -> None:
    with chat(folder, "ask", "Hello?", model="slow") as terminal:
        terminal.until("the model is thinking")
        terminal.type("\x03")
        assert terminal.wait() == STOPPED
        assert "Traceback" not in terminal.seen

    with chat(folder, "show") as terminal:
        assert terminal.wait() == ANSWERED
        assert [line.strip() for line in terminal.seen.splitlines()] == ["user:", "Hello?"]


# --- Piped input and output -------------------------------------------------------------------------------------------

SHELL = "import os, sys; os.execv('/bin/sh', ['sh', '-c', sys.argv[1]])"


def in_a_shell(folder: Path, line: str, *words: str) -> Terminal:
    """A line of a shell in a terminal of its own, in which CHAT is the command with these words."""
    mine = folder / "mine.py"
    command = (sys.executable, "-m", "chat_terminal", *words, "--model", f"python:{mine}:model", "--tools", str(mine))
    environment = {"CHAT_STORE": str(folder / "chats.db"), "COLUMNS": "80"}
    return Terminal(SHELL, line.replace("CHAT", shlex.join(command)), program=Path("-c"), environment=environment)


def test_an_approval_is_prompted_at_the_terminal_if_stdin_is_a_pipe(folder: Path) -> None:
    with in_a_shell(folder, "echo 'the bill' | CHAT", "Pay it.") as terminal:
        terminal.until('pay(to="Bo", cents=500)')
        terminal.until(QUESTION)
        terminal.type("approve\n")
        assert terminal.wait() == ANSWERED
        assert "done" in terminal.seen

    assert paid(folder) == ["500 cents to Bo"]


def test_an_approval_is_prompted_at_the_terminal_if_the_output_is_redirected(folder: Path) -> None:
    with in_a_shell(folder, f"cd {folder} && CHAT </dev/null >answer 2>notes", "ask", "Pay Bo.") as terminal:
        terminal.until('pay(to="Bo", cents=500)')
        terminal.until(QUESTION)
        terminal.type("edit\n\n")
        terminal.until("cents [500]: ")
        terminal.type("300\n")
        assert terminal.wait() == ANSWERED

    assert paid(folder) == ["300 cents to Bo"]
    assert (folder / "answer").read_text() == "It is **done**.\n"
    assert (folder / "notes").read_text() == '▶ pay(to="Bo", cents=300)\n✔ pay\n'


def test_json_output_is_not_mixed_with_the_approval_prompt(folder: Path) -> None:
    with in_a_shell(folder, f"CHAT >{folder}/answer", "ask", "Pay Bo.", "--json") as terminal:
        terminal.until(QUESTION)
        terminal.type("approve\n")
        assert terminal.wait() == ANSWERED

    answer = (folder / "answer").read_text()
    assert (answer[0], json.loads(answer)["text"]) == ("{", "It is **done**.")


def test_ctrl_c_at_the_prompt_decides_nothing_if_stdin_is_a_pipe(folder: Path) -> None:
    with in_a_shell(folder, "echo 'the bill' | CHAT", "Pay it.") as terminal:
        terminal.until(QUESTION)
        stop(terminal)
        assert "Traceback" not in terminal.seen

    with chat(folder, "sessions") as terminal:
        assert terminal.wait() == ANSWERED
        assert "⏸ 1" in terminal.seen
    assert paid(folder) == []


@pytest.mark.parametrize("how", ["{} --approve none", "setsid -w {}", "set -m; {} & wait $!"])
def test_no_approval_is_prompted_without_a_terminal(folder: Path, how: str) -> None:
    command = how.format("CHAT </dev/null")
    with in_a_shell(folder, f"{command}; echo ended with $?", "ask", "Pay Bo.") as terminal:
        terminal.until('pay(to="Bo", cents=500) waits')
        terminal.until(f"ended with {WAITS}")
        terminal.wait()

    assert paid(folder) == []
