"""The value of the pytest fixture `tape`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from chat_core.errors import UsageError

from chat_testing.tape.recording import RecordingTransport
from chat_testing.tape.redaction import Secrets
from chat_testing.tape.replay import Match, TapeTransport

if TYPE_CHECKING:
    from chat_core.transport import Transport

OPTION: Final = "--record-tapes"


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
            command = f"pytest {OPTION}=once {self._test}"
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
