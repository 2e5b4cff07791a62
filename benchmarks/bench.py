"""Benchmark of this library's CPU cost against handwritten clients and other libraries, over loopback.

Usage: python benchmarks/bench.py [--quick] [--no-peers] [--minutes N] [--json] [--update] [ROW …]

The server and each client run in separate processes. Only the CPU time of the clients counts. Each slot of a client is
paired with a baseline slot that runs just before it. The report gives the median and quartiles of the paired ratios.
The run time is bounded: the number of slots is fixed, an unresponsive client is terminated, and no client starts after
`--minutes`. A full run writes docs/performance.md and its plot. A partial or quick run only prints its results;
`--update` writes the selected rows to the page.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import Final

import importing
from measure import HERE, PATIENCE, Measured, Process, folder_of, measured, python_of
from report import Result, page, plot, put, readme, with_remeasured_rows
from rows import ROWS, Row

DOCS: Final = HERE.parent / "docs"
PAGE: Final = DOCS / "performance.md"
PLOT: Final = DOCS / "assets" / "performance.svg"
QUICK: Final = 3
PACKAGES: Final = {
    "pydantic-ai": "pydantic-ai-slim",
    "pydantic-ai-direct": "pydantic-ai-slim",
    "openai-responses": "openai",
}
"""Distribution names of clients whose name differs from their distribution."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a benchmark run.

    Attributes:
        quick: whether to run only a few slots per client.
        peers: whether to measure other libraries too.
        until: deadline on the monotonic clock after which no client starts.
    """

    quick: bool
    peers: bool
    until: float

    def count(self, row: Row, of_a_peer: bool) -> int:  # noqa: FBT001 - indexes a pair of slot counts
        """Return the number of slots for a client of `row`."""
        slots = row.slots[of_a_peer]
        return min(slots, QUICK) if self.quick else slots


def result_of(row: Row, port: str, asked: Asked) -> Result:
    """Measure one row against the server on `port`."""
    table: Sequence[str] = ()
    beyond: int | None = None
    if row.kind == "import":
        found, beyond = importing.measured(row, asked.count, asked.until, peers=asked.peers)
    elif row.kind == "checkpoints":
        found, table = checkpoints_of(row, asked)
    elif row.kind == "encoders":
        found = encoders_of(row, asked)
    elif row.kind == "router":
        found = routers_of(row, asked)
    else:
        found = measured(row, port, asked.count, asked.until, peers=asked.peers)
    return Result(row, found, os.getloadavg()[0], beyond, table=table, at=f"{datetime.now(UTC):%H:%M}")


def checkpoints_of(row: Row, asked: Asked) -> tuple[list[Measured], Sequence[str]]:
    """Measure checkpoints in each store. Return the CPU time per call and the lines of a detailed table."""
    # Only this row needs the stores.
    import checkpoints

    command = [sys.executable, str(HERE / "checkpoints.py"), "--json", f"--slots={asked.count(row, False)}"]
    try:
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE * 2)
        rows = [checkpoints.Row.from_dict(document) for document in json.loads(answer.stdout)]
    except (subprocess.SubprocessError, ValueError) as error:
        failure = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1][:200]
        return [Measured("checkpoints", failure=failure)], ()
    found: list[Measured] = []
    for stored in rows:
        if stored.failure:
            found.append(Measured(stored.store, failure=f"not measured: {stored.failure}"))
            continue
        cpu = stored.costs["cpu per call"]
        who = f"{stored.store} with {stored.messages:,} messages"
        found.append(Measured(who, us=cpu.median, pairs=stored.pairs))
    return found, checkpoints.table(rows)


def encoders_of(row: Row, asked: Asked) -> list[Measured]:
    """Measure the encoders for front ends, the slowest one first."""
    slots = asked.count(row, False)
    command = [sys.executable, str(HERE / "encoders.py"), "--json", f"--slots={slots}"]
    try:
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE * 2)
        rows = [json.loads(line) for line in answer.stdout.splitlines()]
    except (subprocess.SubprocessError, ValueError) as error:
        failure = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1][:200]
        return [Measured("encoders", failure=failure)]
    found = [
        Measured(row["encoder"], row["ratio"], low=row["low"], high=row["high"], us=row["microseconds"], pairs=slots)
        for row in rows
    ]
    return sorted(found, key=lambda item: item.ratio, reverse=True)


def routers_of(row: Row, asked: Asked) -> list[Measured]:
    """Measure routers over their models, the one without a strategy first."""
    slots = asked.count(row, False)
    command = [sys.executable, str(HERE / "router.py"), "--json", f"--slots={slots}"]
    try:
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
        rows = [json.loads(line) for line in answer.stdout.splitlines()]
    except (subprocess.SubprocessError, ValueError) as error:
        failure = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1][:200]
        return [Measured("Router", failure=failure)]
    return [Measured(row["router"], us=row["microseconds"], pairs=slots) for row in rows]


def versions() -> str:
    """Return the versions of the third-party libraries measured, as text."""
    found = {name: importlib.metadata.version(name) for name in ("httpx", "httpx2", "aiohttp")}
    for who in dict.fromkeys([peer for row in ROWS for peer in row.peers]):
        name = PACKAGES.get(who, who)
        paths = [str(path) for path in folder_of(who).glob("lib/python*/site-packages")]
        for distribution in importlib.metadata.distributions(name=name, path=paths):
            found[name] = distribution.version
    return ", ".join([f"{name} {version}" for name, version in found.items()])


def circumstances(results: list[Result], begun: datetime, load: float, *, whole: bool) -> str:
    """Describe the time, machine, versions and system load of a run."""
    loads = [result.load for result in results] or [load]
    what = "in one run of `python3 run.py bench`" if whole else "in a run of some rows or of a few slots"
    return (
        f"Measured on {begun:%Y-%m-%d} from {begun:%H:%M} to {datetime.now(UTC):%H:%M} UTC {what}, with CPython "
        f"{platform.python_version()} on {os.cpu_count()} cores: {versions()}.\n\n"
        f"The load of the machine was {load:.1f} before the run and {min(loads):.1f} to {max(loads):.1f} during the "
        "run. The server and the measured client cause a load of one or two."
    )


def run(asked: Asked, rows: Sequence[Row]) -> list[Result]:
    """Measure `rows` and print each result to standard error as soon as it is available."""
    results: list[Result] = []
    with Process(sys.executable, str(HERE / "server.py")) as server:
        port = server.read_line()
        for row in rows:
            result = result_of(row, port, asked)
            ratios = {other.row.name: other.measurement.ratio for other in results if not other.measurement.failure}
            result = replace(result, limit=ratios.get(row.like))
            results.append(result)
            for item in result.measured:
                said = item.failure or f"{item.ratio:.2f} ({item.low:.2f} to {item.high:.2f}), {item.us:.1f} µs"
                print(f"{row.name:18} {item.who:20} {said}", file=sys.stderr, flush=True)
    return results


def write(results: list[Result], said: str) -> None:
    """Write the results to the page and the plot."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(put(text, page(results, said)), encoding="utf-8")
    PLOT.write_text(plot({result.row.name: result for result in results}), encoding="utf-8")


