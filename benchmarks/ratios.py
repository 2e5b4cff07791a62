"""What this library costs beside a hand-written httpx client: paired ratios of CPU time, over loopback.

Usage: python benchmarks/ratios.py [--slots N] [ROW …]

The server has a process of its own, and so has each client; only the clients' CPU time counts. Every slot of this
library is paired with a slot of the baseline run just before it; what is printed is the median of the paired ratios,
and their spread. It is bounded by `--slots` and stops by itself.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = {"call": 1.15, "stream": 1.0, "claude": 1.0, "gemini": 1.0, "responses": 1.0, "loop": 0.6}
WHAT = {
    "call": "a call, not streamed",
    "stream": "a stream of 2,000 text events, Chat Completions",
    "claude": "the same, Anthropic Messages",
    "gemini": "the same, Gemini",
    "responses": "the same, Responses",
    "loop": "a tool loop on a history of 1,000 messages",
}


def start(*args: str) -> subprocess.Popen[str]:
    """A Python process whose standard input and output are pipes."""
    return subprocess.Popen(  # noqa: S603 - our own scripts
        [sys.executable, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def told(process: subprocess.Popen[str]) -> str:
    """The next line it prints."""
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        msg = f"{process.args!r} ended with {process.wait()}"
        raise SystemExit(msg)
    return line.strip()


def slot(process: subprocess.Popen[str]) -> float:
    """Let a client do one slot; its CPU seconds."""
    if process.stdin is not None:
        process.stdin.write("\n")
        process.stdin.flush()
    return float(told(process))


def measure(work: str, port: str, slots: int) -> list[float]:
    """The paired ratios of one row."""
    clients = [start(str(HERE / "client.py"), who, work, port) for who in ("raw", "chat")]
    try:
        for client in clients:
            told(client)
        pairs = [(slot(clients[0]), slot(clients[1])) for _ in range(slots)]
        return [ours / baseline for baseline, ours in pairs]
    finally:
        for client in clients:
            client.communicate()


def main() -> None:
    """Measure the rows that are asked for, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slots", type=int, default=21)
    parser.add_argument("rows", nargs="*", choices=[*TARGETS, []])
    asked = parser.parse_args()
    server = start(str(HERE / "server.py"))
    try:
        port = told(server)
        print("| work | of raw httpx, median | low to high | target |\n|---|---|---|---|")
        for work in asked.rows or TARGETS:
            ratios = measure(work, port, asked.slots)
            low, high = min(ratios), max(ratios)
            row = f"| {WHAT[work]} | {statistics.median(ratios):.2f} | {low:.2f} to {high:.2f} | ≤ {TARGETS[work]} |"
            print(row, flush=True)
    finally:
        server.communicate()


if __name__ == "__main__":
    main()
