"""Durable batches: submitted once, polled with increasing delays, and answered after any crash."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from batch_helpers import call_then_answer, get_time
from batch_servers import ClaudeServer
from chat_batches import Batches, BatchJobs
from chat_claude import ClaudeProvider
from chat_core import (
    BatchInDoubtError,
    ChatBuilder,
    InstructionFunction,
    Messages,
    RunContext,
    ToolCollection,
    UsageError,
)
from chat_core.errors import ConflictError, NetworkError, OverloadedError
from chat_store import MemoryStore

pytestmark = pytest.mark.anyio


class Clock:
    """Clock that only a test advances."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 23, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def move(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class World:
    """A store with conversations, a server, and the jobs of a batch."""

    def __init__(
        self,
        claude: ClaudeProvider,
        server: ClaudeServer,
        tools: ToolCollection[Any] | None = None,
        instructions: InstructionFunction | str = "Be brief.",
    ) -> None:
        self.clock = Clock()
        self.store = MemoryStore(now=self.clock)
        self.server = server
        server.now = self.clock
        builder = ChatBuilder().with_model(claude).with_instructions(instructions)
        self.chat = (builder if tools is None else builder.with_tools(tools)).build()
        self.jobs = BatchJobs(self.store, Batches(self.chat, claude), now=self.clock)

    async def queue(self, count: int = 2) -> None:
        for number in range(count):
            await self.store.create(Messages.from_user(f"Question {number}?"), id=f"chat-{number}")
        await self.jobs.queue("nightly", [f"chat-{number}" for number in range(count)])

    async def step(self) -> bool:
        """Do the next due step. Return whether there was one."""
        async with self.store.take_job("batch") as job:
            if job is not None:
                await self.jobs.work(job)
            return job is not None

    async def run(self) -> list[float]:
        """Do all steps, and return the delays before them."""
        delays: list[float] = []
        while True:
            while await self.step():
                pass
            waiting = await self.store.jobs(kind="batch", state="queued")
            if not waiting:
                return delays
            delays.append((waiting[0].at - self.clock()).total_seconds())
            self.clock.time = waiting[0].at

    async def texts(self) -> list[str]:
        return [
            (await self.store.load(meta.id)).messages[-1].text
            for meta in reversed(await self.store.conversations())
            if meta.id != "nightly"
        ]


@asynccontextmanager
async def opened(world: World) -> AsyncGenerator[World, None]:
    async with world.store:
        yield world


@pytest.fixture
async def world(claude: ClaudeProvider, claude_server: ClaudeServer) -> AsyncGenerator[World, None]:
    async with opened(World(claude, claude_server)) as world:
        yield world


async def test_a_batch_of_stored_conversations_is_answered_by_jobs(world: World) -> None:
    await world.queue()
    assert (await world.jobs.report("nightly")).state == "queued"
    await world.step()
    assert (await world.jobs.report("nightly")).state == "running"
    await world.run()

    report = await world.jobs.report("nightly")
    assert (report.state, report.outcome, report.failures) == ("ended", "completed", {})
    assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]
    assert [(await world.store.meta("nightly")).state] == ["closed"]


async def test_the_delay_between_steps_doubles_from_30_to_300_seconds(world: World) -> None:
    world.server.polls = 6
    await world.queue()
    assert await world.run() == [30, 60, 120, 240, 300, 300, 300]


async def test_submitted_conversations_are_not_due_for_other_workers(world: World) -> None:
    await world.queue()
    assert len(await world.store.due()) == 2
    await world.step()
    assert await world.store.due() == []


async def test_a_lost_response_does_not_submit_the_batch_again(world: World) -> None:
    await lose_response(world)
    world.server.batches[0].polls = 9  # it has ended when the job is tried again
    await world.run()

    assert len(world.server.batches) == 1
    assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]


async def test_a_batch_that_the_server_did_not_receive_is_submitted_again(world: World) -> None:
    world.server.failures = 1
    await world.queue()
    with pytest.raises(Exception, match="Busy"):
        await world.step()
    world.clock.move(600)
    await world.run()

    assert len(world.server.batches) == 1
    assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]


async def test_a_batch_that_the_server_lists_late_is_not_submitted_again(world: World) -> None:
    world.server.lose = True
    await world.queue()
    with pytest.raises(NetworkError):
        await world.step()
    world.server.lose = False
    late = world.server.batches.pop()
    world.clock.move(10)
    with pytest.raises(BatchInDoubtError, match="may still be creating it") as caught:
        await world.step()
    assert caught.value.candidates == ()
    assert world.server.log.count("POST /v1/messages/batches") == 1

    late.polls = 9
    world.server.batches.append(late)
    await world.run()
    assert world.server.log.count("POST /v1/messages/batches") == 1
    assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]


