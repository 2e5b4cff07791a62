"""Class of the object that the pytest fixture `tape` provides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from chat_core.errors import UsageError
from chat_core.transport import Transport

from chat_testing.tape.recording import RecordingTransport
from chat_testing.tape.redaction import Secrets
from chat_testing.tape.replay import Match, TapeTransport

OPTION: Final = "--record-tapes"


@final
class TapeFixture:
    """Factory for transports that replay or record the tapes of one test.

    Args:
        folder: directory of the tapes.
        name: name of the test, from which the file name is built.
        record: recording mode: `none`, `once` (record if the tape does not exist) or `all`.
        test: pytest node id of the test.
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
        """Return a transport that replays the test's tape, or that records it over the transport from `make`.

        Args:
            make: creates the real transport. It is not called if a tape is replayed.
            name: name of this tape, if a test has several.
            note: note for readers of the file.
            match: rule that selects the recorded response for a request, see `Match`.
            secrets: rules that decide which values are hidden on the tape.

        Raises:
            UsageError: the tape does not exist and recording is off, or the test already uses it.
        """
        path = self._folder / f"{self._name}{f'.{name}' if name else ''}.json"
        if path in self._transports:
            msg = (
                f"this test already uses the tape {path.name}: give its tapes different names with tape(make, name='…')"
            )
            raise UsageError(msg)
        if self._record == "all" or (self._record == "once" and not path.exists()):
            self._transports[path] = None
            return RecordingTransport(make(), path, note=note, secrets=secrets, overwrite=True)
        if not path.exists():
            command = f"pytest {OPTION}=once {self._test}"
            msg = f"no tape at {path}: run `{command}`, which sends requests to the real service, and commit the file"
            raise UsageError(msg)
        transport = self._transports[path] = TapeTransport(path, match=match, secrets=secrets)
        return transport

    def require_all_played(self) -> None:
        """Raise an error if a recorded exchange was not requested.

        Raises:
            UsageError: a recorded exchange was not requested.
        """
        for path, transport in self._transports.items():
            if transport is not None and transport.unplayed:
                names = "\n".join([f"    {text}" for text in transport.unplayed])
                msg = f"{path}: {len(transport.unplayed)} recorded exchange(s) were not requested:\n{names}"
                raise UsageError(msg)
