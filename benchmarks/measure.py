"""Paired measurements of client processes and their summaries."""

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
"""Seconds without output after which a client is terminated."""


class BenchmarkError(Exception):
    """Error raised when a client fails to do its work."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Cost of one slot: CPU seconds, and resident megabytes before the slot and at the peak."""

    cpu: float
    before: float = 0.0
    most: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Summary of the pairs of one client.

    Attributes:
        who: the client.
        ratio, low, high: the median, first quartile and third quartile of the paired ratios.
        us: median CPU time per unit, in microseconds.
        grown: median memory growth per slot, in megabytes.
        pairs: the number of pairs.
        failure: the reason why the client was not measured, or an empty string.
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
    """Summarize pairs of a baseline sample and a client sample, each over `units` units of work."""
    ratios = [ours.cpu / baseline.cpu for baseline, ours in pairs]
    # Quartiles need at least two values.
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
    """Python process that responds to each input line with an output line."""

    def __init__(self, python: str, *args: str) -> None:
        # A file, because a full pipe without a reader would block the process.
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
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

    def read_line(self) -> str:
        """Read the next output line.

        Raises:
            BenchmarkError: the process ended or timed out.
        """
        out = self._process.stdout
        assert out is not None  # noqa: S101 - created with a pipe
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
        """Send an empty line and return the response line."""
        into = self._process.stdin
        assert into is not None  # noqa: S101 - as above
        try:
            into.write("\n")
            into.flush()
        except BrokenPipeError:
            pass  # `read_line()` raises the error of the process
        return self.read_line()


def folder_of(who: str) -> Path:
    """Return the path of a peer's virtual environment."""
    return ENVIRONMENTS / f"bench-{LIMITS.get(who, 'peers')}"


def python_of(who: str) -> str | None:
    """Return the interpreter of a client, or `None` if its environment is not installed."""
    if who.partition("-")[0] in {"raw", "chat", "bytes", "sockets"}:
        return sys.executable
    python = folder_of(who) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    return str(python) if python.exists() else None


class Client(Process):
    """Benchmark client process for one kind of work."""

    def __init__(self, who: str, work: str, wire: str, port: str) -> None:
        python = python_of(who)
        if python is None:
            msg = f"{who} is not installed"
            raise BenchmarkError(msg)
        super().__init__(python, str(HERE / "client.py"), who, work, wire, port)

    def slot(self) -> Sample:
        """Run one slot and return its cost.

        Raises:
            BenchmarkError: the process ended, timed out or printed an invalid line.
        """
        line = self.ask()
        try:
            return Sample(**json.loads(line))
        except (ValueError, TypeError) as error:
            msg = f"the client printed {line[:100]!r} instead of a JSON object"
            raise BenchmarkError(msg) from error


def fresh_slot(who: str, row: Row, port: str) -> Sample:
    """Run one slot in a new client process and return its cost."""
    with Client(who, row.work, row.wire, port) as client:
        client.read_line()
        return client.slot()


def pairs_of(who: str, row: Row, port: str, count: int) -> list[tuple[Sample, Sample]]:
    """Measure `count` pairs for `who`: a baseline slot followed by a slot of `who`.

    For a row of `growth`, the baseline is the smaller work of `who` itself.
    """
    if row.fresh:
        return [(fresh_slot(row.baseline, row, port), fresh_slot(who, row, port)) for _ in range(count)]
    first, second = (row.baseline, row.work), (who, row.work)
    if row.kind == "growth":
        first, second = (who, row.work), (who, row.larger)
    with Client(*first, row.wire, port) as baseline, Client(*second, row.wire, port) as subject:
        baseline.read_line()
        subject.read_line()
        return [(baseline.slot(), subject.slot()) for _ in range(count)]


def each(row: Row, one: Callable[[str], Measured], until: float, *, peers: bool) -> list[Measured]:
    """Measure every client of a row with `one`. A client that fails is recorded with its error and the others continue.

    No client starts after `until` on the monotonic clock.
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
    """Measure every client of a row of kind `ratio` or `growth`."""

    def one(who: str) -> Measured:
        return summed_up(who, pairs_of(who, row, port, count(row, who in row.peers)), row.units)

    return each(row, one, until, peers=peers)