def write_again(results: list[Result], load: float) -> None:
    """Replace remeasured rows in the page and add a note with the date."""
    names = ", ".join([f"`{result.row.name}`" for result in results])
    said = (
        f"The rows {names} were measured again on {datetime.now(UTC):%Y-%m-%d}, at a load of {load:.1f} before that. "
        "Their sections state the times."
    )
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_remeasured_rows(text, results, [row.name for row in ROWS], said), encoding="utf-8")


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description="CPU time compared with hand-written clients and other libraries.")
    parser.add_argument("--quick", action="store_true", help="a few slots of everything; the page is left as it is")
    parser.add_argument("--no-peers", action="store_true", help="nothing that others wrote")
    parser.add_argument("--minutes", type=float, default=40, help="nothing more is begun after so many")
    parser.add_argument("--json", action="store_true", help="print JSON, not tables")
    parser.add_argument("--update", action="store_true", help="put the rows named into the page, which has the others")
    parser.add_argument("rows", nargs="*", choices=[*[row.name for row in ROWS], []], help="these rows alone")
    words = parser.parse_args()
    begun, load = datetime.now(UTC), os.getloadavg()[0]
    if words.update and (words.quick or words.no_peers or not words.rows):
        parser.error("--update is for rows that are named, with all their slots and peers")
    asked = Asked(words.quick, not words.no_peers, time.monotonic() + 60 * words.minutes)
    rows = [row for row in ROWS if row.name in words.rows] if words.rows else list(ROWS)
    if words.no_peers:
        # A row whose baseline is a peer cannot be measured without that peer.
        rows = [row for row in rows if python_of(row.baseline) is not None]
    with TemporaryDirectory() as compiled:
        # Share compiled modules: an installation may have none, and each process would compile its imports again.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        results = run(asked, rows)
    whole = not (words.quick or words.rows or words.no_peers)
    said = circumstances(results, begun, load, whole=whole)
    if words.json:
        print(json.dumps([result.to_dict() for result in results], indent=1))
    else:
        print(page(results, said))
        print("\nFor the README:\n")
        print(readme(results))
    if whole:
        write(results, said)
    elif words.update:
        write_again(results, load)


if __name__ == "__main__":
    main()
