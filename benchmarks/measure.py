"""Pairs of slots, and what they come to."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from rows import LIMITS, Row

HERE: Final = Path(__file__).parent
ENVIRONMENTS: Final = HERE.parent / ".nox"
PATIENCE: Final = 120.0
"""Seconds without a word after which a client is given up."""


class BenchmarkError(Exception):
    """A client did not do its work."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one slot took: seconds of CPU, and megabytes before it and at the most."""

    cpu: float
    before: float = 0.0
    most: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What the pairs of one client come to.

    Attributes:
        who: the client.
        ratio, low, high: the median of the paired ratios, and the quarter and three quarters of them.
        us: microseconds of CPU for one unit, the median.
        grown: megabytes that a slot added to what the process had, the median.
        pairs: how many there were.
        failure: why there are none.
    """

    who: str
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    us: float = 0.0
    grown: float = 0.0
    pairs: int = 0
    failure: str = ""


def summed_up(who: str, pairs: Sequence[tuple[Sample, Sample]], units: int) -> Measured:
    """What pairs of a baseline's slot and a client's slot come to."""
    ratios = [ours.cpu / baseline.cpu for baseline, ours in pairs]
    # With fewer than two there are no quarters.
    quarters = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else [ratios[0]] * 3
    return Measured(
        who,
        statistics.median(ratios),
        quarters[0],
        quarters[2],
        statistics.median([ours.cpu for _, ours in pairs]) / units * 1e6,
        statistics.median([max(0.0, ours.most - ours.before) for _, ours in pairs]),
        len(pairs),
    )


class Process:
    """A Python process that answers each line with a line."""

    def __init__(self, python: str, *args: str) -> None:
        # Not a pipe: one that nobody reads is full some time, and who writes to it waits.
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - until it ends
        self._process = subprocess.Popen(  # noqa: S603 - our own scripts
            [python, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()

    def told(self) -> str:
        """Its next line.

        Raises:
            BenchmarkError: it ended, or says nothing.
        """
        out = self._process.stdout
        assert out is not None  # noqa: S101 - it was asked for
        ready, _, _ = select.select([out], [], [], PATIENCE)
        line = out.readline() if ready else ""
        if not line:
            self._process.kill()
            self._process.communicate()
            self._said.seek(0)
            last = self._said.read().strip().splitlines()[-1:] or ["it said nothing"]
            raise BenchmarkError(last[0][:200])
        return line.strip()

    def ask(self) -> str:
        """Write a line and read one."""
        into = self._process.stdin
        assert into is not None  # noqa: S101 - as above
        try:
            into.write("\n")
            into.flush()
        except BrokenPipeError:
            pass  # `told` says why
        return self.told()


def folder_of(who: str) -> Path:
    """Where the environment of a peer is."""
    return ENVIRONMENTS / f"bench-{LIMITS.get(who, 'peers')}"


def python_of(who: str) -> str | None:
    """The interpreter of a client; `None` where its environment is not installed."""
    if who.partition("-")[0] in {"raw", "chat", "bytes", "sockets"}:
        return sys.executable
    python = folder_of(who) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    return str(python) if python.exists() else None


class Client(Process):
    """A client of the bench, ready to work."""

    def __init__(self, who: str, work: str, wire: str, port: str) -> None:
        python = python_of(who)
        if python is None:
            msg = f"{who} is not installed"
            raise BenchmarkError(msg)
        super().__init__(python, str(HERE / "client.py"), who, work, wire, port)

    def slot(self) -> Sample:
        """Let it do one slot.

        Raises:
            BenchmarkError: it ended, or says what nobody understands.
        """
        line = self.ask()
        try:
            return Sample(**json.loads(line))
        except (ValueError, TypeError) as error:
            msg = f"it said {line[:100]}"
            raise BenchmarkError(msg) from error


def fresh_slot(who: str, row: Row, port: str) -> Sample:
    """One slot of a process that has done nothing before."""
    with Client(who, row.work, row.wire, port) as client:
        client.told()
        return client.slot()


def pairs_of(who: str, row: Row, port: str, count: int) -> list[tuple[Sample, Sample]]:
    """The pairs of a row: each slot of `who`, behind one of the baseline."""
    if row.fresh:
        return [(fresh_slot(row.baseline, row, port), fresh_slot(who, row, port)) for _ in range(count)]
    first, second = (row.baseline, row.work), (who, row.work)
    if row.kind == "growth":
        first, second = (who, row.work), (who, row.larger)
    with Client(*first, row.wire, port) as baseline, Client(*second, row.wire, port) as subject:
        baseline.told()
        subject.told()
        return [(baseline.slot(), subject.slot()) for _ in range(count)]


def each(row: Row, one: Callable[[str], Measured], until: float, *, peers: bool) -> list[Measured]:
    """Every client of a row, by what measures one of them. One that does not do its work says why, and ends nothing.

    After `until`, on the monotonic clock, no other one is begun.
    """
    found: list[Measured] = []
    for who in (*row.ours, *(row.peers if peers else ())):
        if time.monotonic() > until:
            found.append(Measured(who, failure="the time of the whole run was over"))
            continue
        try:
            found.append(one(who))
        except BenchmarkError as failure:
            found.append(Measured(who, failure=str(failure)))
    return found


def measured(row: Row, port: str, count: Callable[[Row, bool], int], until: float, *, peers: bool) -> list[Measured]:
    """Every client of a row of ratios, or of growth."""

    def one(who: str) -> Measured:
        return summed_up(who, pairs_of(who, row, port, count(row, who in row.peers)), row.units)

    return each(row, one, until, peers=peers)