async def lose_response(world: World) -> None:
    """Submit the batch and lose the response, while another batch of the same size is processed."""
    world.server.lose = True
    await world.queue()
    with pytest.raises(NetworkError):
        await world.step()
    world.server.lose = False
    world.clock.move(60)


async def test_a_batch_in_doubt_is_not_submitted_again_without_a_decision(world: World) -> None:
    await lose_response(world)
    with pytest.raises(BatchInDoubtError, match="batch_1") as caught:
        await world.step()
    assert [batch.id for batch in caught.value.candidates] == ["batch_1"]
    assert (await world.jobs.report("nightly")).state == "submitting"
    assert len(world.server.batches) == 1

    await world.jobs.decide("nightly", "batch_1")
    await world.run()
    assert len(world.server.batches) == 1
    assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]


async def test_a_person_can_decide_that_the_provider_does_not_have_the_batch(world: World) -> None:
    world.server.add({"other-0": {"model": "m", "messages": []}, "other-1": {"model": "m", "messages": []}})
    world.server.failures = 1
    await world.queue()
    with pytest.raises(Exception, match="Busy"):
        await world.step()
    world.clock.move(60)
    with pytest.raises(BatchInDoubtError):
        await world.step()

    await world.jobs.decide("nightly", None)
    await world.run()
    assert len(world.server.batches) == 2
    assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]


async def test_a_decision_for_an_unknown_batch_does_not_end_the_doubt(world: World) -> None:
    await lose_response(world)
    await world.jobs.decide("nightly", "batch_9")
    with pytest.raises(BatchInDoubtError):
        await world.step()


async def test_an_ended_batch_with_other_requests_is_not_mistaken_for_the_lost_batch(world: World) -> None:
    other = world.server.add({"other-0": {"model": "m", "messages": []}, "other-1": {"model": "m", "messages": []}})
    other.polls = 9
    world.server.failures = 1
    await world.queue()
    with pytest.raises(Exception, match="Busy"):
        await world.step()
    world.clock.move(600)
    await world.run()
    assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]
    assert len(world.server.batches) == 2


async def test_failed_requests_are_in_the_report(world: World) -> None:
    world.server.results = {1: "errored"}
    await world.queue()
    await world.run()

    report = await world.jobs.report("nightly")
    assert list(report.failures) == ["chat-1"]
    assert "InvalidRequestError: " in report.failures["chat-1"]


async def test_a_conversation_without_a_next_request_is_not_part_of_the_batch(world: World) -> None:
    await world.store.create(Messages(), id="empty")
    await world.store.create(Messages.from_user("Question?"), id="asked")
    await world.jobs.queue("nightly", ["empty", "asked"])
    await world.run()

    report = await world.jobs.report("nightly")
    assert list(report.failures) == ["empty"]
    assert len(world.server.batches[0].requests) == 1


async def test_a_batch_that_is_rejected_ends_as_failed(world: World) -> None:
    world.server.refuse = True
    await world.queue()
    await world.run()

    report = await world.jobs.report("nightly")
    assert (report.state, report.outcome) == ("ended", "failed")
    assert sorted(report.failures) == ["chat-0", "chat-1"]
    assert world.server.log.count("POST /v1/messages/batches") == 1


async def test_a_batch_is_cancelled_at_the_provider(world: World) -> None:
    world.server.polls = 3
    await world.queue()
    await world.step()
    await world.jobs.cancel("nightly")
    await world.run()

    report = await world.jobs.report("nightly")
    assert report.outcome == "cancelled"
    assert {text.partition(":")[0] for text in report.failures.values()} == {"BatchCancelledError"}


async def test_a_batch_that_is_cancelled_before_its_submission_is_not_submitted(world: World) -> None:
    await world.queue()
    await world.jobs.cancel("nightly")
    await world.run()

    assert (await world.jobs.report("nightly")).outcome == "cancelled"
    assert not world.server.batches


