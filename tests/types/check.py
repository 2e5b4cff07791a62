"""Five type checkers on the corpora: what is legal must be clean, and every illegal line rejected for the right reason.

    python check.py [--update | --without-messages] [--allow-missing] [CHECKER ...]

Each checker runs under its own defaults and, where it has them, under its strict settings, in a folder of its own away
from any configuration. `fakes.py`, `world.py`, `legal_*.py` and the unmarked lines of `illegal_*.py` must be clean;
every line marked `# E: <regex>` must be rejected by a message that matches. What each checker says of `mistakes.py`
must be what `messages/` has; `--update` writes it there. A checker that is not installed is a failure unless
`--allow-missing` is given. The exit status is 0 only if all of it holds.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from checkers import CHECKERS, Finding, check, find, version

HERE = Path(__file__).resolve().parent
MESSAGES = HERE / "messages"
SOURCES = [
    HERE / "fakes.py",
    HERE / "world.py",
    HERE / "mistakes.py",
    *sorted(HERE.glob("legal_*.py")),
    *sorted(HERE.glob("illegal_*.py")),
]
PARALLEL = 2


@dataclass
class Row:
    """One line of the table, and its problems."""

    name: str
    settings: str
    legal: str = "-"
    illegal: str = "-"
    faults: list[str] = field(default_factory=list[str])
    said: str = ""


def marks() -> dict[tuple[str, int], str]:
    """Return the lines that must be rejected, each with the pattern of its message."""
    found: dict[tuple[str, int], str] = {}
    for source in HERE.glob("illegal_*.py"):
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            if mark := re.search(r"  # E: (.+)$", line):
                found[source.name, number] = mark[1]
    return found


def judge(row: Row, findings: list[Finding]) -> None:
    """Compare the reports with the marks, and collect the messages about the mistakes."""
    expected = marks()
    said: dict[tuple[str, int], list[str]] = defaultdict(list)
    unexpected: list[Finding] = []
    mistakes: list[Finding] = []
    for finding in findings:
        if finding.file == "mistakes.py":
            mistakes.append(finding)
        elif (place := (finding.file, finding.line)) in expected:
            said[place].append(finding.message)
        else:
            unexpected.append(finding)
    rejected = {place for place, pattern in expected.items() if re.search(pattern, "\n".join(said[place]))}
    row.legal = "clean" if not unexpected else f"{len(unexpected)} errors"
    row.illegal = f"{len(rejected)}/{len(expected)}"
    row.faults += [f"{file}:{line}: not expected: {message}" for file, line, message in unexpected]
    for file, line in sorted(expected.keys() - rejected):
        reason = said[file, line]
        row.faults.append(f"{file}:{line}: " + (f"for another reason: {reason}" if reason else "accepted"))
    row.said = snapshot(mistakes)


def snapshot(mistakes: list[Finding]) -> str:
    """Return the messages about each function of `mistakes.py`, in the order of the file."""
    name = ""
    owner: dict[int, str] = {}
    for number, line in enumerate((HERE / "mistakes.py").read_text(encoding="utf-8").splitlines(), 1):
        if start := re.match(r"(?:async )?def (\w+)", line):
            name = start[1]
        owner[number] = name
    parts: list[str] = []
    for function in dict.fromkeys(filter(None, owner.values())):
        heard = [finding.message for finding in mistakes if owner[finding.line] == function] or ["(nothing)"]
        parts.append(f"# {function}\n" + "\n".join(heard) + "\n")
    return "\n".join(parts).replace("\u00a0", " ")


def run(name: str, settings: str) -> Row:
    """Run one checker with one kind of settings."""
    row = Row(name, settings)
    with tempfile.TemporaryDirectory() as folder:
        for source in SOURCES:
            shutil.copy(source, folder)
        try:
            judge(row, check(name, settings, Path(folder)))
        except RuntimeError as error:
            row.faults.append(str(error))
    return row


def compare(row: Row, *, update: bool) -> None:
    """Compare the messages of a checker's default settings with their snapshot, or write the snapshot."""
    path = MESSAGES / f"{row.name}.txt"
    if update:
        path.write_text(row.said, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != row.said:
        row.faults.append(f"messages/{path.name} differs (--update rewrites it); it says now:\n{row.said}")


def report(rows: list[Row]) -> int:
    """Print the table and the faults; return the exit status."""
    print(f"{'checker':<14}{'version':<10}{'settings':<10}{'legal':<12}{'illegal':<10}verdict")
    for row in rows:
        verdict = "ok" if not row.faults else f"{len(row.faults)} faults"
        print(f"{row.name:<14}{version(row.name):<10}{row.settings:<10}{row.legal:<12}{row.illegal:<10}{verdict}")
    for row in rows:
        for fault in row.faults:
            print(f"{row.name} ({row.settings}): {fault}")
    return 1 if any(row.faults for row in rows) else 0


def main() -> int:
    """Run the selected checkers."""
    parser = argparse.ArgumentParser(description="Check the corpora of types.")
    parser.add_argument("checkers", nargs="*", metavar="CHECKER", help=f"of {', '.join(CHECKERS)}; all by default")
    parser.add_argument("--update", action="store_true", help="rewrite the snapshots of messages")
    parser.add_argument("--without-messages", action="store_true", help="do not compare messages with the snapshots")
    parser.add_argument("--allow-missing", action="store_true", help="go on without checkers that are not installed")
    arguments = parser.parse_args()
    wanted: list[str] = arguments.checkers or list(CHECKERS)
    if unknown := sorted(set(wanted) - CHECKERS.keys()):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(CHECKERS)}")
    missing = [name for name in wanted if find(name) is None]
    for name in missing:
        print(f"{name} is not installed")
    present = [name for name in wanted if name not in missing]
    if not present or (missing and not arguments.allow_missing):
        return 1
    jobs = [
        (name, kind) for name in present for kind in ("default", "strict") if kind == "default" or CHECKERS[name].strict
    ]
    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        rows = list(pool.map(run, *zip(*jobs, strict=True)))
    for row in rows:
        if row.settings == "default" and not arguments.without_messages:
            compare(row, update=arguments.update)
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
