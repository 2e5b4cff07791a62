"""Journals that are truncated at any byte, damaged, replaced, on a full disk, or locked by another process."""

from __future__ import annotations

import os
import re
import threading
from datetime import timedelta
from pathlib import Path
from zlib import crc32

import anyio
import pytest
from chat_core.errors import (
    ConflictError,
    InvalidDocumentError,
)
from chat_core.messages import (
    Approved,
    Messages,
    Running,
    Text,
    Turn,
)
from chat_store import _file_lock, _journal
from chat_store._file_log import FileLog
from chat_store._journal import Disk, Journal
from chat_store.file_conversation import FileConversation
from chat_store.testing._fixtures import Clock, call, paused
from file_helpers import content_of, overwrite, remove, store, stored

pytestmark = pytest.mark.anyio


async def journal_of_every_kind(path: Path) -> None:
    """Write a journal with each kind of line, once or twice."""
    async with FileConversation.create(path, paused("one", "two")) as conversation:
        conversation.messages.tool("one").approve(by="ana")
        await conversation.claim()
        for step in (conversation.messages.tool("one").start, lambda: conversation.messages.tool("one").complete("ü")):
            step()
            await conversation.write_tool(("one",), conversation.messages.tool("one"))
        turn = Turn([call("three")])
        conversation.messages.append("model", turn)
        await conversation.write_turn((), "model", turn)


def read_at_once(path: Path) -> Messages:
    """Read a journal like `stored()`, but in this thread, for thousands of files."""
    log = FileLog(path, timedelta(seconds=30), Clock())
    try:
        return FileConversation(log, log.open("any"), 30, Clock()).messages
    finally:
        log.close()


async def test_a_journal_truncated_at_any_byte_keeps_every_complete_line(path: Path, tmp_path: Path) -> None:
    await journal_of_every_kind(path)
    data = content_of(path)
    ends = [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    whole: dict[int, Messages] = {}
    for end in ends:
        overwrite(path, data[:end])
        whole[end] = await stored(path)
    copy = tmp_path / "cut.jsonl"
    clock = Clock()
    for cut in range(len(data)):
        overwrite(copy, data[:cut])
        durable = max([end for end in ends if end <= cut], default=0)
        assert read_at_once(copy) == (whole[durable] if durable else Messages())
        if durable:
            assert content_of(copy) == data[:cut]
        if cut % 97 == 0 or cut in ends:
            async with FileConversation.open(copy, now=clock) as conversation:
                conversation.messages.append("user", Turn([Text("on")]))
            assert content_of(copy).startswith(data[:durable])
            assert (await stored(copy)).contents[-1].text == "on"


async def test_zeros_at_the_end_are_read_as_an_incomplete_write(path: Path) -> None:
    await journal_of_every_kind(path)
    before = await stored(path)
    data = content_of(path)
    first_sector = b"\0" * (-len(data) % 512)
    line = b'{"n":9,"at":"' + b"x" * 600
    whole = [
        b"\0" * 100,
        first_sector + b'"crc":"00000000"}\n',
        first_sector + b'\n{"n":10',
        line[: len(first_sector)] + b"\0" * 512 + b'"crc":"00000000"}\n',
        line[: len(first_sector)] + b"\0" * 40,
    ]
    for tail in whole:
        overwrite(path, data + tail)
        assert await stored(path) == before, tail


async def test_zeros_that_do_not_fill_sectors_are_damage(path: Path) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as conversation:
        conversation.messages.tool("one").approve(by="ana@example.com")
    data = content_of(path)
    place = data.rindex(b"@")
    for end in (len(data), len(data) - 1):
        overwrite(path, data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 : end])
        with pytest.raises(InvalidDocumentError, match="line 2"):
            await stored(path)


@pytest.mark.parametrize("early", [False, True], ids=["with a length", "without a length"])
async def test_a_changed_last_line_feed_is_damage(path: Path, *, early: bool) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as conversation:
        conversation.messages.tool("one").approve(by="ana")
    data = content_of(path)
    if early:
        data = b"".join([without_length(line) for line in data.splitlines()])
        overwrite(path, data)
        assert isinstance((await stored(path)).tool("one").status, Approved)
    for bit in range(8):
        overwrite(path, data[:-1] + bytes([data[-1] ^ 1 << bit]))
        with pytest.raises(InvalidDocumentError, match="line 2"):
            await stored(path)


def without_length(line: bytes) -> bytes:
    """Return a line in the format of early versions, without its length."""
    body = re.sub(rb'"length":\d+,', b"", line)[: -len(b',"crc":"00000000"}')] + b"}"
    return b'%s,"crc":"%08x"}\n' % (body[:-1], crc32(body))


async def test_a_last_line_with_an_overwritten_end_is_damage(path: Path) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as conversation:
        conversation.messages.tool("one").approve(by="ana")
    data = content_of(path)
    for length in (2, 20, 60):
        overwrite(path, data[:-length] + b"x" * length)
        with pytest.raises(InvalidDocumentError, match="line 2"):
            await stored(path)


