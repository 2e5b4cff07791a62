"""Pytest summary section that lists the conformance scenarios that did not run.

A scenario does not run if the provider or transport does not claim a capability that the scenario needs. The
conformance classes register this module as a plug-in when their tests run. The module does not import pytest.
"""

from __future__ import annotations

import sys
from typing import Any, Final

UNCLAIMED: Final = "not claimed"
"""Name of the test report property that holds the list of one class."""


def register(config: Any) -> None:  # noqa: ANN401 - pytest's type, not imported here
    """Register this module as a pytest plug-in, unless pytest already knows it."""
    plugins = config.pluginmanager
    if not plugins.has_plugin(__name__):
        plugins.register(sys.modules[__name__], __name__)


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - pytest's
    """Print the scenarios that did not run, for each conformance class in this test run (pytest hook)."""
    lists = [
        str(value)
        for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ()))
        for name, value in getattr(report, "user_properties", ())
        if name == UNCLAIMED and "\n" in str(value)  # a list of one line has no unclaimed scenarios
    ]
    if lists:
        terminalreporter.section("conformance scenarios that did not run")
        for text in lists:
            terminalreporter.write_line(text)