async def test_tool_calls_of_answers_run_when_the_results_arrive(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    tools = ToolCollection()
    tools.tool(get_time)
    claude_server.answer = call_then_answer
    async with opened(World(claude, claude_server, tools)) as world:
        await world.queue(1)
        await world.run()
        assert await world.texts() == ["It is 12:00 in Oslo."]


async def test_a_message_of_the_user_in_the_meantime_is_not_answered_by_the_batch(world: World) -> None:
    await world.queue()
    await world.step()
    async with world.store.open("chat-0") as conversation:
        conversation.messages.user("Never mind.")
    await world.run()

    report = await world.jobs.report("nightly")
    assert [text.partition(":")[0] for text in report.failures.values()] == ["NewMessageError"]
    assert sorted(await world.texts()) == ["Answer 1.", "Question 0?Never mind."]


async def test_answers_are_appended_after_the_error_of_another_conversation(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    broken = False

    def read_profile(context: RunContext) -> str:
        if broken and context.conversation_id == "chat-1":  # the server sends this result first
            raise KeyError("no profile")
        return "Be brief."

    async with opened(World(claude, claude_server, instructions=read_profile)) as world:
        await world.queue()
        await world.step()
        broken = True
        world.clock.move(30)
        await world.step()
        world.clock.move(60)
        with pytest.raises(KeyError):
            await world.step()
        assert (await world.jobs.report("nightly")).failures == {"chat-1": "KeyError: 'no profile'"}
        assert sorted(await world.texts()) == ["Answer 0.", "Question 1?"]

        broken = False
        await world.run()
        assert (await world.jobs.report("nightly")).failures == {}
        assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]


async def test_a_conversation_that_cannot_be_prepared_does_not_stop_the_batch(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    def read_profile(context: RunContext) -> str:
        if context.conversation_id == "chat-0":
            raise KeyError("no profile")
        return "Be brief."

    async with opened(World(claude, claude_server, instructions=read_profile)) as world:
        await world.queue()
        for _ in range(4):
            with pytest.raises(KeyError):
                await world.step()
            world.clock.move(600)
        await world.run()
        assert (await world.jobs.report("nightly")).failures == {"chat-0": "KeyError: 'no profile'"}
        assert await world.texts() == ["Question 0?", "Answer 0."]


async def test_a_busy_conversation_is_answered_by_a_later_attempt(world: World) -> None:
    world.server.polls = 0
    await world.queue()
    await world.step()
    world.clock.move(30)
    async with world.store.open("chat-1") as busy:
        await busy.claim()
        with pytest.raises(ConflictError, match="active run"):
            await world.step()
        assert sorted(await world.texts()) == ["Answer 0.", "Question 1?"]
        assert (await world.jobs.report("nightly")).state == "running"
    async with world.store.open("chat-0") as answered:
        answered.messages.user("Thank you.")  # does not count as a failure of the batch
    await world.run()

    report = await world.jobs.report("nightly")
    assert (report.outcome, report.failures) == ("completed", {})
    assert (await world.store.load("chat-1")).messages[-1].text == "Answer 1."


async def test_a_busy_conversation_is_part_of_a_later_submission(world: World) -> None:
    await world.queue()
    async with world.store.open("chat-1") as busy:
        await busy.claim()
        with pytest.raises(ConflictError, match="active run"):
            await world.step()
        assert not world.server.batches
    await world.run()
    assert sorted(await world.texts()) == ["Answer 0.", "Answer 1."]


async def test_a_deleted_conversation_is_not_stored_again(world: World) -> None:
    world.server.polls = 0
    await world.queue()
    await world.jobs.queue("other", ["unknown"])
    await world.step()
    await world.step()
    assert sorted([meta.id for meta in await world.store.conversations()]) == ["chat-0", "chat-1", "nightly", "other"]
    await world.store.delete("chat-1")
    await world.run()

    assert sorted([meta.id for meta in await world.store.conversations()]) == ["chat-0", "nightly", "other"]
    report = await world.jobs.report("nightly")
    assert "UnknownConversationError" in report.failures["chat-1"]
    assert list((await world.jobs.report("other")).failures) == ["unknown"]


async def test_a_batch_that_is_cancelled_while_it_is_prepared_is_not_submitted(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    async def cancel(context: RunContext) -> str:
        if context.conversation_id == "chat-1":
            await current.jobs.cancel("nightly")
        return "Be brief."

    async with opened(World(claude, claude_server, instructions=cancel)) as current:
        await current.queue()
        await current.run()
        assert (await current.jobs.report("nightly")).outcome == "cancelled"
        assert not current.server.batches


async def test_a_batch_ends_as_failed_after_the_last_attempt(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat_batches.jobs.MAX_ATTEMPTS", 2)
    await world.queue()
    await world.step()
    world.server.failures = 2
    for _ in range(2):
        assert (await world.jobs.report("nightly")).state == "running"
        world.clock.move(60)
        with pytest.raises(OverloadedError):
            await world.step()

    report = await world.jobs.report("nightly")
    assert (report.state, report.outcome, report.handle is None) == ("ended", "failed", False)
    assert sorted(report.failures) == ["chat-0", "chat-1"]
    assert report.failures["chat-0"].startswith("OverloadedError: ")


async def test_a_batch_needs_different_conversations(world: World) -> None:
    with pytest.raises(UsageError, match="at least one conversation"):
        await world.jobs.queue("nightly", [])
    with pytest.raises(UsageError, match="only once"):
        await world.jobs.queue("nightly", ["a", "a"])


async def test_jobs_of_two_batches_do_not_mix(world: World, tmp_path: Path) -> None:
    del tmp_path
    await world.queue()
    await world.store.create(Messages.from_user("Another?"), id="chat-9")
    await world.jobs.queue("weekly", ["chat-9"])
    await world.run()

    assert (await world.jobs.report("weekly")).outcome == "completed"
    assert sorted(len(batch.requests) for batch in world.server.batches) == [1, 2]
