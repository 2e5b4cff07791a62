"""`kill -9` at every durable step and inside the tools: nothing is lost, nothing runs twice, every run ends."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from chat_core.messages import Completed, Interrupted

from .processes import Event, Sample, Server, decide, effects, history_of, messages_of, overtake

PHASES = ("before", "half", "written", "synced")
TOOLS = ("pay-1", "note-a", "ship-x", "pay-2")
ONCE = ("pay-1", "ship-x", "pay-2")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def finish(server: Server, path: Path, ledger: Path) -> tuple[list[Event], list[str]]:
    """Resume and decide until there is an answer: every outcome, and the calls that were reported as interrupted."""
    outcomes: list[Event] = []
    interrupted: list[str] = []
    while not answered(path):
        assert len(outcomes) < 8, outcomes
        outcomes.append(server.run(path=path, ledger=ledger))
        assert outcomes[-1]["kind"] in ("Done", "Paused"), outcomes
        if outcomes[-1]["kind"] == "Paused":
            before = effects(ledger)
            interrupted += decide(path, ledger)
            assert effects(ledger) == before
    return outcomes, interrupted


def keep(path: Path, ledger: Path, name: str) -> None:
    folder = path.parent / name
    folder.mkdir()
    for file in (path, ledger):
        if file.exists():
            shutil.copy(file, folder)


def restore(folder: Path, name: str, copy: str) -> tuple[Path, Path]:
    """Restore the conversation and the ledger from the copies."""
    shutil.copytree(folder / name, folder / copy)
    return folder / copy / "chat.jsonl", folder / copy / "ledger"


def require_whole(path: Path, ledger: Path) -> None:
    """Require every effect, once if it may happen only once, and the results in the conversation."""
    done = effects(ledger)
    assert {name: done[name] for name in ONCE} == dict.fromkeys(ONCE, 1)
    assert done["note-a"] >= 1
    keys = {line.split()[1] for line in ledger.read_text().splitlines() if line.startswith("note")}
    assert len(keys) == 1
    messages = messages_of(path)
    assert messages.contents[-1].turns[-1].text == "Everything is done."
    assert not messages.pending()
    tools = [tool for content in messages for tool in content.tools]
    assert all(isinstance(tool.status, Completed) for tool in tools)
    assert [[decision.by for decision in tool.decisions][:1] for tool in tools if tool.name == "pay"] == [["ana"]] * 2


def answered(path: Path) -> bool:
    """Whether the model has sent its last response. Its process may have died before that."""
    messages = messages_of(path)
    last = messages.last
    return last is not None and last.role == "model" and not last.turns[-1].tools


def steps_of_each_run(server: Server, path: Path, ledger: Path, *, snapshots: bool) -> list[int]:
    """Return the number of durable steps of each uninterrupted run. The files as they are before each run are kept."""
    steps: list[int] = []
    while True:
        keep(path, ledger, f"before-{len(steps)}")
        server.order(path=path, ledger=ledger, step=0, phase="none", snapshots=snapshots)
        outcome = server.until("outcome")
        steps.append(cast("int", server.until("steps")["steps"]))
        server.until("gone")
        if outcome["kind"] == "Done":
            return steps
        decide(path, ledger)


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_run_killed_at_any_durable_step_loses_and_repeats_nothing(
    server: Server, tmp_path: Path, sample: Sample, *, snapshots: bool
) -> None:
    runs = steps_of_each_run(server, tmp_path / "chat.jsonl", tmp_path / "ledger", snapshots=snapshots)
    assert (b'"snapshot":' in (tmp_path / "chat.jsonl").read_bytes()) == snapshots
    assert len(runs) == 3
    kills = [(n, step, phase) for n, steps in enumerate(runs) for step in range(1, steps + 1) for phase in PHASES]
    assert len(kills) >= 50
    for number, step, phase in sample(kills, 16):
        path, ledger = restore(tmp_path, f"before-{number}", f"{number}-{step}-{phase}")
        durable = history_of(path) if number else []
        backend = "trio" if step % 2 else "asyncio"
        server.order(path=path, ledger=ledger, step=step, phase=phase, backend=backend, snapshots=snapshots)
        server.end(server.until("reached"))
        after = history_of(path)
        assert [entry.tool for entry in after[: len(durable)]] == [entry.tool for entry in durable]
        finish(server, path, ledger)
        require_whole(path, ledger)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("phase", ["begun", "done"])
def test_a_tool_whose_process_was_killed_is_reported_and_not_repeated(
    server: Server, tmp_path: Path, tool: str, phase: str
) -> None:
    path, ledger = tmp_path / "chat.jsonl", tmp_path / "ledger"
    while True:
        server.order(path=path, ledger=ledger, tool=tool, phase=phase)
        event = server.until("reached", "outcome")
        if event["event"] == "reached":
            break
        server.until("gone")
        decide(path, ledger)
    server.end(event)
    before = effects(ledger)
    assert before[tool] == (phase == "done")
    outcome = server.run(path=path, ledger=ledger)
    if tool == "note-a":
        assert effects(ledger)[tool] == before[tool] + 1
    else:
        assert outcome["kind"] == "Paused"
        assert "interrupted" in [kind for kind, _ in cast("list[list[str]]", outcome["waiting"])]
        assert [type(item.status) for item in messages_of(path).pending()].count(Interrupted) == 1
        assert effects(ledger)[tool] == before[tool]
        assert len(decide(path, ledger)) == 1
    decide(path, ledger)
    finish(server, path, ledger)
    require_whole(path, ledger)


def test_two_processes_that_resume_one_pause_run_its_call_once(server: Server, tmp_path: Path) -> None:
    with Server() as other:
        for number in range(10):
            path, ledger, gate = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.ledger", tmp_path / f"{number}.go"
            assert server.run(path=path, ledger=ledger)["kind"] == "Paused"
            decide(path, ledger)
            # The winner stops inside the payment, so that the other process starts while its lease is valid.
            for process in (server, other):
                process.order(path=path, ledger=ledger, gate=gate, tool="pay-1", phase="done")
            for process in (server, other):
                process.until("ready")
            gate.touch()
            first, second = (process.until("outcome", "reached") for process in (server, other))
            winner, loser = (second, first) if second["event"] == "reached" else (first, second)
            assert winner["event"] == "reached"
            assert loser["kind"] == "ConflictError"
            assert effects(ledger)["pay-1"] == 1
            (server if winner is first else other).end(winner)
            (other if winner is first else server).until("gone")
            finish(server, path, ledger)
            require_whole(path, ledger)


def test_a_run_that_stalls_past_its_lease_stores_its_result_as_late(server: Server, tmp_path: Path) -> None:
    path, ledger = tmp_path / "chat.jsonl", tmp_path / "ledger"
    assert server.run(path=path, ledger=ledger)["kind"] == "Paused"
    decide(path, ledger)
    gate = tmp_path / "go"
    server.order(path=path, ledger=ledger, tool="pay-1", phase="done", resume=gate)
    reached = server.until("reached")
    pid = cast("int", reached["pid"])
    os.kill(pid, signal.SIGSTOP)
    messages = overtake(path)
    assert isinstance(messages.tool("call_pay").status, Interrupted)
    gate.touch()
    os.kill(pid, signal.SIGCONT)
    outcome = server.until("outcome")
    assert outcome["kind"] == "LeaseLostError"
    server.until("gone")
    late = [entry for entry in history_of(path) if entry.event == "late"]
    assert [entry.path for entry in late] == [("call_pay",)]
    assert late[0].tool is not None
    assert late[0].tool.status == Completed("pay-1 done")
    assert isinstance(messages_of(path).tool("call_pay").status, Interrupted)
    assert decide(path, ledger) == ["call_pay"]
    finish(server, path, ledger)
    require_whole(path, ledger)


def test_a_live_run_receives_a_decision_of_another_process(server: Server, tmp_path: Path) -> None:
    path, ledger, gate = tmp_path / "chat.jsonl", tmp_path / "ledger", tmp_path / "go"
    server.order(path=path, ledger=ledger, tool="note-a", phase="done", resume=gate)
    server.until("reached")
    # The note runs in a live process. The payment of the same turn waits and is approved here.
    assert decide(path, ledger) == []
    gate.touch()
    outcome = server.until("outcome")
    server.until("gone")
    assert outcome["kind"] in ("Paused", "Done")
    assert [decision.by for decision in messages_of(path).tool("call_pay").decisions] == ["ana"]
    finish(server, path, ledger)
    require_whole(path, ledger)
