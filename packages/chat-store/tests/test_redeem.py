"""Redeeming `ApprovalKeys` tokens with stores and files: of several concurrent tokens, one decides."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import cast

import anyio
import pytest
from chat_core import ApprovalKeys, ApprovalRefusedError
from chat_core.approvals import ApprovalChoice
from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Approved, FunctionCall, Messages, Pending, Running, Tool, Turn
from chat_store import FileConversation, MemoryStore, SqliteStore
from chat_store.testing._fixtures import Clock, call, paused

pytestmark = pytest.mark.anyio

SECRET = b"k" * 32
REDEEM = """
import sys

import anyio
from chat_core import ApprovalKeys, ApprovalRefusedError
from chat_store import SqliteStore


async def main(path, token, choice):
    keys = ApprovalKeys("k", {"k": b"k" * 32}, may_decide=None)
    async with SqliteStore(path) as store, store.open(keys.read(token).conversation) as conversation:
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            await keys.redeem(token, conversation, choice)
        except ApprovalRefusedError as error:
            print(error.reason)
        else:
            print("decided here")


anyio.run(main, *sys.argv[1:])
"""


def keys(clock: Clock | None = None) -> ApprovalKeys:
    return (
        ApprovalKeys("k", {"k": SECRET}, may_decide=None)
        if clock is None
        else ApprovalKeys("k", {"k": SECRET}, may_decide=None, now=clock)
    )


async def test_one_of_many_processes_redeeming_the_same_token_decides(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with SqliteStore(path) as store:
        name = await store.create(paused("pay"))
        token = keys().bind(name, (await store.load(name)).messages, ["pay"])
    choices = ["approve", "reject", "approve", "reject"]
    processes = [_started(path, token, choice) for choice in choices]
    try:
        # All of them have seen the call waiting before any of them decides.
        assert [_line(process) for process in processes] == ["ready"] * 4
        for process in processes:
            _go(process)
        said = [_line(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()

    assert Counter(said) == {"decided here": 1, "used": 3}
    async with SqliteStore(path) as store:
        (decision,) = (await store.load(name)).messages.tool("pay").decisions
    assert decision.action == choices[said.index("decided here")]


def _started(path: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", REDEEM, str(path), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_one_of_many_tasks_redeeming_tokens_of_one_call_decides() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused("pay"))
    messages = (await store.load(name)).messages
    ends: list[str] = []

    async def redeem(token: str, choice: ApprovalChoice) -> None:
        try:
            async with store.open(name) as conversation:
                await keys(clock).redeem(token, conversation, choice)
            ends.append("decided here")
        except ApprovalRefusedError as error:
            ends.append(error.reason)

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(redeem, keys(clock).bind(name, messages, ["pay"]), "reject" if number % 2 else "approve")

    assert Counter(ends) == {"decided here": 1, "decided": 9}


async def test_a_token_is_redeemed_during_a_run_unless_the_call_is_running() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused("open", "busy"))
    messages = (await store.load(name)).messages
    mine, theirs = (keys(clock).bind(name, messages, [tool]) for tool in ("open", "busy"))

    async with store.open(name) as run, store.open(name) as late:
        run.messages.tool("busy").approve(at=clock())
        await run.claim()
        run.messages.tool("busy").start(clock())
        await run.write_tool(("busy",), run.messages.tool("busy"))

        async with store.open(name) as conversation:
            await keys(clock).redeem(mine, conversation, "approve", by="ana")
            with pytest.raises(ApprovalRefusedError) as caught:
                await keys(clock).redeem(theirs, conversation, "reject")
        assert caught.value.reason == "decided"
        # The same, in a process that read the conversation before the run began.
        with pytest.raises(ApprovalRefusedError) as caught:
            await keys(clock).redeem(theirs, late, "reject")
        assert caught.value.reason == "decided"
        assert isinstance(run.messages.tool("busy").status, Running)
        await run.release()

    assert isinstance((await store.load(name)).messages.tool("open").status, Approved)


async def test_a_conflicting_turn_prevents_the_redeemed_decision() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused("pay"))
    token = keys(clock).bind(name, (await store.load(name)).messages, ["pay"])

    async with store.open(name) as run:
        await run.claim()
        with pytest.raises(ConflictError):
            async with store.open(name) as conversation:
                conversation.messages.append("model", Turn([]))
                await keys(clock).redeem(token, conversation, "approve")
        await run.release()

    assert isinstance((await store.load(name)).messages.tool("pay").status, Pending)


async def test_a_token_is_invalid_for_a_new_conversation_with_the_same_id() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    await store.create(paused("pay"), id="a")
    token = keys(clock).bind("a", (await store.load("a")).messages, ["pay"])
    await store.delete("a")

    for again in (Messages(), _later(paused("pay"))):
        await store.create(again, id="a")
        async with store.open("a") as conversation:
            with pytest.raises(ApprovalRefusedError) as caught:
                await keys(clock).redeem(token, conversation, "approve")
        assert caught.value.reason == "call"
        await store.delete("a")
    async with store.open("a") as conversation:
        with pytest.raises(ApprovalRefusedError):
            await keys(clock).redeem(token, conversation, "approve")
    assert await store.waiting() == []


def _later(messages: Messages) -> Messages:
    for content in messages:
        for turn in content.turns:
            turn.created_at += timedelta(seconds=1)
    return messages


async def test_a_token_bound_to_a_snapshot_is_redeemed_in_the_open_conversation() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused(call("pay", expires_at=clock.after(hours=1))))
    token = keys(clock).bind(name, (await store.load(name)).messages, ["pay"])

    async with store.open(name) as conversation:
        await keys(clock).redeem(token, conversation, "approve")
        assert [entry.event for entry in await conversation.history()][-1] == "tool"
    decision = (await store.load(name)).messages.tool("pay").decisions[0]
    assert decision.extra is not None
    assert decision.extra["token"] == keys(clock).read(token).nonce


# --- In a file ------------------------------------------------------------------------------------------------------


def nested() -> Messages:
    agent = Tool(FunctionCall("ask_bank", {"request": "pay Maria"}), id="outer")
    agent.start(Clock()())
    agent.suspend(paused("inner"))
    return paused(agent)


async def stored(path: Path, messages: Messages) -> Messages:
    async with FileConversation.create(path, messages, id="chat-1"):
        return messages


async def test_the_second_redemption_of_a_token_is_refused_as_used(tmp_path: Path) -> None:
    path, clock = tmp_path / "chat.jsonl", Clock()
    token = keys(clock).bind("chat-1", await stored(path, paused("call_1")), ["call_1"], person="ana@example.com")

    async with FileConversation.open(path) as one, FileConversation.open(path) as other:
        # The same person, the same choice, the same microsecond.
        tool = await keys(clock).redeem(token, one, "approve")
        with pytest.raises(ApprovalRefusedError) as caught:
            await keys(clock).redeem(token, other, "approve")

    assert isinstance(tool.status, Approved)
    assert caught.value.reason == "used"
    async with FileConversation.open(path) as conversation:
        assert len(conversation.messages.tool("call_1").decisions) == 1


async def test_ten_concurrent_redemptions_of_one_token_make_one_decision(tmp_path: Path) -> None:
    path, clock = tmp_path / "chat.jsonl", Clock()
    token = keys(clock).bind("chat-1", await stored(path, paused("call_1")), ["call_1"])
    ends: list[str] = []

    async def redeem(choice: ApprovalChoice) -> None:
        try:
            async with FileConversation.open(path) as conversation:
                await keys(clock).redeem(token, conversation, choice, reason="no")
                ends.append(choice)
        except ApprovalRefusedError as error:
            ends.append(error.reason)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(redeem, "approve")
            group.start_soon(redeem, "reject")

    assert len(ends) == 10
    assert [end for end in ends if end != "used"] in (["approve"], ["reject"])


async def test_the_second_of_two_tokens_finds_the_call_already_decided(tmp_path: Path) -> None:
    path, clock = tmp_path / "chat.jsonl", Clock()
    messages = await stored(path, nested())
    mine, yours = (keys(clock).bind("chat-1", messages, ["outer", "inner"]) for _ in range(2))

    async with FileConversation.open(path) as one, FileConversation.open(path) as other:
        await keys(clock).redeem(mine, one, "reject", reason="no", by="ben")
        with pytest.raises(ApprovalRefusedError, match="reject by ben") as caught:
            await keys(clock).redeem(yours, other, "approve")

    assert caught.value.reason == "decided"


async def test_a_conflict_on_another_call_prevents_the_redeemed_decision(tmp_path: Path) -> None:
    path, clock = tmp_path / "chat.jsonl", Clock()
    token = keys(clock).bind("chat-1", await stored(path, paused("call_1", "call_2")), ["call_1"])

    with pytest.raises(ConflictError, match="call_2"):
        async with FileConversation.open(path) as one, FileConversation.open(path) as other:
            one.messages.tool("call_2").approve(by="ben", at=clock())
            other.messages.tool("call_2").reject("no", by="cleo", at=clock())
            await one.save()
            await keys(clock).redeem(token, other, "approve")

    async with FileConversation.open(path) as conversation:
        assert isinstance(conversation.messages.tool("call_1").status, Pending)


async def test_redeem_refuses_an_unknown_choice(tmp_path: Path) -> None:
    messages, clock = paused("call_1"), Clock()
    async with FileConversation.create(tmp_path / "chat.jsonl", messages, id="chat-1") as conversation:
        token = keys(clock).bind("chat-1", messages, ["call_1"])
        with pytest.raises(UsageError, match="'approve' or 'reject', not 'run'"):
            await keys(clock).redeem(token, conversation, cast("ApprovalChoice", "run"))
