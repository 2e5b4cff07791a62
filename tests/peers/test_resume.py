"""Pauses that are decided twice or in part, the stored size of a pause, and the page that reports both."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, final

import anyio
import pytest
from chat_core import ChatBuilder, FunctionCall, Messages, Paused, RequireApproval, ScopedCollection
from chat_core.conversation import Conversation
from chat_core.errors import ChatError
from chat_core.testing import ScriptedProvider
from chat_core.tools.collection import ToolCollection
from chat_store import FileConversation, SqliteStore

from .calls import ANSWER, COUNTS, PROMPT, TOOL, calls, executions, row

pytestmark = pytest.mark.anyio

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "comparison.md"
Open: TypeAlias = "Callable[[], AbstractAsyncContextManager[Conversation | Document]]"


@final
class Document:
    """A JSON document of a caller with a database of their own: messages without a lease."""

    def __init__(self, stored: str) -> None:
        self.messages = Messages.from_json(stored)


@final
class Bank:
    """A chat whose tool needs approval, and the calls that have run."""

    def __init__(self, count: int = 1) -> None:
        self.ran: list[str] = []
        self.go_on = anyio.Event()
        self.go_on.set()
        tools = ToolCollection()

        @tools.tool(name=TOOL)
        async def transfer(to: str, cents: int) -> str:
            """Send money to a person."""
            self.ran.append(to)
            if len(self.ran) == 2:
                self.go_on.set()
            await self.go_on.wait()
            return f"sent {cents} to {to}"

        made = [FunctionCall(TOOL, arguments, id=id) for id, arguments in calls(count)]
        self.model = ScriptedProvider(made, ANSWER, by_history=True)
        scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
        self.chat = ChatBuilder().with_model(self.model).with_scoped_tools(scope).build()

    async def pause(self) -> Messages:
        messages = Messages.from_user(PROMPT)
        await self.chat.complete(messages)
        return messages

    async def resume(self, open_: Open, both: Barrier | None = None) -> str:
        """Approve the call and resume. Return the name of the error, or an empty text.

        With `both`, wait until the other run has approved the call too.
        """
        try:
            async with open_() as conversation:
                conversation.messages.tool("call_1").approve(by="ana")
                if both is not None:
                    await both.wait()
                await self.chat.complete(conversation.messages if isinstance(conversation, Document) else conversation)
        except ChatError as error:
            return type(error).__name__
        return ""


@final
class Barrier:
    """A barrier for two tasks."""

    def __init__(self) -> None:
        self.waiting = 0
        self.open = anyio.Event()

    async def wait(self) -> None:
        self.waiting += 1
        if self.waiting == 2:
            self.open.set()
        await self.open.wait()


async def told(bank: Bank, where: str, twice: list[Open]) -> str:
    """Return a row for sequential and for concurrent decisions. `twice` has two pauses."""
    cells: list[str] = []
    ends: list[str] = []
    for at_once, open_ in enumerate(twice):
        bank.ran.clear()
        if at_once:
            ends += await resumed_at_once(bank, open_)
        else:
            ends += [await bank.resume(open_), await bank.resume(open_)]
        cells.append(executions(len(bank.ran)))
    got = ", ".join([f"`{end}`" for end in dict.fromkeys(ends) if end]) or "nothing"
    return row("this library", where, *cells, got)


async def resumed_at_once(bank: Bank, open_: Open) -> list[str]:
    """Resume a pause in two runs at the same time.

    Both are approved before the first run starts, and each stays in its call until the other one has ended.
    """
    bank.go_on, both, ends = anyio.Event(), Barrier(), list[str]()

    async def resume() -> None:
        ends.append(await bank.resume(open_, both))
        bank.go_on.set()

    async with anyio.create_task_group() as group:
        group.start_soon(resume)
        group.start_soon(resume)
    return ends


async def documents() -> str:
    bank = Bank()
    stored = (await bank.pause()).to_json()

    @asynccontextmanager
    async def load() -> AsyncGenerator[Document]:
        yield Document(stored)

    return await told(bank, "`Messages` as JSON, loaded by each", [load, load])


async def files(folder: Path) -> str:
    bank = Bank()
    opens: list[Open] = []
    for name in ("one", "two"):
        path = folder / f"{name}.jsonl"
        async with FileConversation.create(path, Messages.from_user(PROMPT)) as conversation:
            await bank.chat.complete(conversation)
        opens.append(partial(FileConversation.open, path))
    return await told(bank, "`FileConversation`", opens)


async def stores(folder: Path) -> str:
    bank = Bank()
    opens: list[Open] = []
    for name in ("one", "two"):
        async with SqliteStore(folder / "chats.db") as store, store.open(name) as conversation:
            conversation.messages.user(PROMPT)
            await bank.chat.complete(conversation)

        @asynccontextmanager
        async def open_stored(name: str = name) -> AsyncGenerator[Conversation]:
            # A separate store object, as in another process.
            async with SqliteStore(folder / "chats.db") as store, store.open(name) as conversation:
                yield conversation

        opens.append(open_stored)
    return await told(bank, "`SqliteStore`", opens)


async def partly() -> str:
    bank = Bank(3)
    messages = await bank.pause()
    asked = len(bank.model.asked)
    messages.tool("call_1").approve(by="ana")
    messages.tool("call_2").reject("no", by="ana")

    end = await bank.chat.complete(Messages.from_json(messages.to_json()))

    assert isinstance(end, Paused)
    left = ", ".join([wait.tool_id for wait in end.waiting])
    return row("this library", f"pauses again: {left}", len(bank.ran), len(bank.model.asked) - asked)


async def sizes() -> str:
    cells: list[str] = []
    for count in COUNTS:
        messages = await Bank(count).pause()
        for content in messages:
            for turn in content.turns:
                turn.created_at = datetime(2030, 1, 1, 12, 0, 0, 1, tzinfo=UTC)  # always of one length
        cells.append(f"{len(messages.to_json().encode()) - len(PROMPT):,}")
    return row("this library", "`Messages`", *cells)


def on_the_page(table: str) -> list[str]:
    """Return the rows of this library under a heading."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"## {table}\n")
    return [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| this library |")]


async def test_the_page_shows_how_often_a_twice_approved_call_runs(tmp_path: Path) -> None:
    rows = [await documents(), await files(tmp_path), await stores(tmp_path)]

    assert on_the_page("A pause that is answered twice") == rows


async def test_a_call_that_is_approved_twice_in_a_store_runs_once(tmp_path: Path) -> None:
    for where in (await files(tmp_path), await stores(tmp_path)):
        assert where.split(" | ")[2:4] == ["1", "1"]
        assert where.endswith("| `IllegalTransitionError`, `ConflictError` |")


async def test_the_page_shows_what_happens_if_only_some_calls_are_answered() -> None:
    assert on_the_page("A pause that is answered in part") == [await partly()]


async def test_what_was_answered_in_part_is_answered_in_the_end_and_nothing_runs_again() -> None:
    bank = Bank(3)
    messages = await bank.pause()
    messages.tool("call_3").approve(by="ana")
    await bank.chat.complete(messages)
    messages.tool("call_1").reject("no", by="ana")
    messages.tool("call_2").approve(by="ana")

    end = await bank.chat.complete(messages)

    assert not isinstance(end, Paused)
    assert end.text == ANSWER
    assert bank.ran == ["Person 3", "Person 2"]


async def test_the_page_shows_how_much_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    # The stored duration of a response has more digits on some runs.
    monkeypatch.setattr("chat_core.engine.model_call.perf_counter", partial(next, itertools.count(0.0, 1.25)))

    assert on_the_page("What is stored for a pause") == [await sizes()]


async def test_two_calls_that_wait_are_at_most_a_thousand_bytes() -> None:
    assert int((await sizes()).split(" | ")[3].replace(",", "")) <= 1000
