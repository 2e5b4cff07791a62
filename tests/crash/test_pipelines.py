"""`kill -9` at the steps of a workflow of five tasks: another process finishes the run, and no effect happens twice."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .processes import Server

KILLS = 1000 if os.environ.get("CHAT_THOROUGH") else 40
PARTS = KILLS // 10


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.pipelines_worker") as server:
        yield server


def finish(server: Server, folder: Path) -> int:
    """Let a process start or continue the run and finish it, check the effects, and return the number of points."""
    server.order(folder=folder, point=0)
    ended = server.until("ended")
    assert server.until("gone")["status"] == 0
    assert ended["state"] == "completed"
    effects = (folder / "effects").read_text(encoding="utf-8").split()
    assert (effects[0], effects[-1], sorted(effects)) == ("a", "d", ["a", "b", "c", "d"])
    assert (folder / "result.txt").read_text(encoding="utf-8") == "d(b(a(in))+c(a(in)))"
    assert list(folder.glob(".*.tmp")) == []
    return int(str(ended["points"]))


@pytest.mark.parametrize("part", [pytest.param(part, id=f"part-{part}") for part in range(PARTS)])
def test_a_run_that_is_killed_at_any_step_has_each_effect_once(server: Server, tmp_path: Path, part: int) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    count = finish(server, whole)
    assert count >= 40

    every = random.Random(0).sample(range(1, count + 1), count)
    chosen = [every[number % count] for number in range(part, KILLS, PARTS)]
    killed = 0
    for number, point in enumerate(chosen):
        folder = tmp_path / str(number)
        folder.mkdir()
        server.order(folder=folder, point=point)
        end = server.until("gone", "ended")
        if end["event"] == "ended":  # the number of points varies a little
            end = server.until("gone")
        killed += end["status"] == signal.SIGKILL
        finish(server, folder)
    assert killed >= len(chosen) * 3 // 4
