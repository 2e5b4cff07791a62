"""A conversation in one file: storage, decisions and history.

Objects of one process exclude each other as those of several do; `tests/crash` has the processes.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from chat_core.errors import (
    ConflictError,
    InvalidDocumentError,
    NewerVersionError,
    PendingToolsError,
    UsageError,
)
from chat_core.frozen import FrozenList
from chat_core.messages import (
    Approved,
    Content,
    FunctionCall,
    Messages,
    Pending,
    Rejected,
    Text,
    Tool,
    Turn,
)
from chat_store._journal import Disk, Journal
from chat_store.file_conversation import FileConversation
from chat_store.jobs import Job
from chat_store.testing._fixtures import Clock, call, paused
from file_helpers import content_of, names_in, overwrite, store, stored

pytestmark = pytest.mark.anyio


# --- Stored conversations without a run ------------------------------------------------------------------------------


async def test_opening_a_created_file_returns_the_same_messages_and_id(path: Path) -> None:
    messages = paused("one")
    odd = FunctionCall("odd", {"text": "\ud800 \u2028 \n \0 ü"})
    messages.append("model", Turn([Tool(odd, id='" \n/ü')]))
    async with FileConversation.create(path, messages, id="c-17") as conversation:
        assert conversation.messages is messages
    async with FileConversation.open(path, id="c-17") as conversation:
        assert conversation.messages == messages
        assert (conversation.id, conversation.revision) == ("c-17", 0)
    assert names_in(path.parent) == ["chat.jsonl"]


async def test_opening_a_missing_file_creates_an_empty_conversation(path: Path) -> None:
    async with FileConversation.open(path) as conversation:
        first = conversation.id
        conversation.messages.user("Hello \ud83d, a lone half of a pair.")
    async with FileConversation.open(path) as conversation:
        assert conversation.id == first
        assert conversation.messages.contents[0].text == "Hello \ud83d, a lone half of a pair."


async def test_opening_a_file_with_another_id_is_refused(path: Path) -> None:
    async with FileConversation.open(path, id="a"):
        pass
    with pytest.raises(UsageError, match="'a', not 'b'"):
        async with FileConversation.open(path, id="b"):
            pytest.fail("opened")


async def test_creating_a_conversation_does_not_overwrite_an_existing_file(path: Path) -> None:
    await store(path, paused("one"))
    with pytest.raises(FileExistsError):
        await store(path, Messages())
    assert (await stored(path)).tool("one")


@pytest.mark.parametrize("content", [b"notes\n", b"{}\n", b'{"format":"other"}', b"\xff\xfe"])
async def test_a_file_in_another_format_is_refused_and_not_changed(path: Path, content: bytes) -> None:
    overwrite(path, content)
    with pytest.raises(InvalidDocumentError):
        await stored(path)
    assert content_of(path) == content


async def test_a_file_of_a_later_version_is_refused_with_any_checksum(path: Path) -> None:
    content = b'{"format":"chat-conversation","version":2,"n":1,"sha":"?"}\n'
    overwrite(path, content)
    with pytest.raises(NewerVersionError, match="version 2"):
        await stored(path)
    assert content_of(path) == content


async def test_lease_seconds_of_zero_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="lease"):
        async with FileConversation.open(path, lease_seconds=0):
            pytest.fail("opened")


# --- Deciding --------------------------------------------------------------------------------------------------------


async def test_a_decision_is_stored_when_the_block_exits(path: Path) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as conversation:
        conversation.messages.tool("one").approve(by="ana", arguments={"cents": 5})
    tool = (await stored(path)).tool("one")
    assert isinstance(tool.status, Approved)
    assert tool.effective_arguments == {"cents": 5}
    assert tool.decisions[0].by == "ana"


async def test_an_exception_in_the_block_prevents_the_final_save(path: Path) -> None:
    await store(path, paused("one", "two"))
    with pytest.raises(ZeroDivisionError):
        async with FileConversation.open(path) as conversation:
            conversation.messages.tool("one").approve()
            await conversation.save()
            conversation.messages.tool("two").approve()
            raise ZeroDivisionError
    messages = await stored(path)
    assert isinstance(messages.tool("one").status, Approved)
    assert isinstance(messages.tool("two").status, Pending)


async def test_decisions_of_two_people_on_two_calls_are_merged(path: Path) -> None:
    await store(path, paused("one", "two"))
    async with FileConversation.open(path) as ana, FileConversation.open(path) as ben:
        ana.messages.tool("one").approve(by="ana")
        ben.messages.tool("two").reject("no", by="ben")
        await ana.save()
        await ben.save()
        assert isinstance(ben.messages.tool("one").status, Approved)
        await ana.save()
        assert ana.messages == ben.messages
        assert ana.revision == ben.revision == 2
    assert [tool.decisions[0].by for tool in (await stored(path)).contents[1].tools] == ["ana", "ben"]


async def test_the_second_of_two_decisions_on_one_call_raises_a_conflict(path: Path) -> None:
    await store(path, paused("one", "two"))
    async with FileConversation.open(path) as ana, FileConversation.open(path) as ben:
        ana.messages.tool("one").approve(by="ana")
        await ana.save()
        ben.messages.tool("one").reject("no", by="ben")
        ben.messages.tool("two").reject("no", by="ben")
        before = content_of(path)
        with pytest.raises(ConflictError, match="one"):
            await ben.save()
        assert content_of(path) == before
        assert ben.messages.tool("one") == ana.messages.tool("one")
        await ben.save()
    assert isinstance((await stored(path)).tool("two").status, Rejected)


async def test_a_conflicting_decision_raises_when_the_block_exits(path: Path) -> None:
    await store(path, paused("one"))
    with pytest.raises(ConflictError):
        async with FileConversation.open(path) as ana:
            ana.messages.tool("one").approve(by="ana")
            async with FileConversation.open(path) as ben:
                ben.messages.tool("one").reject(by="ben")
    assert isinstance((await stored(path)).tool("one").status, Rejected)


async def test_turns_added_by_two_writers_raise_a_conflict(path: Path) -> None:
    await store(path, Messages.from_user("Hello."))
    with pytest.raises(ConflictError, match="order"):
        async with FileConversation.open(path) as one, FileConversation.open(path) as two:
            one.messages.append("model", Turn([Text("Hi.")]))
            two.messages.append("model", Turn([Text("Ho.")]))
            await one.save()
            with pytest.raises(ConflictError, match="added"):
                await two.save()
    assert [content.text for content in await stored(path)] == ["Hello.", "Hi."]


class Counted(FrozenList[Turn]):
    """List of turns that counts how many of them were read."""

    looked_at = 0

    def __iter__(self) -> Iterator[Turn]:
        for turn in super().__iter__():
            Counted.looked_at += 1
            yield turn

    def __reversed__(self) -> Iterator[Turn]:
        for turn in super().__reversed__():
            Counted.looked_at += 1
            yield turn


@pytest.mark.parametrize("long", ["content", "conversation"])
async def test_a_durable_write_reads_no_more_turns_of_a_longer_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    whole = Messages.__iter__

    def through(messages: Messages) -> Iterator[Content]:
        for content in whole(messages):
            Counted.looked_at += 1
            yield content

    async def work(turns: int) -> int:
        messages = Messages()
        for number in range(turns):
            messages.append("user" if number % 2 and long == "conversation" else "model", Turn([Text("So.")]))
        async with (
            FileConversation.create(tmp_path / f"{turns}.jsonl", messages) as one,
            FileConversation.open(tmp_path / f"{turns}.jsonl") as other,
        ):
            for content in messages.contents:
                content._turns = Counted(content.turns)  # pyright: ignore[reportPrivateUsage] - the test replaces it
            await one.claim()
            tool = call("pay")
            with monkeypatch.context() as counting:
                counting.setattr(Messages, "__iter__", through)
                Counted.looked_at = 0
                for turn in (Turn([tool], finish_reason="tool_calls"), Turn([Text("Well.")])):
                    one.messages.append("model", turn)
                    await one.write_turn((), "model", turn)
                tool.approve()
                await one.write_tool((tool.id,), tool)
                looked_at = Counted.looked_at
            await one.release()
            await other.save()
            assert other.messages == one.messages
        return looked_at

    assert await work(5) == await work(501)


async def test_saving_fetches_turns_added_by_other_writers(path: Path) -> None:
    await store(path, Messages.from_user("Hello."))
    async with FileConversation.open(path) as one, FileConversation.open(path) as two:
        one.messages.append("model", Turn([call("one")]))
        await one.save()
        await two.save()
        two.messages.tool("one").approve()
        await two.save()
        await one.save()
        assert one.messages == two.messages
        assert one.revision == 2


# --- Cancelled in the middle ---------------------------------------------------------------------------------------


class Gate(Disk):
    """Disk whose writes wait until a test releases them."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def sync(self, fd: int) -> None:
        self.reached.set()
        assert self.open.wait(30)
        super().sync(fd)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Gate]:
    def close() -> Gate:
        gate = Gate()
        monkeypatch.setattr(Journal, "disk", gate)
        return gate

    return close


