"""A conversation in a file is described and closed, queues jobs, and receives posts, each as one line of the file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from chat_core.errors import ConflictError, LeaseLostError, UsageError
from chat_core.messages import Approved, FunctionCall, Messages, Text, Tool, Turn
from chat_store import ConversationClosedError, FileConversation, Job
from chat_store.testing._fixtures import Clock, paused
from file_helpers import content_of, overwrite

pytestmark = pytest.mark.anyio


def texts(messages: Messages) -> list[str]:
    return [part.text for content in messages for part in content.parts if isinstance(part, Text)]


async def test_apply_writes_decisions_description_and_jobs_as_one_line(path: Path) -> None:
    async with FileConversation.create(path, paused("a"), owner="ana") as conversation:
        before = len(content_of(path).splitlines())
        conversation.messages.tool("a").approve()
        await conversation.apply(meta={"title": "Parcel", "data": {"n": 1, "m": 2}}, jobs=[Job("index", "1")])
        assert len(content_of(path).splitlines()) == before + 1
        await conversation.apply(meta={"data": {"m": None}}, jobs=[Job("index", "1", {"again": True})])

    async with FileConversation.open(path) as conversation:
        meta = await conversation.meta()
        assert (meta.owner, meta.title, meta.data, meta.state) == ("ana", "Parcel", {"n": 1}, "open")
        assert meta.created_at is not None
        assert isinstance(conversation.messages.tool("a").status, Approved)
        assert [(job.conversation, job.key, job.payload) for job in await conversation.jobs()] == [
            (conversation.id, "1", {})
        ]


async def test_a_conflicting_apply_stores_neither_description_nor_jobs(path: Path) -> None:
    async with FileConversation.create(path, paused("a")) as here, FileConversation.open(path) as there:
        here.messages.tool("a").approve()
        await here.save()
        there.messages.tool("a").reject("no")
        with pytest.raises(ConflictError):
            await there.apply(meta={"title": "No"}, jobs=[Job("index", "1")])
        assert await there.jobs() == []
        assert (await there.meta()).title is None


async def test_a_job_in_a_file_has_a_lease_a_fence_and_attempts(path: Path) -> None:
    clock = Clock()
    async with (
        FileConversation.create(path, paused("a"), now=clock) as here,
        FileConversation.open(path, now=clock) as there,
    ):
        await here.apply(jobs=[Job("run", "1", max_attempts=2), Job("run", "2", at=clock.after(days=3))])
        with pytest.raises(LeaseLostError):
            async with here.take_job("run") as job:
                assert job is not None
                async with there.take_job("run") as other:
                    assert other is None
                clock.advance(hours=1)
                async with there.take_job("run") as other:
                    assert other is not None
                    assert other.attempts == 2
        assert [(job.key, job.state) for job in await there.jobs()] == [("1", "done"), ("2", "queued")]
        assert await here.cancel_job("run", "2")
        assert [job.key for job in await there.jobs(state="cancelled")] == ["2"]


async def test_a_failed_job_in_a_file_is_retried(path: Path) -> None:
    clock = Clock()
    async with FileConversation.create(path, Messages(), now=clock) as conversation:
        await conversation.apply(jobs=[Job("run", "1", max_attempts=2, backoff_seconds=60)])
        for state in ("queued", "failed"):
            with pytest.raises(OSError, match="no route"):
                async with conversation.take_job("run") as job:
                    assert job is not None
                    raise OSError("no route")
            assert [job.state for job in await conversation.jobs()] == [state]
            clock.advance(seconds=60)


async def test_a_closed_file_can_be_read_and_not_written(path: Path) -> None:
    async with FileConversation.create(path, paused("a", "b")) as conversation:
        await conversation.close(jobs=[Job("index", "1")])
        await conversation.close(jobs=[Job("index", "2")])
        assert [job.key for job in await conversation.jobs()] == ["1"]
        assert (await conversation.meta()).state == "closed"
        with pytest.raises(ConversationClosedError):
            await conversation.claim()
        with pytest.raises(ConversationClosedError):
            await conversation.post(Turn([Text("Hello?")]), key="1")
        conversation.messages.tool("a").approve()
        with pytest.raises(ConversationClosedError):
            await conversation.save()
        await conversation.reopen()
        await conversation.save()
        await conversation.claim()
        with pytest.raises(ConflictError):
            await conversation.close()
        await conversation.release()


async def test_a_dead_run_cannot_write_after_the_file_was_closed(path: Path) -> None:
    clock = Clock()
    with pytest.raises(LeaseLostError):
        async with (
            FileConversation.create(path, Messages.from_user("One."), now=clock) as run,
            FileConversation.open(path, now=clock) as other,
        ):
            await run.claim()
            clock.advance(days=1)
            await other.close()
            turn = Turn([Text("Late.")])
            run.messages.append("model", turn)
            await run.write_turn((), "model", turn)


async def test_a_run_appends_each_post_of_a_file_once(path: Path) -> None:
    async with FileConversation.create(path, Messages.from_user("One.")) as run, FileConversation.open(path) as other:
        await run.claim()
        assert await other.post(Turn([Text("Two.")]), key="2")
        assert not await other.post(Turn([Text("Again.")]), key="2")
        assert await run.apply_posts() == 1
        assert await run.apply_posts() == 0
        assert texts(run.messages) == ["One.", "Two."]
        await run.release()
        with pytest.raises(UsageError):
            await other.post(Turn([Tool(FunctionCall("pay", {}))]), key="3")
    async with FileConversation.open(path) as conversation:
        assert texts(conversation.messages) == ["One.", "Two."]


@pytest.mark.parametrize("work", ["apply", "take", "post", "close"])
async def test_a_line_truncated_by_a_crash_is_ignored_completely(path: Path, work: str) -> None:
    clock: Callable[[], datetime] = lambda: datetime(2030, 1, 1, tzinfo=UTC)  # noqa: E731 - shorter
    async with FileConversation.create(path, paused("a"), now=clock) as conversation:
        await conversation.apply(jobs=[Job("run", "0")])
        before = content_of(path)
        conversation.messages.tool("a").approve()
        if work == "apply":
            await conversation.apply(meta={"title": "Parcel"}, jobs=[Job("run", "1")])
        await conversation.save()
        if work == "post":
            await conversation.post(Turn([Text("Two.")]), key="2")
        if work == "close":
            await conversation.close(jobs=[Job("run", "2")])
        if work == "take":
            async with conversation.take_job("run"):
                pass
    whole = content_of(path)
    assert whole.startswith(before)

    lines = whole[len(before) :].splitlines(keepends=True)
    seen: list[object] = []
    for cut in {0, 1, *[sum(map(len, lines[:count])) - back for count in range(len(lines) + 1) for back in (0, 1, 9)]}:
        overwrite(path, whole[: max(len(before), len(before) + cut)])
        async with FileConversation.open(path, now=lambda: clock() + timedelta(days=1)) as conversation:
            jobs = [(job.key, job.state) for job in await conversation.jobs()]
            seen.append((jobs, (await conversation.meta()).title, (await conversation.meta()).state))
    allowed: dict[str, list[object]] = {
        "apply": [([("0", "queued")], None, "open"), ([("0", "queued"), ("1", "queued")], "Parcel", "open")],
        "take": [([("0", "queued")], None, "open"), ([("0", "done")], None, "open")],
        "post": [([("0", "queued")], None, "open")],
        "close": [([("0", "queued")], None, "open"), ([("0", "queued"), ("2", "queued")], None, "closed")],
    }
    assert all(item in allowed[work] for item in seen), seen
    assert all(item in seen for item in allowed[work])


async def test_a_snapshot_keeps_posts_jobs_and_the_description(path: Path) -> None:
    async with FileConversation.create(path, Messages.from_user("One."), owner="ana") as run:
        await run.apply(meta={"title": "Parcel"}, jobs=[Job("run", "1")])
        await run.post(Turn([Text("Two.")]), key="2")
        await run.claim()
        await run.apply_posts()
        turn = Turn([Text("x" * 200_000)])
        run.messages.append("model", turn)
        await run.write_turn((), "model", turn)
        await run.post(Turn([Text("Three.")]), key="3")
        await run.release()
    assert b'"snapshot":' in content_of(path)

    async with FileConversation.open(path) as conversation:
        meta = await conversation.meta()
        assert (meta.owner, meta.title) == ("ana", "Parcel")
        assert [job.key for job in await conversation.jobs()] == ["1"]
        assert not await conversation.post(Turn([Text("Again.")]), key="2")
        await conversation.claim()
        assert await conversation.apply_posts() == 1
        assert texts(conversation.messages)[-1] == "Three."
        await conversation.release()
