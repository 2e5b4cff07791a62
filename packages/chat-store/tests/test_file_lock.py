"""File locks that end with their process, and other platform-specific file operations."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from chat_store import _file_lock

HOLDER = """
import sys
from pathlib import Path
from chat_store import _file_lock
fd = _file_lock.open_file(Path(sys.argv[1]), create=True)
assert _file_lock.try_lock(fd)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_two_descriptors_of_one_process_exclude_each_other(path: Path) -> None:
    one, two = _file_lock.open_file(path, create=True), _file_lock.open_file(path, create=False)
    assert _file_lock.try_lock(one)
    assert not _file_lock.try_lock(two)
    os.close(os.open(path, os.O_RDONLY))
    assert not _file_lock.try_lock(two)
    _file_lock.unlock(one)
    assert _file_lock.try_lock(two)
    os.close(two)
    assert _file_lock.try_lock(one)
    os.close(one)


def test_a_file_lock_is_released_when_its_process_dies(path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        fd = _file_lock.open_file(path, create=False)
        assert not _file_lock.try_lock(fd)
        holder.kill()
        holder.wait()
        assert _file_lock.try_lock(fd)
        os.close(fd)


def test_waiting_for_a_file_lock_ends_on_release_or_timeout(path: Path) -> None:
    one, two = _file_lock.open_file(path, create=True), _file_lock.open_file(path, create=False)
    assert _file_lock.try_lock(one)
    with pytest.raises(TimeoutError, match=r"0\.02 seconds"), _file_lock.locked(two, 0.02):
        pytest.fail("entered")
    inside = threading.Event()

    def wait() -> None:
        with _file_lock.locked(two, 30):
            inside.set()

    thread = threading.Thread(target=wait)
    thread.start()
    _file_lock.unlock(one)
    assert inside.wait(30)
    thread.join()
    assert _file_lock.try_lock(one)
    os.close(one)
    os.close(two)


def test_opening_a_missing_file_without_create_does_not_create_it(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _file_lock.open_file(path, create=False)
    assert not path.exists()


def test_write_all_appends_and_read_from_starts_at_any_offset(path: Path) -> None:
    fd = _file_lock.open_file(path, create=True)
    data = bytes(range(256)) * 8192
    _file_lock.write_all(fd, data)
    _file_lock.sync(fd)
    _file_lock.sync_directory(path.parent)
    assert _file_lock.read_from(fd, 1000) == data[1000:]
    _file_lock.write_all(fd, b"end")
    assert path.read_bytes() == data + b"end"
    os.close(fd)


def test_a_conversation_file_is_private_to_its_user(path: Path) -> None:
    os.close(_file_lock.open_file(path, create=True))
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0
