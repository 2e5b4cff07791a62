"""The section of pytest's summary that lists the scenarios a conformance test did not run, since they are not claimed.

The conformance classes register this module when their tests run. Nothing here needs pytest to be installed.
"""

from __future__ import annotations

import sys
from typing import Any, Final

UNCLAIMED: Final = "not claimed"
"""The property of a test report that holds the list of one class."""


def register(config: Any) -> None:  # noqa: ANN401 - pytest's, which is not imported here
    """Register this module as a pytest plug-in, unless it is registered already."""
    plugins = config.pluginmanager
    if not plugins.has_plugin(__name__):
        plugins.register(sys.modules[__name__], __name__)


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - pytest's
    """Print the lists of all conformance classes of this run."""
    lists = [
        str(value)
        for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ()))
        for name, value in getattr(report, "user_properties", ())
        if name == UNCLAIMED and "\n" in str(value)  # else there is nothing after its first line
    ]
    if lists:
        terminalreporter.section("conformance: not claimed, so not looked at")
        for text in lists:
            terminalreporter.write_line(text)