async def test_a_changed_or_missing_line_is_refused(path: Path) -> None:
    await journal_of_every_kind(path)
    data = content_of(path)
    lines = data.splitlines(keepends=True)
    start = sum(map(len, lines[:-1]))
    for place in [*range(30, len(lines[0]), 41), *range(start, len(data), 7)]:
        overwrite(path, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(InvalidDocumentError):
            await stored(path)
    overwrite(path, b"".join([*lines[:2], *lines[3:]]))
    with pytest.raises(InvalidDocumentError, match="missing"):
        await stored(path)


async def test_an_entry_that_contradicts_earlier_entries_is_refused(path: Path) -> None:
    await store(path, paused("one"))
    tool = {"type": "tool", "id": "x", "call": {"name": "f"}, "status": {"type": "approved"}}
    entries: list[dict[str, object]] = [
        {"n": 2, "tools": [{"tool": tool}]},
        {"n": 2, "turns": [{"role": "nobody", "turn": {}}]},
        {"n": 2, "lease": {}},
    ]
    for entry in entries:
        overwrite(path, content_of(path).splitlines(keepends=True)[0] + _journal.encode(entry))
        with pytest.raises(InvalidDocumentError, match="entry 2"):
            await stored(path)


async def test_a_replaced_or_removed_file_is_detected(path: Path) -> None:
    await store(path, paused("one"))
    data = content_of(path)
    with pytest.raises(InvalidDocumentError, match="replaced"):
        async with FileConversation.open(path) as conversation:
            conversation.messages.tool("one").approve()
            remove(path)
            overwrite(path, data)
    with pytest.raises(InvalidDocumentError, match="removed"):
        async with FileConversation.open(path):
            remove(path)


class FullDisk(Disk):
    """Disk that writes half of a line and then fails."""

    def write(self, fd: int, data: bytes) -> None:
        super().write(fd, data[: len(data) // 2])
        raise OSError(28, "No space left on device")


async def test_a_failed_write_leaves_the_file_unchanged_and_can_be_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as conversation:
        conversation.messages.tool("one").approve(by="ana")
        before = content_of(path)
        monkeypatch.setattr(Journal, "disk", FullDisk())
        for attempt in (conversation.claim, conversation.save):
            with pytest.raises(OSError, match="No space"):
                await attempt()
            assert content_of(path) == before
        monkeypatch.undo()
        await conversation.claim()
    assert isinstance((await stored(path)).tool("one").status, Approved)


async def test_a_tool_state_that_could_not_be_decoded_is_not_written(path: Path) -> None:
    async with FileConversation.create(path, paused("one")) as conversation:
        conversation.messages.tool("one").approve()
        await conversation.claim()
        tool = conversation.messages.tool("one")
        tool.start()
        await conversation.write_tool((tool.id,), tool)
        before = content_of(path)
        tool.adopt(tool.with_status(Running("", attempt=0)))
        tool.revision += 1
        with pytest.raises(InvalidDocumentError):
            await conversation.write_tool((tool.id,), tool)
        assert content_of(path) == before
        tool.adopt(tool.with_status(Running("x")))


async def test_a_file_lock_held_by_another_process_makes_writes_time_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_journal, "LOCK_TIMEOUT", 0.01)
    await store(path, paused("one"))
    async with FileConversation.open(path) as conversation:
        await conversation.claim()
        fd = os.open(path, os.O_RDWR)
        try:
            assert _file_lock.try_lock(fd)
            with pytest.raises(TimeoutError, match="stopped"):
                await conversation.renew()
            with pytest.raises(TimeoutError, match="stopped"):
                await conversation.save()
            _file_lock.unlock(fd)
            await conversation.release()
            assert _file_lock.try_lock(fd)
            with pytest.raises(ConflictError, match="stopped"):
                await conversation.claim()
        finally:
            os.close(fd)


class SlowDisk(Disk):
    """Disk that reports the start of each write and waits until a test releases it."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go_on = threading.Event()

    def write(self, fd: int, data: bytes) -> None:
        self.began.set()
        assert self.go_on.wait(30)
        super().write(fd, data)


async def test_a_write_in_progress_completes_when_its_task_is_cancelled(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(path, paused("one"))
    disk = SlowDisk()
    async with FileConversation.open(path) as conversation, anyio.create_task_group() as group:
        await conversation.claim()
        monkeypatch.setattr(Journal, "disk", disk)
        tool = conversation.messages.tool("one")
        tool.approve()
        group.start_soon(conversation.write_tool, (tool.id,), tool)
        assert await anyio.to_thread.run_sync(disk.began.wait, 30)
        group.cancel_scope.cancel()
        disk.go_on.set()
    assert isinstance((await stored(path)).tool("one").status, Approved)
