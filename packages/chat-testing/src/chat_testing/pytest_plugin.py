"""Pytest plug-in with the fixture `tape`, the option `--record-tapes`, and the list of unclaimed scenarios.

Enable it in the `conftest.py` at the root of your tests:

    pytest_plugins = ["chat_testing.pytest_plugin"]

Installing chat-testing enables nothing. The conformance classes print the list of unclaimed scenarios without this
plug-in, except under pytest-xdist, whose workers print no summary.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from importlib import import_module
from typing import Any, Final

from chat_testing import _unclaimed_summary
from chat_testing.tape import TapeFixture
from chat_testing.tape._fixture import OPTION

# Only pytest loads this module. The package does not depend on pytest, because the suites run without it.
_pytest: Any = import_module("pytest")

_EVENT_LOOPS: Final = ("asyncio+uvloop", "asyncio", "trio")
_PASSED: Final = object()


def pytest_addoption(parser: Any) -> None:  # noqa: ANN401 - pytest's
    """Add the option `--record-tapes`."""
    parser.getgroup("chat-testing").addoption(
        OPTION,
        choices=("none", "once", "all"),
        default="none",
        help="record the tapes of the fixture `tape`: none of them, those that are missing (once), or all",
    )


def pytest_configure(config: Any) -> None:  # noqa: ANN401 - pytest's
    """Register the summary section in this process. Under pytest-xdist, only the controller prints the summary."""
    _unclaimed_summary.register(config)


def _remember_outcome(item: Any) -> Generator[None, Any, Any]:  # noqa: ANN401 - pytest's
    """Store whether the test passed (pytest hook). Unplayed exchanges are only reported for tests that passed."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def _tape(request: Any) -> Generator[TapeFixture]:  # noqa: ANN401 - pytest's
    """Yield a factory for the tapes of this test. Afterward, require that a passed test requested every exchange."""
    record = str(request.config.getoption(OPTION, "none"))
    tapes = TapeFixture(request.path.parent / "tapes", _file_name(request), record, request.node.nodeid)
    yield tapes
    if request.node.stash.get(_PASSED, default=False):
        tapes.require_all_played()


def _file_name(request: Any) -> str:  # noqa: ANN401 - pytest's
    """Return the file name for a test's tape, built from module, class, test and parameters.

    The event loop is omitted, so that all loops share a tape.
    """
    node = request.node
    parts = [request.path.stem, *([request.cls.__name__] if request.cls is not None else []), node.originalname]
    identity = str(node.callspec.id) if hasattr(node, "callspec") else ""
    parts += [part for part in identity.split("-") if part and part not in _EVENT_LOOPS]
    return re.sub(r"[^\w.-]+", "_", ".".join(parts))


tape: Any = _pytest.fixture(name="tape")(_tape)
pytest_runtest_makereport: Any = _pytest.hookimpl(wrapper=True)(_remember_outcome)
