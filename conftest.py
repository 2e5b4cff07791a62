"""What every test of the workspace shares."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

if not os.environ.get("CI"):  # there hypothesis has a profile of its own, with the same examples in every run
    settings.register_profile("desk", deadline=None)  # a machine that is busy is no bug
    settings.load_profile("desk")

ReportT = TypeVar("ReportT", pytest.TestReport, pytest.CollectReport)
ELSEWHERE = [Path(__file__).parent / "tests" / name for name in ("browser", "servers")]
"""What needs more than Python packages: each has a session of its own."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests that need Node or Chromium, unless they are named."""
    if collection_path not in ELSEWHERE:
        return None
    named = (
        (config.invocation_params.dir / str(word).split("::")[0]).resolve() for word in config.invocation_params.args
    )
    return None if any(collection_path in (path, *path.parents) for path in named) else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that was skipped where nobody would read of it."""
    return _not_skipped_unseen((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a module that was skipped where nobody would read of it."""
    return _not_skipped_unseen((yield))


def _not_skipped_unseen(report: ReportT) -> ReportT:
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and in CI nothing may be: {report.longrepr}"
    return report
