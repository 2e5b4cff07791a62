"""A killed run continues after a restart, and no effect happens twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).parent / "killed_worker.py"
SAMPLE = 5
THOROUGH = bool(os.environ.get("CHAT_THOROUGH"))


def sweep(folder: Path, points: list[int]) -> list[list[str]]:
    """Kill a run at each of the points, let another process finish it, and return what the worker printed."""
    command = [sys.executable, str(WORKER), str(folder), *map(str, points)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60 + 20 * len(points))
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def check_effects(folder: Path) -> None:
    effects = (folder / "effects").read_text(encoding="utf-8").split()
    assert (effects[0], effects[-1], sorted(effects)) == ("a", "d", ["a", "b", "c", "d"])
    assert (folder / "result.txt").read_text(encoding="utf-8") == "d(b(a(in))+c(a(in)))"
    assert list(folder.glob(".*.tmp")) == []


def test_a_run_that_is_killed_at_any_step_has_each_effect_once(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    ((status, points, state),) = sweep(whole, [0])
    assert (status, state) == ("0", "completed")
    check_effects(whole / "0")
    assert int(points) >= 25

    every = range(1, int(points) + 1)
    chosen = (
        [every[index % len(every)] for index in range(1000)] if THOROUGH else random.Random(0).sample(every, SAMPLE)  # noqa: S311
    )
    killed = tmp_path / "killed"
    killed.mkdir()
    ends = sweep(killed, chosen)
    assert [state for _, _, state in ends] == ["completed"] * len(chosen)
    assert sum(status == "-9" for status, _, _ in ends) >= len(chosen) * 3 // 4  # the number of points varies a little
    for number in range(len(chosen)):
        check_effects(killed / str(number))
