"""The pytest plug-in: the fixture `tape`, the option `--record-tapes`, and the list of unclaimed scenarios.

Enable it in the `conftest.py` at the root of your tests:

    pytest_plugins = ["chat_testing.pytest_plugin"]

Installing chat-testing enables nothing. The conformance classes print the list of unclaimed scenarios without this
plug-in, except under pytest-xdist, whose workers print no summary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from chat_core.errors import UsageError

from chat_testing import _unclaimed_summary
from chat_testing.tape.recording import RecordingTransport
from chat_testing.tape.redaction import Secrets
from chat_testing.tape.replay import Match, TapeTransport

if TYPE_CHECKING:
    from chat_core.transport import Transport

# pytest loads this module, so pytest is there. It is no dependency of this package: the suites run without it.
_pytest: Any = import_module("pytest")

_OPTION: Final = "--record-tapes"
_EVENT_LOOPS: Final = ("asyncio+uvloop", "asyncio", "trio")
_PASSED: Final = object()


@final
class TapeFixture:
    """The value of the fixture `tape`: call it with a function that makes the real transport, and use its result.

    Args:
        folder: the folder of the tapes.
        name: the name of the test, from which the file is named.
        record: when to record: `none`, `once` (where there is no tape) or `all`.
        test: the id of the test on pytest's command line.
    """

    def __init__(self, folder: Path, name: str, record: str, test: str) -> None:
        self._folder = folder
        self._name = name
        self._record = record
        self._test = test
        self._transports: dict[Path, TapeTransport | None] = {}

    def __call__(
        self,
        make: Callable[[], Transport],
        *,
        name: str = "",
        note: str = "",
        match: Match = "strict",
        secrets: Secrets | None = None,
    ) -> Transport:
        """Return a transport that replays the test's tape, or one that records it over the transport from `make`.

        Args:
            make: makes the real transport. It is not called where a tape is replayed.
            name: tells one tape from another one where a test has several.
            note: what a reader of the file should know.
            match: how a request finds its recorded answer.
            secrets: what is removed.

        Raises:
            UsageError: there is no tape and none may be recorded, or the test has asked for this one already.
        """
        path = self._folder / f"{self._name}{f'.{name}' if name else ''}.json"
        if path in self._transports:
            msg = f"this test has the tape {path.name} in use: tell its tapes apart, with tape(make, name='…')"
            raise UsageError(msg)
        if self._record == "all" or (self._record == "once" and not path.exists()):
            self._transports[path] = None
            return RecordingTransport(make(), path, note=note, secrets=secrets, overwrite=True)
        if not path.exists():
            command = f"pytest {_OPTION}=once {self._test}"
            msg = f"there is no tape at {path}; `{command}` records it, and asks the real service: commit the file"
            raise UsageError(msg)
        transport = self._transports[path] = TapeTransport(path, match=match, secrets=secrets)
        return transport

    def require_all_played(self) -> None:
        """Raise unless every tape was played to its end.

        Raises:
            UsageError: a recorded exchange was not requested.
        """
        for path, transport in self._transports.items():
            if transport is not None and transport.unplayed:
                what = "\n".join([f"    {text}" for text in transport.unplayed])
                msg = f"{path}: nobody asked for {len(transport.unplayed)} recorded exchange(s):\n{what}"
                raise UsageError(msg)


def pytest_addoption(parser: Any) -> None:  # noqa: ANN401 - pytest's
    """Add the option `--record-tapes`."""
    parser.getgroup("chat-testing").addoption(
        _OPTION,
        choices=("none", "once", "all"),
        default="none",
        help="record the tapes of the fixture `tape`: none of them, those that are missing (once), or all",
    )


def pytest_configure(config: Any) -> None:  # noqa: ANN401 - pytest's
    """Print the list of unclaimed scenarios in this process: under pytest-xdist, the one that prints the summary."""
    _unclaimed_summary.register(config)


def _remember_outcome(item: Any) -> Generator[None, Any, Any]:  # noqa: ANN401 - pytest's
    """Store whether the test passed: after a failure, unplayed exchanges are no news."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def _tape(request: Any) -> Generator[TapeFixture]:  # noqa: ANN401 - pytest's
    """Provide the tapes of this test: `tape(HttpxTransport)` is a transport. Every recorded exchange must be used."""
    record = str(request.config.getoption(_OPTION, "none"))
    tapes = TapeFixture(request.path.parent / "tapes", _file_name(request), record, request.node.nodeid)
    yield tapes
    if request.node.stash.get(_PASSED, default=False):
        tapes.require_all_played()


def _file_name(request: Any) -> str:  # noqa: ANN401 - pytest's
    """Return the names of module and test, and its parameters except the event loop: all loops share one tape."""
    node = request.node
    parts = [request.path.stem, *([request.cls.__name__] if request.cls is not None else []), node.originalname]
    identity = str(node.callspec.id) if hasattr(node, "callspec") else ""
    parts += [part for part in identity.split("-") if part and part not in _EVENT_LOOPS]
    return re.sub(r"[^\w.-]+", "_", ".".join(parts))


tape: Any = _pytest.fixture(name="tape")(_tape)
pytest_runtest_makereport: Any = _pytest.hookimpl(wrapper=True)(_remember_outcome)
