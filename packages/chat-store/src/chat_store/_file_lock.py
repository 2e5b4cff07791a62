"""File locks that the system releases when the process ends, and other platform-specific file operations.

On POSIX, a lock is a `flock`. It belongs to the open file description: two descriptors opened separately exclude each
other even in one process, and closing one does not release the lock of the other. A child made by `os.fork()` without
`exec` inherits the lock, which is then not released before both processes have exited.

On Windows, a lock is a locked byte far beyond the end of the file, so that it does not block readers.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl

_LOCKED_BYTE = 0x7FFF_0000
_CHUNK = 1 << 20
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.02

_BINARY: int = getattr(os, "O_BINARY", 0)


def open_file(path: Path, *, create: bool) -> int:
    """Open a file for reading and appending, and return a descriptor that child programs do not inherit.

    Args:
        path: path of the file.
        create: whether to create a missing file.

    Raises:
        FileNotFoundError: the file does not exist and `create` is false.
    """
    return os.open(path, os.O_RDWR | os.O_APPEND | _BINARY | (os.O_CREAT if create else 0), 0o600)


def try_lock(fd: int) -> bool:
    """Try to take the exclusive lock of an open file without waiting, and return whether it was taken."""
    try:
        if sys.platform == "win32":  # pragma: no cover
            os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock(fd: int) -> None:
    """Release the lock of an open file."""
    if sys.platform == "win32":  # pragma: no cover
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(fd, fcntl.LOCK_UN)


@contextlib.contextmanager
def locked(fd: int, timeout: float) -> Generator[None]:
    """Return a context manager that holds the exclusive lock of an open file.

    Args:
        fd: a descriptor from `open_file()`.
        timeout: maximum number of seconds to wait for the lock, blocking the thread.

    Raises:
        TimeoutError: another process held the lock the whole time. It may have been stopped in the middle of a write,
            which it would complete when it is resumed, so the lock must not be broken.
    """
    deadline, wait = time.monotonic() + timeout, _FIRST_WAIT
    while not try_lock(fd):
        if time.monotonic() >= deadline:
            msg = f"another process has held the lock of the file for {timeout:g} seconds: check whether it is stopped"
            raise TimeoutError(msg)
        time.sleep(wait)
        wait = min(_LONGEST_WAIT, wait * 2)
    try:
        yield
    finally:
        unlock(fd)


def read_from(fd: int, offset: int, length: int | None = None) -> bytes:
    """Return the data of an open file from an offset.

    Args:
        fd: descriptor of the open file.
        offset: the position of the first byte.
        length: the maximum number of bytes. Default: to the end of the file.
    """
    os.lseek(fd, offset, os.SEEK_SET)
    chunks: list[bytes] = []
    while chunk := os.read(fd, _CHUNK if length is None else min(_CHUNK, length)):
        chunks.append(chunk)
        length = None if length is None else length - len(chunk)
    return b"".join(chunks)


def write_all(fd: int, data: bytes) -> None:
    """Append data to an open file, repeating partial writes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync(fd: int) -> None:
    """Flush the written data of an open file to the disk."""
    full = getattr(fcntl, "F_FULLFSYNC", None) if sys.platform == "darwin" else None
    if full is not None:  # pragma: no cover
        # On macOS, fsync() leaves the data in the cache of the drive. Not every file system supports F_FULLFSYNC.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, full)
            return
    os.fsync(fd)


def sync_directory(directory: Path) -> None:
    """Flush a directory to the disk, so that a new file in it survives a crash. Does nothing on Windows."""
    if sys.platform == "win32":  # pragma: no cover
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