async def cancelled_in_a_write(gate: Gate, work: Coroutine[object, object, object]) -> None:
    task = asyncio.create_task(work)
    assert await to_thread.run_sync(gate.reached.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    gate.open.set()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_save_cancelled_by_asyncio_completes_and_is_not_repeated(path: Path, gate: Callable[[], Gate]) -> None:
    async with FileConversation.create(path, paused("a")) as conversation:
        conversation.messages.tool("a").approve()
        await cancelled_in_a_write(gate(), conversation.save())
        revision = conversation.revision
        await conversation.save()
        assert conversation.revision == revision == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelling_the_opening_of_a_file_closes_its_descriptors(path: Path, gate: Callable[[], Gate]) -> None:
    async def open_it() -> None:
        async with FileConversation.open(path):
            pass

    def descriptors() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    closed = gate()
    await to_thread.run_sync(int)  # so that the thread's own descriptors are there
    before = descriptors()
    await cancelled_in_a_write(closed, open_it())
    assert descriptors() == before


class Full(Disk):
    """Disk without free space."""

    def write(self, fd: int, data: bytes) -> None:
        del fd, data
        raise OSError(errno.ENOSPC, "no room")


async def test_a_release_that_cannot_be_written_still_frees_the_lease(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FileConversation.create(path, paused("a")) as conversation:
        await conversation.claim()
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "disk", Full())
            with pytest.raises(OSError, match="no room"):
                await conversation.release()
        async with FileConversation.open(path) as elsewhere:
            await elsewhere.claim()
            await elsewhere.release()


async def test_a_rejection_that_conflicts_with_an_approval_is_undone(path: Path) -> None:
    async with FileConversation.create(path, paused("a", "b")) as here:
        async with FileConversation.open(path) as elsewhere:
            elsewhere.messages.tool("a").approve()
        here.messages.tool("a").reject()
        assert [tool.id for tool in here.messages.pending()] == ["b"]
        with pytest.raises(ConflictError):
            await here.save()
        assert [tool.id for tool in here.messages.pending()] == ["a", "b"]


async def test_a_fork_of_a_file_keeps_the_first_turns_owner_and_description(tmp_path: Path) -> None:
    messages = Messages(state={"step": 1}).user("One.")
    messages.append("model", Turn([Text("Yes.")], finish_reason="stop"))
    messages.user("Two.", state={"step": 2})
    async with FileConversation.create(tmp_path / "old", messages, owner="ana") as old:
        await old.apply(meta={"title": "Parcel", "data": {"tag": "a", "size": 1}}, jobs=[Job("index", "1")])
        await old.post(Turn([Text("Later.")]), key="1")
        with pytest.raises(UsageError, match="outside of the history of 3 turns"):
            await old.fork(tmp_path / "new", 4)
        name = await old.fork(tmp_path / "new", 2, meta={"data": {"size": None}})
        with pytest.raises(FileExistsError):
            await old.fork(tmp_path / "new", 1)

    async with FileConversation.open(tmp_path / "new", id=name) as new:
        assert [content.role for content in new.messages] == ["user", "model"]
        assert new.messages.state == {"step": 1}
        meta = await new.meta()
        assert (meta.owner, meta.title, dict(meta.data)) == ("ana", "Parcel", {"tag": "a"})
        assert await new.jobs() == []


async def test_forking_a_file_with_pending_calls_is_refused(tmp_path: Path) -> None:
    async with FileConversation.create(tmp_path / "old", paused("a")) as old:
        with pytest.raises(PendingToolsError):
            await old.fork(tmp_path / "new")
        assert not (tmp_path / "new").exists()
        assert await old.fork(tmp_path / "new", 1, id="early") == "early"


async def test_closing_a_file_after_a_run_died_keeps_the_history_readable(path: Path) -> None:
    clock = Clock()
    async with (
        FileConversation.create(path, paused("a"), now=clock) as dead,
        FileConversation.open(path, now=clock) as other,
    ):
        await dead.claim()
        clock.advance(seconds=3600)
        await other.close()
        assert [entry.event for entry in await other.history()] == ["created", "claimed"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("path", {"path": 5}),
        ("id", {"id": 5}),
        ("owner", {"owner": b"ana"}),
        ("messages", {"messages": "Hi."}),
    ],
    ids=["path", "id", "owner", "messages"],
)
async def test_an_argument_of_the_wrong_type_is_refused_and_creates_no_file(
    name: str, arguments: dict[str, object], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"path": tmp_path / "chat.jsonl", "messages": Messages(), **arguments}
    with pytest.raises(UsageError, match=rf"^{name} must be "):
        async with FileConversation.create(**given):
            pass
    if name != "messages":
        del given["messages"]
        with pytest.raises(UsageError, match=rf"^{name} must be "):
            async with FileConversation.open(**given):
                pass
    assert not [*tmp_path.iterdir()]  # noqa: ASYNC240 - the folder is empty
