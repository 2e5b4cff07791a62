"""Servers as child processes. Their output shows when they are ready, and is read until they are terminated."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, Self, final

READY_SECONDS: Final = 60.0
HOW: Final = "`python3 run.py servers` installs it and runs these tests"


@final
class Child:
    """A server process that runs until the end of the block."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def until(self, pattern: str) -> str:
        """Wait up to a minute for a line that matches, and return the first group of the match."""
        deadline = time.monotonic() + READY_SECONDS
        with self._news:
            while True:
                for line in self._lines:
                    if found := re.search(pattern, line):
                        return found[1]
                assert not self._ended, f"it ended before it served; it said:\n{''.join(self._lines)}"
                left = deadline - time.monotonic()
                assert left > 0, f"it does not serve after {READY_SECONDS} s; it said:\n{''.join(self._lines)}"
                self._news.wait(left)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it has nothing to lose, and might wait for its clients
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
