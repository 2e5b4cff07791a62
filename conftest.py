"""Pytest configuration, hooks and fixtures shared by all tests of the workspace."""

from __future__ import annotations

import gc
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

SEED = 0
"""Seed of every sample of test cases, so that each run selects the same cases."""
THOROUGH = bool(os.environ.get("CHAT_THOROUGH"))
"""Whether sampled tests run every case, as in `python3 run.py thorough`."""

if THOROUGH:
    settings.register_profile("thorough", deadline=None, max_examples=1000)
    settings.load_profile("thorough")
elif not os.environ.get("CI"):  # hypothesis has its own deterministic profile for CI
    settings.register_profile("desk", deadline=None)  # a busy machine must not fail a test
    settings.load_profile("desk")

ReportT = TypeVar("ReportT", pytest.TestReport, pytest.CollectReport)
ItemT = TypeVar("ItemT")
ROOT = Path(__file__).parent
ELSEWHERE = [ROOT / "tests" / name for name in ("browser", "servers")]
"""Test folders that need more than Python packages. Each has its own session."""
RECORDINGS = "CHAT_WIRE_DIR"
"""Environment variable with the folder of wire recordings. Skips for missing recordings mention this name."""


def pytest_configure(config: pytest.Config) -> None:
    """Restore ctrl-C where the parent process ignores it, as `nohup` and background jobs of scripts do.

    Child processes inherit an ignored signal. Without this, programs started by tests would ignore SIGINT.
    """
    config.addinivalue_line("markers", "sampled(most): of its cases a fixed sample of so many runs, `thorough` all")
    config.pluginmanager.register(FirstFailure(config))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class FirstFailure:
    """Plugin that prints the first failure immediately. Pytest itself prints failures only at the end of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shown = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the failure of a test, if it is the first one."""
        reporter: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None and not self._shown:
            self._shown = True
            reporter.ensure_newline()
            reporter.section(f"first failure: {report.nodeid}")
            reporter.write_line(report.longreprtext)


@pytest.fixture(scope="session")
def sample() -> Callable[[Sequence[ItemT], int], list[ItemT]]:
    """Return a function that selects at most `most` cases, the same in every run, or all if CHAT_THOROUGH is set."""
    return _sample


def _sample(cases: Sequence[ItemT], most: int, /) -> list[ItemT]:
    if THOROUGH or len(cases) <= most:
        return list(cases)
    kept = random.Random(SEED).sample(range(len(cases)), most)  # noqa: S311 - no secret
    return [cases[number] for number in sorted(kept)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all but a sample of the cases of each test marked `sampled(most)`."""
    cases: dict[str, list[pytest.Item]] = {}
    limits: dict[str, int] = {}
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            name = item.nodeid.partition("[")[0]
            limits[name] = mark.args[0]
            cases.setdefault(name, []).append(item)
    left_out = {item for name, found in cases.items() for item in set(found) - set(_sample(found, limits[name]))}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection, because they slow each `gc.collect()` to a second."""
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the tests that need Node or Chromium, unless the command line names them."""
    if collection_path not in ELSEWHERE:
        return None
    named = (
        (config.invocation_params.dir / str(word).split("::")[0]).resolve() for word in config.invocation_params.args
    )
    return None if any(collection_path in (path, *path.parents) for path in named) else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a skipped test as failed if it must run here."""
    return _not_skipped_unseen((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Report a skipped module as failed if it must run here."""
    report = _not_skipped_unseen((yield))
    if report.skipped and isinstance(report.longrepr, tuple):
        # Name the module, not the function that skipped it: pytest-xdist drops reports with identical text.
        report.longrepr = (report.nodeid, *report.longrepr[1:])
    return report


def _not_skipped_unseen(report: ReportT) -> ReportT:
    if report.skipped and not hasattr(report, "wasxfail") and _must_run(report):
        report.outcome = "failed"
        report.longrepr = f"skipped, and here nothing may be: {report.longrepr}"
    return report


def _must_run(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Return whether a skip counts as a failure.

    A skip for missing recordings does if recordings are expected here. Any other skip does in CI.
    """
    if RECORDINGS in str(report.longrepr):
        return bool(os.environ.get(RECORDINGS)) or (ROOT.parent / "shared" / "wire").is_dir()
    return bool(os.environ.get("CI"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of modules skipped because of missing recordings."""
    skipped = terminalreporter.getreports("skipped")
    without = {str(report.nodeid).partition("::")[0] for report in skipped if RECORDINGS in str(report.longrepr)}
    if without:
        terminalreporter.write_line(f"{len(without)} test modules were skipped: no wire recordings ({RECORDINGS})")
