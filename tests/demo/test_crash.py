"""`kill -9` at critical points, and two processes at once: nothing is lost, and no payment happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_core import Completed, Failed, Interrupted, Pending, Running

from .programs import Program, Terminal, first_to_end, held_at, payments, run, the_answer, the_tool, words

WAITS, INTERRUPTED, CLAIMED = 3, 4, 5


def killed_in_the_tool(folder: Path, gate: Path) -> None:
    """Ask, approve with an edit, and kill the process with `kill -9` after the payment, before the tool returns."""
    run(*words(folder, "ask"))
    with Program(*words(folder, "decide", "--edit", "cents=300", "--hold", gate)) as process, held_at(gate):
        process.kill()
    assert payments(folder) == ["300 cents to Bo"]
    assert isinstance(the_tool(folder).status, Running)


def test_a_call_whose_process_was_killed_is_reported_and_not_repeated(tmp_path: Path, gate: Path) -> None:
    killed_in_the_tool(tmp_path, gate)

    code, output = run(*words(tmp_path, "decide", "--approve"))

    assert code == INTERRUPTED
    assert 'pay(to="Bo", cents=300)' in output
    assert "interrupted" in output
    assert "payments.txt has 1 payment(s) of this call" in output
    assert isinstance(the_tool(tmp_path).status, Interrupted)
    assert payments(tmp_path) == ["300 cents to Bo"]
    code, output = run(*words(tmp_path, "list"))
    assert code == WAITS
    assert "was interrupted, and may have taken effect" in output


@pytest.mark.parametrize("word", ["--complete", "--retry", "--fail"])
def test_an_interrupted_call_is_completed_retried_or_failed_by_the_user(tmp_path: Path, gate: Path, word: str) -> None:
    killed_in_the_tool(tmp_path, gate)

    said = [word] if word == "--retry" else [word, "I looked it up."]
    code, _ = run(*words(tmp_path, "decide", *said, "--by", "ben"))

    assert code == 0
    assert the_answer(tmp_path) == "That is settled."
    tool = the_tool(tmp_path)
    assert [(decision.action, decision.by) for decision in tool.decisions] == [("approve", "ana"), (word[2:], "ben")]
    if word == "--retry":
        assert payments(tmp_path) == ["300 cents to Bo"] * 2
        assert tool.attempts == 2
    else:
        assert payments(tmp_path) == ["300 cents to Bo"]
        assert tool.status == (Completed if word == "--complete" else Failed)("I looked it up.")


def test_a_process_killed_after_a_pause_has_stored_it(tmp_path: Path, gate: Path) -> None:
    with Program(*words(tmp_path, "ask", "--hold", gate)) as process, held_at(gate):
        process.kill()
        assert "⏸" in process.output
    assert isinstance(the_tool(tmp_path).status, Pending)

    code, _ = run(*words(tmp_path, "decide", "--edit", "cents=300"))

    assert code == 0
    assert payments(tmp_path) == ["300 cents to Bo"]
    assert the_answer(tmp_path) == "That is settled."


def test_only_one_of_two_processes_that_resume_a_call_pays(tmp_path: Path, gate: Path) -> None:
    run(*words(tmp_path, "ask"))
    command = words(tmp_path, "decide", "--approve", "--hold", gate)
    with Program(*command) as one, Program(*command) as other:
        with held_at(gate):
            loser = first_to_end(one, other)
            assert loser.wait() == CLAIMED
            assert "ConflictError" in loser.output
            assert payments(tmp_path) == ["500 cents to Bo"]
        winner = one if loser is other else other
        assert winner.wait() == 0

    assert payments(tmp_path) == ["500 cents to Bo"]
    assert the_answer(tmp_path) == "That is settled."
    assert len(the_tool(tmp_path).decisions) == 1


def test_a_decision_after_that_of_another_user_raises_a_conflict(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    with Terminal(*words(tmp_path, "decide", "--by", "ben")) as ben:
        ben.until("approve, edit or reject? ")
        assert run(*words(tmp_path, "decide", "--edit", "cents=300"))[0] == 0

        ben.type("approve\n")

        assert ben.wait() == CLAIMED
        assert "ConflictError" in ben.seen
    assert payments(tmp_path) == ["300 cents to Bo"]
    assert [decision.by for decision in the_tool(tmp_path).decisions] == ["ana"]
