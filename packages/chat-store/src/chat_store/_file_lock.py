"""Locks on open files that end with their process, and the other things that the operating systems do differently.

On POSIX a lock is a `flock`. It belongs to the open file: two descriptors that were opened apart exclude each other
even in one process, closing another descriptor of the file frees nothing, and the kernel drops it when the process is
gone, however it went. A child made by `os.fork()` without `exec` shares it, and keeps it alive until the child ends,
too.

On Windows it is a locked byte far behind the end of the file, so that readers are not kept out.
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

_FAR = 0x7FFF_0000
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.02

_BINARY: int = getattr(os, "O_BINARY", 0)


def open_file(path: Path, *, create: bool) -> int:
    """A descriptor to read and append, not inherited by programs that this process starts.

    Raises:
        FileNotFoundError: there is none and `create` is false.
    """
    return os.open(path, os.O_RDWR | os.O_APPEND | _BINARY | (os.O_CREAT if create else 0), 0o600)


def try_lock(fd: int) -> bool:
    """Take the exclusive lock of an open file if nobody has it."""
    try:
        if sys.platform == "win32":  # pragma: no cover
            os.lseek(fd, _FAR, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock(fd: int) -> None:
    """Give the lock of an open file back."""
    if sys.platform == "win32":  # pragma: no cover
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(fd, fcntl.LOCK_UN)


@contextlib.contextmanager
def locked(fd: int, timeout: float) -> Generator[None]:
    """Hold the exclusive lock of an open file. Blocks its thread for at most `timeout` seconds.

    Raises:
        TimeoutError: somebody else held it all the time. A process that was stopped in the middle of a write does; what
            it would write when it goes on could not be told from the truth, so nobody may pass it.
    """
    deadline, wait = time.monotonic() + timeout, _FIRST_WAIT
    while not try_lock(fd):
        if time.monotonic() >= deadline:
            msg = f"another process has been writing to the file for {timeout:g} seconds; is it stopped?"
            raise TimeoutError(msg)
        time.sleep(wait)
        wait = min(_LONGEST_WAIT, wait * 2)
    try:
        yield
    finally:
        unlock(fd)


def read_from(fd: int, offset: int) -> bytes:
    """Everything from `offset` to the end of an open file."""
    os.lseek(fd, offset, os.SEEK_SET)
    pieces: list[bytes] = []
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def write_all(fd: int, data: bytes) -> None:
    """Append all of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync(fd: int) -> None:
    """Return when what was written is on the medium, as far as the system can tell."""
    full = getattr(fcntl, "F_FULLFSYNC", None) if sys.platform == "darwin" else None
    if full is not None:  # pragma: no cover
        # On macOS fsync() leaves the data in the drive's own cache; not every file system knows the stronger one.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, full)
            return
    os.fsync(fd)


def sync_directory(directory: Path) -> None:
    """Make a new file's name durable."""
    if sys.platform == "win32":  # pragma: no cover
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
