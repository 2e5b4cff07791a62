"""Mutation tests: applies each mutant to a copy of the code, and checks that the tests listed for it fail.

Each mutant is an entry of a TOML file in this folder: text in a source file, its replacement, and the tests that must
fail. A mutant whose text is not found exactly once, or that a listed test does not detect, is a failure.

The workspace itself is not changed: mutants are applied to copies, which come first on the import path of the tests.
Each mutant runs in a forked process. The parent imports third-party modules first to save that time in each run.
"""

from __future__ import annotations

import argparse
import atexit
import compileall
import contextlib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
COPIED = ("packages", "transports", "tests", "docs")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".hypothesis", "node_modules", "*.gguf")
OTHERS = (
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "anyio.pytest_plugin",
    "docstring_parser",
    "httpx",
    "hypothesis.strategies",
    "jsonschema",
    "pydantic",
    "trustme",
)
"""Third-party modules that tests import."""
LONGEST = 300
"""Seconds after which a test run is killed as hanging."""
BATCH = 60
"""Number of tests that run in one process without a mutant."""
SEED = 0
"""Seed of the sample selected by `--most`, the same in every run."""
RECORDINGS = Path(os.environ.get("CHAT_WIRE_DIR") or ROOT.parent / "shared" / "wire")


@dataclass(frozen=True)
class Mutant:
    """A source change that tests must detect.

    Attributes:
        name: Unique name of the mutant.
        file: Path of the source file, relative to the root of the workspace.
        find: Text that occurs exactly once in the file.
        put: Replacement for the text.
        tests: Tests that must all fail, as `path::name`. For a parametrized test, one failing case is enough.
    """

    name: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]


def load() -> list[Mutant]:
    """Return all mutants, ordered by TOML file."""
    return [
        Mutant(entry["name"], entry["file"], entry["find"], entry["put"], tuple(entry["tests"]))
        for file in sorted(HERE.glob("*.toml"))
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]
    ]


class Copy:
    """A copy of the workspace to which mutants are applied, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._whole = ""
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=LEFT_OUT)
        for name in ("conftest.py", "pyproject.toml", "VERSION"):
            shutil.copy(ROOT / name, folder)
        self._sources = sorted(path for path in folder.glob("*/*/src") if path.is_dir())
        # Validate bytecode by source hash: the original and the mutant may have the same modification time.
        compileall.compile_dir(folder, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)

    def begin(self, tests: Iterable[str], mutant: Mutant | None = None) -> int:
        """Apply the mutant, if any, start the tests in a forked process and return its process ID."""
        if mutant is not None:
            self._whole = self._read(mutant)
            self._write(mutant, self._whole.replace(mutant.find, mutant.put))
        pid = os.fork()
        if pid == 0:
            self._test(tests)
        return pid

    def end(self, mutant: Mutant | None = None) -> str:
        """Restore the source that `mutant` changed and return the output of the tests."""
        if mutant is not None:
            self._write(mutant, self._whole)
        return self._output.read_text(encoding="utf-8", errors="replace")

    def count(self, mutant: Mutant) -> int:
        """Return how often the text `mutant.find` occurs in its file."""
        return self._read(mutant).count(mutant.find)

    def _read(self, mutant: Mutant) -> str:
        return (self._folder / mutant.file).read_text(encoding="utf-8")

    def _write(self, mutant: Mutant, text: str) -> None:
        (self._folder / mutant.file).write_text(text, encoding="utf-8")

    @property
    def _output(self) -> Path:
        return self._folder / "output"

    def _test(self, tests: Iterable[str]) -> NoReturn:
        code = 1
        try:
            signal.alarm(LONGEST)
            atexit._clear()  # pyright: ignore[reportPrivateUsage] - exit handlers of the parent must not run here
            fd = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            os.chdir(self._folder)
            # Both the tests and their child processes must import the copy instead of installed packages.
            sources = [str(path) for path in self._sources]
            sys.path[:0] = sources
            sys.dont_write_bytecode = True
            os.environ["PYTHONPATH"] = os.pathsep.join(sources)
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            os.environ["CHAT_THOROUGH"] = "1"  # a sample may lack the case that fails
            if RECORDINGS.is_dir():
                os.environ["CHAT_WIRE_DIR"] = str(RECORDINGS)
            code = pytest.main(["-q", "--no-header", "--tb=line", "-rfE", "--assert=plain", *tests], [self])
            sys.stdout.flush()
        finally:
            # Stop what the tests started, such as a database server.
            atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - os._exit() runs none
            os._exit(code)

    def pytest_sessionfinish(self) -> None:
        """Implement the pytest hook: raise RuntimeError if a package was imported from outside the copy."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name.startswith("chat_") and file and not Path(file).is_relative_to(self._folder):
                msg = f"{name} was imported from {file}, which is not the copy"
                raise RuntimeError(msg)


