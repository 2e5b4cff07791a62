"""Two processes that change one conversation at the same time: one of them wins, and no effect happens twice."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.approvals import expire
from chat_core.errors import ConflictError, IllegalTransitionError
from chat_core.messages import Approved, Completed, Messages, Tool
from chat_core.response import ChatResponse
from chat_core.testing import ScriptedProvider
from chat_store import FileConversation, OpenConversation, SqliteStore
from chat_store.postgres import PostgresStore
from chat_store.testing.postgres_server import PostgresServer

Opens: TypeAlias = Callable[[int], AbstractAsyncContextManager[OpenConversation]]
Stores: TypeAlias = Callable[[], AbstractAsyncContextManager[Opens]]

RACES = 100 if os.environ.get("CHAT_THOROUGH") else 3
LONGEST_SPIN = 20_000
"""Most turns of an empty loop before a process begins, so that the order of the steps varies."""


class Opening:
    """One store, or a folder of files, whose conversations have numbers."""

    def __init__(self, store: Any, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Opens:
        if self._store is None:
            return lambda race: FileConversation.open(self._folder / f"{race}.jsonl")
        store = await self._stack.enter_async_context(self._store)
        return lambda race: store.open(str(race))

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


@pytest.fixture(params=["file", "sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Return a function that opens the store of this test in a process."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        schema = f"races_{random.randrange(10**12)}"
        return lambda: Opening(PostgresStore(server.dsn, schema=schema), tmp_path)
    if request.param == "sqlite":
        return lambda: Opening(SqliteStore(tmp_path / "chats.db"), tmp_path)
    return lambda: Opening(None, tmp_path)


def build_chat(ledger: Path, race: int) -> StreamingChat[ChatResponse, Paused]:
    """Build a chat whose payment writes the number of the race and of its process to a file."""
    tools = ToolCollection()

    @tools.tool
    def pay() -> str:
        """Pay."""
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{race} {os.getpid()}\n")
        return "paid"

    model = ScriptedProvider(FunctionCall("pay", {}, id="pay"), "Done.", by_history=True)
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval(timedelta(hours=1)))
    return ChatBuilder().with_model(model).with_scoped_tools(scope).build()


# --- Steps of a process -----------------------------------------------------------------------------------------------


async def approve(conversation: OpenConversation, _ledger: Path, _race: int) -> bool:
    conversation.messages.tool("pay").approve(by="ana")
    return True


async def reject(conversation: OpenConversation, _ledger: Path, _race: int) -> bool:
    """Reject the call, unless the other process has been seen to approve it: an approval may be withdrawn."""
    if isinstance(conversation.messages.tool("pay").status, Approved):
        return False
    conversation.messages.tool("pay").reject("no", by="ben")
    return True


async def reject_expired(conversation: OpenConversation, _ledger: Path, _race: int) -> bool:
    return bool(expire(conversation.messages, now=datetime.now(UTC) + timedelta(hours=2)))


async def cancel(conversation: OpenConversation, _ledger: Path, _race: int) -> bool:
    return bool(conversation.messages.cancel_pending("not needed", by="ben"))


async def run(conversation: OpenConversation, ledger: Path, race: int) -> bool:
    """Run the chat. It has won if the call ran in this process: a later run returns the stored response."""
    await build_chat(ledger, race).complete(conversation)
    return f"{race} {os.getpid()}" in read_lines(ledger)


Step: TypeAlias = Callable[[OpenConversation, Path, int], Any]


async def race_all(stores: Stores, step: Step, side: int, barrier: Any, folder: Path) -> None:
    """Take one step in each conversation, at the same time as the other process, and write down the races won."""
    spins = random.Random(side)
    async with stores() as opens:
        for race in range(RACES):
            barrier.wait(60)
            for _ in range(spins.randrange(LONGEST_SPIN)):
                pass
            try:
                async with opens(race) as conversation:
                    has_won = await step(conversation, folder / "ledger", race)
            except (ConflictError, IllegalTransitionError):
                has_won = False  # the other process was first
            if has_won:
                with (folder / f"won-{side}").open("a", encoding="utf-8") as file:
                    file.write(f"{race}\n")


def race_processes(stores: Stores, folder: Path, steps: tuple[Step, Step]) -> None:
    """Let two processes take a step each, in every conversation."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    children: list[int] = []
    for side, step in enumerate(steps):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                anyio.run(race_all, stores, step, side, barrier, folder)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]


async def prepare(stores: Stores, folder: Path, *, approved: bool) -> None:
    """Store conversations that wait for an approval, or that have one."""
    async with stores() as opens:
        for race in range(RACES):
            async with opens(race) as conversation:
                conversation.messages.user("Pay.")
                assert isinstance(await build_chat(folder / "ledger", race).complete(conversation), Paused)
                if approved:
                    conversation.messages.tool("pay").approve(by="ana")


async def finish(stores: Stores, folder: Path) -> list[Tool]:
    """Run every conversation to its answer, and return the calls."""
    calls: list[Tool] = []
    async with stores() as opens:
        for race in range(RACES):
            async with opens(race) as conversation:
                response = await build_chat(folder / "ledger", race).complete(conversation)
                assert isinstance(response, ChatResponse)
                assert response.text == "Done."
            async with opens(race) as conversation:
                messages: Messages = conversation.messages
                calls.append(messages.tool("pay"))
    return calls


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def races_of(path: Path) -> list[int]:
    """Return the races that are named at the beginning of the lines of a file."""
    return sorted(int(line.split()[0]) for line in read_lines(path))


@pytest.mark.parametrize(
    ("first", "second", "approved"),
    [
        pytest.param(approve, reject, False, id="two_deciders"),
        pytest.param(approve, reject_expired, False, id="approval_and_expiry"),
        pytest.param(run, run, True, id="two_workers"),
        pytest.param(run, cancel, True, id="run_and_cancellation"),
    ],
)
def test_one_of_two_processes_changes_a_call_and_its_effect_happens_at_most_once(
    stores: Stores,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    first: Step,
    second: Step,
    *,
    approved: bool,
) -> None:
    async def ready() -> None:
        await prepare(stores, tmp_path, approved=approved)

    anyio.run(ready)
    race_processes(stores, tmp_path, (first, second))
    won = races_of(tmp_path / "won-0"), races_of(tmp_path / "won-1")
    calls = anyio.run(finish, stores, tmp_path)

    assert sorted([*won[0], *won[1]]) == [*range(RACES)]
    paid = [race for race, tool in enumerate(calls) if isinstance(tool.status, Completed)]
    assert races_of(tmp_path / "ledger") == paid
    if first is not second:
        assert paid == won[0]
    record_property("won", [len(won[0]), len(won[1])])
