"""The fixture `tape` of pytest: a tape beside the test, recorded on demand and replayed everywhere else.

Whoever registers it has pytest, and nobody else needs it: it is not imported here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from chat_core.errors import UsageError

from chat_testing.tape.recording import RecordingTransport
from chat_testing.tape.redaction import Secrets
from chat_testing.tape.replay import Match, TapeTransport

if TYPE_CHECKING:
    from chat_core.transport import Transport

OPTION: Final = "--record-tapes"
_LOOPS: Final = ("asyncio+uvloop", "asyncio", "trio")
_PASSED: Final = object()


@final
class Tapes:
    """What the fixture gives: call it with what makes the real transport, and take the one that it returns.

    Args:
        folder: where the tapes are.
        name: the test's, which is the file's.
        record: whether to record: `none`, `once` (where there is no tape) or `all`.
        test: how to name the test on pytest's command line.
    """

    def __init__(self, folder: Path, name: str, record: str, test: str) -> None:
        self._folder = folder
        self._name = name
        self._record = record
        self._test = test
        self._replaying: dict[Path, TapeTransport | None] = {}

    def __call__(
        self,
        make: Callable[[], Transport],
        *,
        name: str = "",
        note: str = "",
        match: Match = "strict",
        secrets: Secrets | None = None,
    ) -> Transport:
        """A transport that replays the test's tape, or one that records it around the transport that `make` makes.

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
        if path in self._replaying:
            msg = f"this test has the tape {path.name} in use: tell its tapes apart, with tape(make, name='…')"
            raise UsageError(msg)
        if self._record == "all" or (self._record == "once" and not path.exists()):
            self._replaying[path] = None
            return RecordingTransport(make(), path, note=note, secrets=secrets, overwrite=True)
        if not path.exists():
            command = f"pytest {OPTION}=once {self._test}"
            msg = f"there is no tape at {path}; `{command}` records it, and asks the real service: commit the file"
            raise UsageError(msg)
        replaying = self._replaying[path] = TapeTransport(path, match=match, secrets=secrets)
        return replaying

    def check(self) -> None:
        """Look whether every tape was played to its end.

        Raises:
            UsageError: one was not.
        """
        for path, transport in self._replaying.items():
            if transport is not None and transport.unplayed:
                what = "\n".join([f"    {text}" for text in transport.unplayed])
                msg = f"{path}: nobody asked for {len(transport.unplayed)} recorded exchange(s):\n{what}"
                raise UsageError(msg)


def plugin() -> ModuleType:
    """What pytest is to register: the fixture, and what it needs to know of a test."""
    pytest: Any = import_module("pytest")
    module = ModuleType(f"{__name__}.plugin")
    vars(module)["tape"] = pytest.fixture(tape)
    vars(module)["pytest_runtest_makereport"] = pytest.hookimpl(wrapper=True)(pytest_runtest_makereport)
    return module


def tape(request: Any) -> Generator[Tapes]:  # noqa: ANN401 - pytest's
    """The tapes of this test: `tape(HttpxTransport)` is a transport. What was recorded must be asked for."""
    record = str(request.config.getoption(OPTION, "none"))
    tapes = Tapes(request.path.parent / "tapes", _name(request), record, request.node.nodeid)
    yield tapes
    if request.node.stash.get(_PASSED, default=False):
        tapes.check()


def pytest_runtest_makereport(item: Any) -> Generator[None, Any, Any]:  # noqa: ANN401 - pytest's
    """Remember whether a test passed: else what it did not ask for is no news."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def _name(request: Any) -> str:  # noqa: ANN401 - pytest's
    """The module and the test, and its parameters but for the event loop: one tape serves them all."""
    node = request.node
    parts = [request.path.stem, *([request.cls.__name__] if request.cls is not None else []), node.originalname]
    identity = str(node.callspec.id) if hasattr(node, "callspec") else ""
    parts += [part for part in identity.split("-") if part and part not in _LOOPS]
    return re.sub(r"[^\w.-]+", "_", ".".join(parts))
