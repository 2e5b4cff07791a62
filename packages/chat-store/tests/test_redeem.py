"""Tokens of `ApprovalKeys` over stores: whoever redeems one, and however many at once, one decision is made."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from chat_core import ApprovalKeys, ApprovalRefusedError
from chat_core.approvals import ApprovalChoice
from chat_core.errors import ConflictError
from chat_core.messages import Approved, Messages, Pending, Running, Turn
from chat_store import MemoryStore, SqliteStore
from chat_store.testing._trial import Clock, call, paused

pytestmark = pytest.mark.anyio

SECRET = b"k" * 32
REDEEM = """
import sys

import anyio
from chat_core import ApprovalKeys, ApprovalRefusedError
from chat_store import SqliteStore


async def main(path, token, choice):
    keys = ApprovalKeys("k", {"k": b"k" * 32})
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
    return ApprovalKeys("k", {"k": SECRET}) if clock is None else ApprovalKeys("k", {"k": SECRET}, now=clock)


async def test_of_many_processes_that_redeem_one_token_at_once_one_decides(tmp_path: Path) -> None:
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


async def test_of_many_tasks_that_redeem_tokens_of_one_call_one_decides() -> None:
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


async def test_a_token_is_redeemed_while_a_run_is_live_but_not_on_what_it_is_at() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused("open", "busy"))
    messages = (await store.load(name)).messages
    mine, theirs = (keys(clock).bind(name, messages, [tool]) for tool in ("open", "busy"))

    async with store.open(name) as run, store.open(name) as late:
        run.messages.tool("busy").approve(at=clock())
        await run.claim()
        run.messages.tool("busy").start(clock())
        await run.write_tool(run.messages.tool("busy"))

        async with store.open(name) as conversation:
            await keys(clock).redeem(mine, conversation, "approve", by="ana")
            with pytest.raises(ApprovalRefusedError) as caught:
                await keys(clock).redeem(theirs, conversation, "reject")
        assert caught.value.reason == "decided"
        # The same, by somebody who had looked before the run began.
        with pytest.raises(ApprovalRefusedError) as caught:
            await keys(clock).redeem(theirs, late, "reject")
        assert caught.value.reason == "decided"
        assert isinstance(run.messages.tool("busy").status, Running)
        await run.release()

    assert isinstance((await store.load(name)).messages.tool("open").status, Approved)


async def test_a_turn_that_cannot_be_added_keeps_the_decision_beside_it_from_being_made() -> None:
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


async def test_a_token_of_a_conversation_that_was_deleted_is_no_good_for_the_next_one_of_that_name() -> None:
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


async def test_a_token_of_a_snapshot_is_good_in_the_conversation_as_it_is_opened() -> None:
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
