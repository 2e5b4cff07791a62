"""A file of JSON lines that only grows, and that a crash at any instant leaves readable.

    {"format":"chat-conversation","version":1,"n":1,"id":"…","at":"…","messages":{…},"crc":"5e0c1a2b"}
    {"n":2,"at":"…","lease":{"fence":1,"holder":"…","until":"…"},"crc":"…"}
    {"n":3,"at":"…","tools":[{"tool":{…}}],"crc":"…"}

Each line is one JSON object, one change that is durable as a whole or not at all. `n` counts the lines; `crc` is the
CRC-32 of the line without its `crc` field. Every line ends in a line feed, which is its last byte on the disk, so
that what a process left that died in the middle of a write is told from a whole line by its missing end. It never
took effect, because nobody was told that it had: readers pass over it, and the next write cuts it off. A file system
may leave zeros in place of data after a power failure; they are seen as the same. Any other line whose sum is wrong
is damage, and is refused.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, TypeVar, cast, final
from zlib import crc32

from chat_core.errors import InvalidDocumentError, NewerVersionError, UsageError
from chat_core.json import dump_bytes, loads

from chat_store import _file_lock

T = TypeVar("T")

FORMAT = "chat-conversation"
VERSION = 1
LOCK_TIMEOUT = 10.0
"""Seconds to wait for another process that is writing. A write takes milliseconds."""

_HEAD = b'{"format":"chat-conversation"'
_TAIL = len(b',"crc":"00000000"}')


def encode(entry: Mapping[str, object]) -> bytes:
    """One line for a non-empty entry."""
    body = dump_bytes(entry)
    return b'%s,"crc":"%08x"}\n' % (body[:-1], crc32(body))


def decode(line: bytes) -> dict[str, object] | None:
    """The entry of a line without its end; `None` where the sum is wrong."""
    body = line[:-_TAIL] + b"}"
    if line[-_TAIL:] != b',"crc":"%08x"}' % crc32(body):
        return None
    entry = loads(body)
    return cast("dict[str, object]", entry) if isinstance(entry, dict) else None


class Disk:
    """What a durable write is made of. Tests of crashes put their own in place of `Journal.disk`."""

    def write(self, fd: int, data: bytes) -> None:
        """Append `data`."""
        _file_lock.write_all(fd, data)

    def sync(self, fd: int) -> None:
        """Return when everything written is durable."""
        _file_lock.sync(fd)


@final
class Journal:
    """An open journal. Its methods block their thread; all but `locked` and `close` are called inside `locked()`."""

    disk: ClassVar[Disk] = Disk()

    def __init__(self, path: Path) -> None:
        """Open the file at `path`, and create an empty one where there is none."""
        self._path = path
        self._fd = _file_lock.open_file(path, create=True)
        self._mutex = threading.Lock()
        self._offset = 0
        self._count = 0

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Keep every other reader and writer out, of this process and of others.

        Raises:
            TimeoutError: another process that is writing does not come to an end.
            InvalidDocumentError: the file has been removed, replaced or cut meanwhile.
        """
        with self._mutex, _file_lock.locked(self._fd, LOCK_TIMEOUT):
            self._require_the_same_file()
            yield

    def refresh(self, apply: Callable[[dict[str, object]], None]) -> None:
        """Call `apply` with every entry that was not read yet, in order.

        Raises:
            InvalidDocumentError: the file is damaged, or is none of ours. What `apply` raises, too; it is tried again
            then.
            NewerVersionError: a later version of this library wrote it.
        """
        data = _file_lock.read_from(self._fd, self._offset)
        for entry, length in _entries(data, self._count, self._path):
            apply(entry)
            self._offset += length
            self._count += 1

    def read_entries(self) -> list[dict[str, object]]:
        """Return all entries, oldest first."""
        return [entry for entry, _ in _entries(_file_lock.read_from(self._fd, 0), 0, self._path)]

    @property
    def empty(self) -> bool:
        """Whether there is no entry: the file is new, or whoever created it died before it was done."""
        return self._count == 0

    def append(self, entry: Mapping[str, object], read: Callable[[dict[str, object]], T]) -> T:
        """Write an entry, and return when it is durable what `read` makes of it. Everything must have been read before.

        Raises:
            OSError: it could not be written, and is not there.
            UsageError: it could not be read again, and was not written. What `read` raises, too.
        """
        numbered: dict[str, object] = {"n": self._count + 1, **entry}
        if self._count == 0:
            numbered = {"format": FORMAT, "version": VERSION, **numbered}
        line = encode(numbered)
        again = decode(line[:-1])
        if again is None:
            msg = f"what is to be written could not be read again: {entry!r}"
            raise UsageError(msg)
        result = read(again)
        try:
            if os.fstat(self._fd).st_size > self._offset:
                os.ftruncate(self._fd, self._offset)
            self.disk.write(self._fd, line)
            self.disk.sync(self._fd)
            if self._count == 0:
                _file_lock.sync_directory(self._path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._offset)
            raise
        self._offset += len(line)
        self._count += 1
        return result

    def close(self) -> None:
        """Close the file, after a write that is under way."""
        with self._mutex:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _require_the_same_file(self) -> None:
        ours = os.fstat(self._fd)
        try:
            there = self._path.stat()
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(ours, there) or ours.st_size < self._offset:
            msg = f"{self._path} was removed, replaced or cut while it was open; open it again"
            raise InvalidDocumentError(msg)


def _entries(data: bytes, count: int, path: Path) -> Iterator[tuple[dict[str, object], int]]:
    """The entries of `data`, which follow the first `count` ones, and how many bytes each takes."""
    if count == 0:
        _require_ours(data, path)
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        count += 1
        line = data[start:end]
        entry = decode(line)
        if entry is None:
            if _never_written(data[start:]):
                return
            msg = f"line {count} of {path} is damaged: its checksum is wrong"
            raise InvalidDocumentError(msg)
        if entry.get("n") != count:
            msg = f"line {count} of {path} says that it is line {entry.get('n')!r}: lines are missing or repeated"
            raise InvalidDocumentError(msg)
        yield entry, end + 1 - start
        start = end + 1


def _never_written(rest: bytes) -> bool:
    """Whether a power failure kept the data, but not the length, of a write from the disk."""
    first, *others = rest.split(b"\n")
    return b"\0" in first and all(decode(line) is None for line in others)


def _require_ours(data: bytes, path: Path) -> None:
    """Refuse, before anything is cut off or written, a file that is no journal of this version."""
    if not data.strip(b"\0"):
        return
    if not data.startswith(_HEAD[: len(data)]):
        msg = f"{path} is not a stored conversation: it does not begin with {_HEAD.decode()}"
        raise InvalidDocumentError(msg)
    first, end, _ = data.partition(b"\n")
    if not end:
        return
    # A later version may have another kind of sum, so its number is looked at first.
    try:
        version = cast("Mapping[str, object]", loads(first)).get("version")
    except ValueError:
        return
    if isinstance(version, int) and version > VERSION:
        msg = f"{path} has version {version} of the format, and this library knows {VERSION}: upgrade it"
        raise NewerVersionError(msg)