def failed(test: str, output: str) -> bool:
    """Return whether the pytest summary lists the test or one of its cases as failed. Setup errors do not count."""
    return any(f"{line} ".startswith((f"FAILED {test} ", f"FAILED {test}[")) for line in output.splitlines())


def verdict(mutant: Mutant | None, status: int, output: str) -> str:
    """Return the problem of a finished run, or an empty string.

    Without a mutant, all tests must pass. With a mutant, each of its tests must fail.
    """
    if mutant is None:
        return f"tests fail although nothing is broken\n{output[-3000:]}" if status else ""
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}\n{output[-1500:]}"
    unmoved = [test for test in mutant.tests if not failed(test, output)]
    return f"not noticed by {', '.join(unmoved)}\n{output[-1500:]}" if unmoved else ""


def batched(tests: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return consecutive parts of `tests`, each with at most `BATCH` of them."""
    return (tests[start : start + BATCH] for start in range(0, len(tests), BATCH))


def judge(mutants: Sequence[Mutant], folder: Path, jobs: int) -> dict[str, str]:
    """Run all mutants and return the problems by mutant name.

    The tests also run once without a mutant, up to `BATCH` of them in a process, and must pass.
    """
    free = [Copy(folder / str(number)) for number in range(jobs)]
    wrong = {mutant.name: "its text stands there not once" for mutant in mutants if free[0].count(mutant) != 1}
    everything = sorted({test for mutant in mutants for test in mutant.tests})
    todo: deque[tuple[Sequence[str], Mutant | None]] = deque((tests, None) for tests in batched(everything))
    todo.extend((mutant.tests, mutant) for mutant in mutants if mutant.name not in wrong)
    live: dict[int, tuple[Copy, Mutant | None, float]] = {}
    while todo or live:
        while todo and free:
            (tests, mutant), copy = todo.popleft(), free.pop()
            pid = copy.begin(tests, mutant)
            live[pid] = copy, mutant, time.monotonic()
        pid, status = os.wait()
        copy, mutant, began = live.pop(pid)
        problem = verdict(mutant, status, copy.end(mutant))
        free.append(copy)
        name = "nothing broken" if mutant is None else mutant.name
        say(f"{time.monotonic() - began:5.1f} s  {name}: {problem or ('noticed' if mutant else 'all pass')}")
        if problem:
            wrong[name] = problem
    return wrong


def concerned(mutants: Iterable[Mutant], files: Iterable[str]) -> list[Mutant]:
    """Return the mutants whose source file or tests are among `files`."""
    changed = set(files)
    return [m for m in mutants if changed & {m.file, *(test.partition("::")[0] for test in m.tests)}]


def sample(mutants: Sequence[Mutant], most: int | None) -> Sequence[Mutant]:
    """Return all mutants, or a fixed sample of `most` if there are more."""
    if most is None or len(mutants) <= most:
        return mutants
    say(f"a sample of {most} of {len(mutants)} mutants; `python3 run.py mutants --all` runs every one")
    return random.Random(SEED).sample(mutants, most)


def runnable(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Return the mutants whose tests can run here. Some tests need the wire recordings."""
    found = list(mutants)
    if RECORDINGS.is_dir():
        return found
    needing = {m.name for m in found if any(needs_recordings(test) for test in m.tests)}
    if needing:
        say(f"{len(needing)} mutants are left out: their tests need the wire recordings (CHAT_WIRE_DIR)")
    return [m for m in found if m.name not in needing]


def needs_recordings(test: str) -> bool:
    """Return whether the file of a test refers to the wire recordings."""
    text = (ROOT / test.partition("::")[0]).read_text(encoding="utf-8")
    return "require_wire" in text or "CHAT_WIRE_DIR" in text


def say(line: str) -> None:
    """Print a line immediately."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def chosen(arguments: Sequence[str]) -> tuple[Sequence[Mutant], int]:
    """Parse the command line and return the selected mutants and the number of parallel processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="names of mutants to run, by default all")
    parser.add_argument("--all", action="store_true", help="run all mutants, which is the default")
    parser.add_argument("--changed", nargs="*", metavar="FILE", help="run only mutants of these files or their tests")
    parser.add_argument("--most", type=int, help="run a fixed sample if there are more mutants than this number")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    mutants = [mutant for mutant in load() if not options.names or mutant.name in options.names]
    if unknown := set(options.names) - {mutant.name for mutant in mutants}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    if options.changed is not None:
        mutants = concerned(mutants, options.changed)
    return sample(runnable(mutants), options.most), options.jobs


def main() -> int:
    """Run the selected mutants and return 1 if any has a problem, otherwise 0."""
    mutants, jobs = chosen(sys.argv[1:])
    if not mutants:
        say("no changed file has a mutant or is a test of one")
        return 0
    began = time.monotonic()
    for name in OTHERS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        wrong = judge(mutants, Path(folder).resolve(), jobs)
    seconds = time.monotonic() - began
    say(f"{len(mutants)} mutants in {seconds:.0f} s, {len(wrong)} wrong{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
