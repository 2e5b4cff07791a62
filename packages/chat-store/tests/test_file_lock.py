"""Locks that end with their process, and the rest of what the operating systems do differently."""

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


def test_a_lock_ends_with_its_process(path: Path) -> None:
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


def test_waiting_for_a_lock_ends_when_it_is_given_back_or_when_time_is_up(path: Path) -> None:
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


def test_what_is_not_there_is_not_created_by_looking(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _file_lock.open_file(path, create=False)
    assert not path.exists()


def test_everything_is_appended_and_read_from_any_place(path: Path) -> None:
    fd = _file_lock.open_file(path, create=True)
    data = bytes(range(256)) * 8192
    _file_lock.write_all(fd, data)
    _file_lock.sync(fd)
    _file_lock.sync_directory(path.parent)
    assert _file_lock.read_from(fd, 1000) == data[1000:]
    _file_lock.write_all(fd, b"end")
    assert path.read_bytes() == data + b"end"
    os.close(fd)


def test_a_conversation_cannot_be_read_by_another_user(path: Path) -> None:
    os.close(_file_lock.open_file(path, create=True))
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0
