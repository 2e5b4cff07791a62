"""`kill -9` of a process that runs a program of code mode: no effect of its calls is lost, and none happens twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
from chat_core.messages import Completed

from .processes import Sample, Server
from .programs_worker import EFFECTS
from .test_nested import Firm, undisturbed
from .test_sqlite_store import SqliteStory


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.programs_worker") as server:
        yield server


def require_result(office: Firm) -> None:
    """Check that every effect happened once, and that the program received the result of each call."""
    office.require_whole()
    status = office.messages().tool("run").status
    assert isinstance(status, Completed)
    assert len(cast("Mapping[str, list[str]]", status.result)["result"]) == len(EFFECTS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stored", ["file", "sqlite"])
@pytest.mark.parametrize("tool", EFFECTS)
@pytest.mark.parametrize("phase", ["begun", "done"])
def test_a_program_killed_right_before_or_after_an_effect_loses_and_repeats_nothing(
    server: Server, tmp_path: Path, tool: str, phase: str, stored: str
) -> None:
    office = Firm(tmp_path / "office", SqliteStory(tmp_path / "office") if stored == "sqlite" else None, EFFECTS)
    while True:
        server.order(**office.order(tool=tool, phase=phase))
        event = server.until("reached", "outcome")
        if event["event"] == "reached":
            break
        server.until("gone")
        office.decide()
    server.end(event)
    assert (tool in dict(office.effects())) == (phase == "done")
    office.finish(server)
    require_result(office)


def test_a_program_killed_at_any_durable_step_loses_and_repeats_nothing(
    server: Server, tmp_path: Path, sample: Sample
) -> None:
    runs = undisturbed(server, Firm(tmp_path / "first", SqliteStory(tmp_path / "first"), EFFECTS))
    kills = [
        (n, step, phase) for n, (_, steps) in enumerate(runs) for step in range(1, steps + 1)
        for phase in ("written", "committed")
    ]  # fmt: skip
    assert len(kills) >= 20
    for number, step, phase in sample(kills, 3):
        office = runs[number][0].copy(f"{number}-{step}-{phase}")
        server.order(**office.order(step=step, phase=phase))
        server.end(server.until("reached"))
        office.finish(server)
        require_result(office)
