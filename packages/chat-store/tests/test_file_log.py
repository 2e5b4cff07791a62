"""Changes of a stored conversation: claims, leases, fences, and decisions during an active run."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import anyio
import pytest
from chat_core.errors import (
    ConflictError,
    ConversationBusyError,
    LeaseLostError,
    UsageError,
)
from chat_core.messages import (
    Completed,
    FunctionCall,
    Interrupted,
    Messages,
    Rejected,
    Running,
    Text,
    Tool,
    Turn,
)
from chat_store import _file_lock
from chat_store._file_log import FileLog
from chat_store.file_conversation import FileConversation
from chat_store.testing._fixtures import Clock, call, paused
from file_helpers import content_of, names_in, remove, store, stored

pytestmark = pytest.mark.anyio


# --- Running ---------------------------------------------------------------------------------------------------------


async def test_a_claim_stores_the_unsaved_changes(path: Path) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as conversation:
        conversation.messages.tool("one").reject("no")
        conversation.messages.user("What else?")
        await conversation.claim()
        messages = await stored(path)
        assert messages == conversation.messages
        await conversation.release()


async def test_a_live_run_blocks_other_claims_until_it_is_released(path: Path) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as mine, FileConversation.open(path) as yours:
        await mine.claim()
        before = content_of(path)
        with pytest.raises(ConflictError, match="active run"):
            await yours.claim()
        with pytest.raises(ConflictError, match="already"):
            await mine.claim()
        assert content_of(path) == before
        await mine.release()
        await yours.claim()
        await yours.release()
    assert names_in(path.parent) == ["chat.jsonl"]


async def test_an_exception_in_the_block_releases_the_lease(path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with FileConversation.open(path) as mine:
            await mine.claim()
            raise ZeroDivisionError
    async with FileConversation.open(path) as yours:
        await yours.claim()


async def test_writing_without_a_claim_raises_usage_error(path: Path) -> None:
    async with FileConversation.create(path, paused("one")) as conversation:
        tool = conversation.messages.tool("one")
        with pytest.raises(UsageError, match="claim"):
            await conversation.write_tool((tool.id,), tool)
        with pytest.raises(UsageError, match="these messages"):
            await conversation.write_tool((call("one").id,), call("one"))
        with pytest.raises(UsageError, match="append"):
            await conversation.write_turn((), "model", Turn([]))


async def test_a_turn_and_each_status_of_its_tool_are_stored_when_written(path: Path) -> None:
    async with FileConversation.create(path, Messages.from_user("Pay.")) as conversation:
        await conversation.claim()
        turn = Turn([Tool(FunctionCall("pay"), id="one")], finish_reason="tool_calls")
        conversation.messages.append("model", turn)
        await conversation.write_turn((), "model", turn)
        assert (await stored(path)) == conversation.messages
        tool = turn.tools[0]
        for step in (tool.start, lambda: tool.complete({"ok": [1, None, "ü"]})):
            step()
            await conversation.write_tool((tool.id,), tool)
            assert (await stored(path)).tool("one") == tool
        revision = conversation.revision
        await conversation.write_tool((tool.id,), tool)
        assert conversation.revision == revision == 3


async def test_writing_a_tool_also_stores_its_unwritten_turn(path: Path) -> None:
    async with FileConversation.create(path, Messages.from_user("Pay.")) as conversation:
        await conversation.claim()
        conversation.messages.append("model", Turn([call("one")]))
        await conversation.write_tool(("one",), conversation.messages.tool("one"))
        assert (await stored(path)) == conversation.messages


async def test_parallel_tool_calls_are_stored_in_any_order(path: Path) -> None:
    ids = [f"call_{number}" for number in range(8)]
    async with FileConversation.create(path, paused(*ids)) as conversation:
        await conversation.claim()

        async def run(tool: Tool) -> None:
            tool.approve()
            tool.start()
            await conversation.write_tool((tool.id,), tool)
            tool.complete(tool.id)
            await conversation.write_tool((tool.id,), tool)

        async with anyio.create_task_group() as group:
            for id in reversed(ids):
                group.start_soon(run, conversation.messages.tool(id))
        assert (await stored(path)) == conversation.messages


async def test_a_decision_made_during_a_run_is_merged_by_its_next_write(path: Path) -> None:
    await store(path, paused("one", "two"))
    async with FileConversation.open(path) as run, FileConversation.open(path) as person:
        await run.claim()
        one = run.messages.tool("one")
        one.approve()
        one.start()
        await run.write_tool((one.id,), one)
        person.messages.tool("two").approve(by="ana", arguments={"cents": 7})
        await person.save()
        one.complete("paid")
        await run.write_tool((one.id,), one)
        assert run.messages.tool("two").effective_arguments == {"cents": 7}
        assert isinstance((await stored(path)).tool("one").status, Completed)


async def test_a_call_rejected_by_another_writer_cannot_be_started(path: Path) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as run, FileConversation.open(path) as person:
        run.messages.tool("one").approve()
        await run.claim()
        await person.save()
        person.messages.tool("one").reject("stop", by="ana")
        await person.save()
        one = run.messages.tool("one")
        one.start()
        with pytest.raises(ConflictError, match="one"):
            await run.write_tool((one.id,), one)
        assert isinstance(one.status, Rejected)
        await run.renew()


@pytest.mark.parametrize("state", ["running", "looked at", "due", "turn"])
async def test_calls_and_turns_of_a_live_run_cannot_be_changed_by_others(path: Path, state: str) -> None:
    messages = paused("one", "two")
    due = Tool(FunctionCall("pay"), id="due")
    due.schedule(datetime(2020, 1, 1, tzinfo=UTC))
    messages.append("model", Turn([Tool(FunctionCall("pay"), id="new"), due]))
    await store(path, messages)
    async with FileConversation.open(path) as run, FileConversation.open(path) as person:
        run.messages.tool("one").approve()
        await run.claim()
        run.messages.tool("one").start()
        await run.write_tool(("one",), run.messages.tool("one"))
        await person.save()
        if state == "running":
            person.messages.tool("one").complete("I saw it", by="ana")
        elif state in ("looked at", "due"):
            person.messages.tool("due" if state == "due" else "new").approve(by="ana", arguments={"cents": 5})
        else:
            person.messages.append("user", Turn([Text("And?")]))
        with pytest.raises(ConflictError, match="active run"):
            await person.save()
        person.messages.tool("two").reject(by="ana")
        with pytest.raises(ConflictError):
            await person.save()
        await run.release()
        await person.save()


async def test_saving_messages_in_use_by_a_run_is_refused(path: Path) -> None:
    async with FileConversation.create(path, paused("one")) as conversation:
        with conversation.messages.lend(), pytest.raises(ConversationBusyError):
            await conversation.save()


# --- Leases ----------------------------------------------------------------------------------------------------------


async def test_a_run_that_lost_its_lease_cannot_write(path: Path) -> None:
    clock = Clock()
    await store(path, paused("one", "two"))
    async with (
        FileConversation.open(path, now=clock, lease_seconds=30) as old,
        FileConversation.open(path, now=clock, lease_seconds=30) as new,
    ):
        assert old.renew_every == 10
        one = old.messages.tool("one")
        one.approve()
        await old.claim()
        one.start()
        await old.write_tool((one.id,), one)
        clock.advance(seconds=29.9)
        with pytest.raises(ConflictError):
            await new.claim()
        clock.advance(seconds=0.2)
        await new.claim()
        assert isinstance(new.messages.tool("one").status, Running)
        one.complete("paid")
        with pytest.raises(LeaseLostError, match="stalled"):
            await old.write_tool((one.id,), one)
        assert isinstance(one.status, Running)
        with pytest.raises(LeaseLostError):
            await old.renew()
        turn = Turn([Text("All done.")])
        old.messages.append("model", turn)
        with pytest.raises(LeaseLostError):
            await old.write_turn((), "model", turn)
        with pytest.raises(LeaseLostError, match="open it again"):
            await old.save()
        await old.release()
        new.messages.tool("one").lost("its process was gone")
        await new.write_tool(("one",), new.messages.tool("one"))
        history = await new.history()
        assert [entry.tool.status for entry in history if entry.event == "late" and entry.tool] == [Completed("paid")]
        assert len([entry for entry in history if entry.event == "claimed"]) == 2
        # Without this, closing `old` raises again.
        list[Turn].remove(cast("list[Turn]", old.messages.contents[-1].turns), turn)
    messages = await stored(path)
    assert isinstance(messages.tool("one").status, Interrupted)
    assert len(messages) == 2


async def test_a_conversation_that_lost_its_lease_can_be_claimed_again(path: Path) -> None:
    clock = Clock()
    await store(path, paused("one"))
    async with FileConversation.open(path, now=clock) as old, FileConversation.open(path, now=clock) as new:
        await old.claim()
        clock.advance(seconds=31)
        await new.claim()
        new.messages.tool("one").reject()
        await new.write_tool(("one",), new.messages.tool("one"))
        with pytest.raises(LeaseLostError):
            await old.renew()
        await new.release()
        await old.claim()
        assert isinstance(old.messages.tool("one").status, Rejected)


@pytest.mark.parametrize("how", ["renew", "write"])
async def test_renewing_or_writing_extends_the_lease(path: Path, how: str) -> None:
    clock = Clock()
    await store(path, paused("one", "two"))
    async with FileConversation.open(path, now=clock) as run, FileConversation.open(path, now=clock) as other:
        await run.claim()
        for id in ("one", "two"):
            clock.advance(seconds=20)
            if how == "renew":
                await run.renew()
            else:
                run.messages.tool(id).approve()
                await run.write_tool((id,), run.messages.tool(id))
        with pytest.raises(ConflictError):
            await other.claim()


async def test_without_its_lock_file_a_lease_ends_by_the_clock(path: Path) -> None:
    clock = Clock()
    await store(path, paused("one"))
    async with FileConversation.open(path, now=clock) as run, FileConversation.open(path, now=clock) as other:
        await run.claim()
        remove(path.with_name("chat.jsonl.run-1"))
        with pytest.raises(ConflictError, match="may hold"):
            await other.claim()
        clock.advance(seconds=31)
        await other.claim()


async def test_lock_files_of_dead_runs_are_removed(path: Path) -> None:
    clock = Clock()
    await store(path, paused("one"))
    async with FileConversation.open(path, now=clock) as run:
        await run.claim()
        log = FileLog(path, timedelta(seconds=30), clock)
        log.open("any")
        log.close()
        assert run_files(path) == ["chat.jsonl.run-1"]
        kill(run)
    for fence in (0, 2):
        path.with_name(f"chat.jsonl.run-{fence}").touch()
    async with FileConversation.open(path, now=clock):
        # Before the lease expires, the file lock shows that the run is dead.
        assert run_files(path) == ["chat.jsonl.run-1"]
    clock.advance(seconds=31)
    async with FileConversation.open(path, now=clock) as other:
        assert run_files(path) == []
        await other.claim()
        clock.advance(seconds=31)
        async with FileConversation.open(path, now=clock):
            # A run that has stalled is not dead.
            assert run_files(path) == ["chat.jsonl.run-2"]
        await other.release()
    path.with_name("chat.jsonl.run-2").touch()
    async with FileConversation.open(path, now=clock):
        assert run_files(path) == []


def run_files(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.glob("*.run-*"))


def kill(conversation: FileConversation) -> None:
    """Release the lock of a run, as the operating system does when a process is killed."""
    log = conversation._log  # pyright: ignore[reportPrivateUsage] - only the system drops a lock like this
    assert isinstance(log, FileLog)
    log.drop_lease()


async def test_without_file_locks_a_lease_ends_by_the_clock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ignore(_: int) -> bool:
        return True

    monkeypatch.setattr(_file_lock, "try_lock", ignore)
    clock = Clock()
    await store(path, paused("one"))
    async with FileConversation.open(path, now=clock) as run, FileConversation.open(path, now=clock) as other:
        await run.claim()
        with pytest.raises(ConflictError, match="may hold"):
            await other.claim()
        clock.advance(seconds=31)
        await other.claim()


async def test_a_forked_child_cannot_use_or_release_the_lease_of_its_parent(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(path, paused("one"))
    async with FileConversation.open(path) as parent:
        await parent.claim()
        pid = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
        with pytest.raises(UsageError, match="fork"):
            await parent.renew()
        monkeypatch.setattr(os, "getpid", lambda: pid)
        async with FileConversation.open(path) as other:
            with pytest.raises(ConflictError):
                await other.claim()
