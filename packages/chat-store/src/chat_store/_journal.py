"""An append-only file of JSON lines that stays readable after a crash at any time.

    {"format":"chat-conversation","version":1,"length":75,"n":1,"id":"…","at":"…","messages":{…},"crc":"5e0c1a2b"}
    {"length":96,"n":2,"at":"…","lease":{"fence":1,"holder":"…","until":"…"},"crc":"…"}
    {"length":62,"n":3,"at":"…","tools":[{"tool":{…}}],"crc":"…"}
    {"length":85,"n":4,"snapshot":{"messages":{…},…},"at":"…","lease":{"fence":1,"released":true},"crc":"…"}

Each line is a JSON object and is written atomically. `n` is the line number. `length` is the number of bytes after its
comma, up to the end of the line; early versions did not write it. `crc` is the CRC-32 of the line without its `crc`
field. A line ends with a line feed.

If a crash interrupts a write, the method that writes never returns, so the write has no effect: readers ignore the
incomplete line, and the next write truncates it. An incomplete line is shorter than its `length`. After a power
failure, the file may also have its full size while some sectors of the last line contain zeros. Any other invalid line,
such as a line with a wrong checksum or without a line feed, is damaged, and reading it raises an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar, cast, final
from zlib import crc32

from chat_core.errors import InvalidDocumentError, NewerVersionError, UsageError
from chat_core.json import dump_bytes, loads

from chat_store import _file_lock
from chat_store._compaction import LogTail

T = TypeVar("T")

FORMAT = "chat-conversation"
VERSION = 1
LOCK_TIMEOUT = 10.0
"""Seconds to wait for another process that is writing. A write takes milliseconds."""

_FILE_PREFIX = b'{"format":"chat-conversation"'
_FIRST_FIELDS = b'{"format":"%s","version":%d,' % (FORMAT.encode(), VERSION)
_CHECKSUM_LENGTH = len(b',"crc":"00000000"}')
_LENGTH_FIELD = re.compile(rb'\{(?:"format":"[^"]*","version":\d+,)?"length":(\d+),')
_SNAPSHOT_LINE = re.compile(rb'(?<=\n)\{"length":\d+,"n":(\d+),"snapshot":')
_BLOCK = 64 * 1024
"""The number of bytes to read first when searching backward for a snapshot."""
_SECTOR = 512
"""The smallest unit that a power failure can leave unwritten, in bytes."""


def encode(entry: Mapping[str, object]) -> bytes:
    """Encode an entry as a line of the journal. The entry must not be empty. The first line also names the format."""
    fields = dump_bytes(entry)[1:]
    length = len(fields) + _CHECKSUM_LENGTH
    body = b'%s"length":%d,%s' % (_FIRST_FIELDS if entry.get("n") == 1 else b"{", length, fields)
    return b'%s,"crc":"%08x"}\n' % (body[:-1], crc32(body))


def decode(line: bytes) -> dict[str, object] | None:
    """Parse a line of the journal, given without its line feed. Return None if the checksum is wrong."""
    body = line[:-_CHECKSUM_LENGTH] + b"}"
    if line[-_CHECKSUM_LENGTH:] != b',"crc":"%08x"}' % crc32(body):
        return None
    entry = loads(body)
    return cast("dict[str, object]", entry) if isinstance(entry, dict) else None


class Disk:
    """The disk operations of a durable write. Crash tests replace `Journal.disk`."""

    def write(self, fd: int, data: bytes) -> None:
        """Append data to an open file."""
        _file_lock.write_all(fd, data)

    def sync(self, fd: int) -> None:
        """Make the written data durable."""
        _file_lock.sync(fd)


@final
class Journal:
    """An open journal file. Its methods block. All except `locked` and `close` must be called inside `locked()`."""

    disk: ClassVar[Disk] = Disk()

    def __init__(self, path: Path) -> None:
        """Open a file, creating it if it does not exist."""
        self._path = path
        self._fd = _file_lock.open_file(path, create=True)
        self._mutex = threading.Lock()
        self._offset = 0
        self._count = 0
        self._start = (0, 0)
        self._tail = LogTail()

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Return a context manager that locks the file against other readers and writers, in any process.

        Raises:
            TimeoutError: another process did not finish its write in time.
            InvalidDocumentError: the file was removed, replaced or truncated after it was opened.
        """
        with self._mutex, _file_lock.locked(self._fd, LOCK_TIMEOUT):
            self._require_same_file()
            yield

    def refresh(self, apply: Callable[[dict[str, object]], None]) -> None:
        """Call `apply` with every entry that was not read yet, in order.

        If `apply` raises, the exception propagates, and the next call of `refresh()` begins with the same entry.

        Raises:
            InvalidDocumentError: the file is damaged, or is not a journal.
            NewerVersionError: a later version of this library wrote the file.
        """
        data = _file_lock.read_from(self._fd, self._offset) if self._count else self._read_from_snapshot()
        for entry, length in _parse_entries(data, self._offset, self._count, self._path):
            apply(entry)
            self._advance_past(entry, length)

    def _advance_past(self, entry: Mapping[str, object], length: int) -> None:
        """Advance the position past an entry that was read or written. `length` is the size of its line in bytes."""
        begins = self._count == 0 or "snapshot" in entry
        if begins:
            self._start = (self._offset, self._count)
        self._tail.add(length, begins=begins)
        self._offset += length
        self._count += 1

    def _read_from_snapshot(self) -> bytes:
        """Return the data from the newest snapshot on, and move the read position there. Without one, return all data.

        The file is read backward. An incomplete or damaged snapshot is skipped. If it is damaged, parsing the data
        after an earlier snapshot raises an error.
        """
        if _file_lock.read_from(self._fd, 0, len(_FIRST_FIELDS)) != _FIRST_FIELDS:
            return _file_lock.read_from(self._fd, 0)
        start, data = os.fstat(self._fd).st_size, b""
        while start > 0:
            length = min(start, max(_BLOCK, len(data)))
            start -= length
            data = _file_lock.read_from(self._fd, start, length) + data
            for line in reversed(list(_SNAPSHOT_LINE.finditer(data))):
                end = data.find(b"\n", line.start())
                if end >= 0 and decode(data[line.start() : end]) is not None:
                    self._offset, self._count = start + line.start(), int(line[1]) - 1
                    return data[line.start() :]
        return data

    @property
    def needs_snapshot(self) -> bool:
        """Whether the next entry should contain a snapshot, which must be the first field of the entry."""
        return self._tail.needs_snapshot

    def read_tail(self) -> list[dict[str, object]]:
        """Return the entries from the newest snapshot on. Without a snapshot, return all entries."""
        offset, count = self._start
        return [entry for entry, _ in _parse_entries(_file_lock.read_from(self._fd, offset), offset, count, self._path)]

    def read_entries(self) -> list[dict[str, object]]:
        """Return all entries of the journal, oldest first."""
        return [entry for entry, _ in _parse_entries(_file_lock.read_from(self._fd, 0), 0, 0, self._path)]

    @property
    def empty(self) -> bool:
        """Whether the file has no entry, because it is new or its creator died before the first write."""
        return self._count == 0

    def append(self, entry: Mapping[str, object], read: Callable[[dict[str, object]], T]) -> T:
        """Append an entry durably. All earlier entries must have been read.

        Args:
            entry: the fields of the entry, without its number.
            read: function called before the write with the entry as it will be read back. If it raises, nothing is
                written.

        Returns:
            The result of `read`.

        Raises:
            OSError: the entry could not be written, and is not in the file.
            UsageError: the entry cannot be represented as JSON, and was not written.
        """
        line = encode({"n": self._count + 1, **entry})
        decoded = decode(line[:-1])
        if decoded is None:
            msg = f"the entry cannot be read back from its JSON form: {entry!r}"
            raise UsageError(msg)
        result = read(decoded)
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
        self._advance_past(decoded, len(line))
        return result

    def replace(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Replace the file durably with a file that contains other entries.

        Close this object afterwards, because it has the old file open.

        Args:
            entries: the new entries, with their numbers.
        """
        path = self._path.with_name(f"{self._path.name}.new")
        path.unlink(missing_ok=True)
        fd = _file_lock.open_file(path, create=True)
        try:
            self.disk.write(fd, b"".join([encode(entry) for entry in entries]))
            self.disk.sync(fd)
        finally:
            os.close(fd)
        path.replace(self._path)
        _file_lock.sync_directory(self._path.parent)

    def close(self) -> None:
        """Close the file, after waiting for a write in progress."""
        with self._mutex:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _require_same_file(self) -> None:
        opened = os.fstat(self._fd)
        try:
            current = self._path.stat()
        except FileNotFoundError:
            current = None
        if current is None or not os.path.samestat(opened, current) or opened.st_size < self._offset:
            msg = f"{self._path} was removed, replaced or truncated while it was open; open it again"
            raise InvalidDocumentError(msg)


def _parse_entries(data: bytes, offset: int, count: int, path: Path) -> Iterator[tuple[dict[str, object], int]]:
    """Yield the entries in a part of the file, each with its length in bytes.

    Args:
        data: the part of the file, up to its end.
        offset: the position of the part in the file.
        count: the number of entries before this part.
        path: the path of the file, for errors.
    """
    if count == 0:
        _require_supported_format(data, path)
    start = 0
    while start < len(data):
        count += 1
        end = data.find(b"\n", start)
        entry = decode(data[start:end]) if end >= 0 else None
        if entry is None:
            if _is_incomplete_write(data[start:], offset + start):
                return
            what = "its checksum is wrong" if end >= 0 else "it has no line feed"
            msg = f"line {count} of {path} is damaged: {what}"
            raise InvalidDocumentError(msg)
        if entry.get("n") != count:
            msg = f"line {count} of {path} has the number {entry.get('n')!r}, so lines are missing or repeated"
            raise InvalidDocumentError(msg)
        yield entry, end + 1 - start
        start = end + 1


def _is_incomplete_write(rest: bytes, offset: int) -> bool:
    """Return whether the data at the end of a file was left by a write that a crash interrupted.

    Args:
        rest: the data after the last valid line.
        offset: the position of this data in the file.
    """
    first, *others = rest.split(b"\n")
    if b"\0" not in first:
        return not others and not _is_whole_line(first)
    # JSON has no zeros. A power failure leaves them in whole sectors, unlike a flipped bit.
    return all(decode(line) is None for line in others) and all(
        (zeros.start() == 0 or (offset + zeros.start()) % _SECTOR == 0)
        and (zeros.end() == len(rest) or (offset + zeros.end()) % _SECTOR == 0)
        for zeros in re.finditer(rb"\0+", rest)
    )


def _is_whole_line(line: bytes) -> bool:
    """Return whether a line without a line feed has its full length. Such a line is damaged, not incomplete."""
    field = _LENGTH_FIELD.match(line)
    if field is not None and len(line) >= field.end() + int(field[1]):
        return True
    return decode(line[:-1]) is not None


def _require_supported_format(data: bytes, path: Path) -> None:
    """Raise if a file is not a journal of this version. Must be called before the file is changed."""
    if not data.strip(b"\0"):
        return
    if not data.startswith(_FILE_PREFIX[: len(data)]):
        msg = f"{path} is not a stored conversation: it does not begin with {_FILE_PREFIX.decode()}"
        raise InvalidDocumentError(msg)
    first, end, _ = data.partition(b"\n")
    if not end:
        return
    # A later version may use another checksum, so check the version first.
    try:
        version = cast("Mapping[str, object]", loads(first)).get("version")
    except ValueError:
        return
    if isinstance(version, int) and version > VERSION:
        msg = f"{path} has format version {version}, but this library supports {VERSION}: upgrade chat-store"
        raise NewerVersionError(msg)
