"""What this library costs beside clients that are written by hand, and beside those of others, over loopback.

Usage: python benchmarks/bench.py [--quick] [--no-peers] [--json] [ROW …]

The server has a process of its own, and so has each client; only the CPU time of the clients counts. Every slot of a
client is paired with a slot of its baseline just before it, and what is told is the median of the paired ratios and the
middle half of them. The number of slots is fixed, so that it stops by itself. A whole run writes docs/performance.md
and its plot; one of some rows, or a quick one, only prints.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import importing
from measure import HERE, Process, measured, python_of
from report import Result, page, plot, put, readme
from rows import ROWS, Row

DOCS: Final = HERE.parent / "docs"
PAGE: Final = DOCS / "performance.md"
PLOT: Final = DOCS / "assets" / "performance.svg"
QUICK: Final = 3


def result_of(row: Row, port: str, *, quick: bool, peers: bool) -> Result:
    """Measure one row."""

    def count(row: Row, of_a_peer: bool) -> int:  # noqa: FBT001 - a pair of numbers is chosen from
        slots = row.slots[of_a_peer]
        return min(slots, QUICK) if quick else slots

    if row.kind == "import":
        ours, beyond = importing.measured(count(row, False))
        return Result(row, [ours], os.getloadavg()[0], beyond)
    return Result(row, measured(row, port, count, peers=peers), os.getloadavg()[0])


def circumstances(results: list[Result]) -> str:
    """In which circumstances that was measured."""
    versions = ", ".join([f"{name} {importlib.metadata.version(name)}" for name in ("httpx", "httpx2", "aiohttp")])
    loads = [result.load for result in results]
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}, CPython {platform.python_version()}, {os.cpu_count()} cores, "
        f"{versions}; the load of the machine was {min(loads):.1f} to {max(loads):.1f} meanwhile."
    )


def run(asked: argparse.Namespace) -> list[Result]:
    """Measure what is asked for, and say each row when it is there."""
    rows = [row for row in ROWS if row.name in asked.rows] if asked.rows else list(ROWS)
    peers = not asked.no_peers
    # A row beside a peer has no meaning without it.
    rows = [row for row in rows if python_of(row.baseline) is not None]
    results: list[Result] = []
    with Process(sys.executable, str(HERE / "server.py")) as server:
        port = server.told()
        for row in rows:
            result = result_of(row, port, quick=asked.quick, peers=peers)
            results.append(result)
            for item in result.measured:
                said = item.failure or f"{item.ratio:.2f} ({item.low:.2f} to {item.high:.2f}), {item.us:.1f} µs"
                print(f"{row.name:18} {item.who:20} {said}", file=sys.stderr, flush=True)
    return results


def write(results: list[Result], page_file: Path = PAGE, plot_file: Path = PLOT) -> None:
    """Write the page and the plot."""
    text = page_file.read_text(encoding="utf-8")
    page_file.write_text(put(text, page(results, circumstances(results))), encoding="utf-8")
    plot_file.write_text(plot({result.row.name: result for result in results}), encoding="utf-8")


def main() -> None:
    """Measure, tell, and write the page."""
    parser = argparse.ArgumentParser(description="CPU time beside clients written by hand, and beside others'.")
    parser.add_argument("--quick", action="store_true", help="a few slots of everything; the page is left as it is")
    parser.add_argument("--no-peers", action="store_true", help="nothing that others wrote")
    parser.add_argument("--json", action="store_true", help="print JSON, not tables")
    parser.add_argument("rows", nargs="*", choices=[*[row.name for row in ROWS], []], help="these rows alone")
    asked = parser.parse_args()
    results = run(asked)
    if asked.json:
        print(json.dumps([result.to_dict() for result in results], indent=1))
    else:
        print(page(results, circumstances(results)))
        print("\nFor the README:\n")
        print(readme(results))
    if not (asked.quick or asked.rows or asked.no_peers):
        write(results)


if __name__ == "__main__":
    main()
