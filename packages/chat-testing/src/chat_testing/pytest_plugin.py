"""What pytest is told: the scenarios of a conformance kit that were not claimed, and the fixture `tape`.

A kit registers this module by itself. Under pytest-xdist, whose workers print no summary, and for the fixture, name it
once: `-p chat_testing.pytest_plugin`, or `pytest_plugins = ["chat_testing.pytest_plugin"]` in the `conftest.py` at the
root. Nothing here needs pytest to be installed.
"""

from __future__ import annotations

import sys
from typing import Any, Final

NOT_CLAIMED: Final = "not claimed"
"""The name of the property, of a test's report, that says what its kit did not look at."""


def register(config: Any) -> None:  # noqa: ANN401 - pytest's, which is not imported here
    """Have pytest report at its end what was not claimed, unless it does already."""
    plugins = config.pluginmanager
    if not plugins.has_plugin(__name__):
        plugins.register(sys.modules[__name__], __name__)


def pytest_addoption(parser: Any) -> None:  # noqa: ANN401 - pytest's
    """Add the option that says whether tapes are recorded."""
    parser.getgroup("chat-core").addoption(
        "--record-tapes",
        choices=("none", "once", "all"),
        default="none",
        help="record the tapes of the fixture `tape`: none of them, those that are missing (once), or all",
    )


def pytest_configure(config: Any) -> None:  # noqa: ANN401 - pytest's
    """Bring the fixture."""
    from chat_testing.tape._fixture import plugin  # noqa: PLC0415 - for those alone who run pytest

    brought = plugin()
    if not config.pluginmanager.has_plugin(brought.__name__):
        config.pluginmanager.register(brought, brought.__name__)


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - pytest's
    """Write what was not claimed."""
    told = [
        str(value)
        for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ()))
        for name, value in getattr(report, "user_properties", ())
        if name == NOT_CLAIMED and "\n" in str(value)  # else there is nothing behind its first line
    ]
    if told:
        terminalreporter.section("conformance: not claimed, so not looked at")
        for text in told:
            terminalreporter.write_line(text)
