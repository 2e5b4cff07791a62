"""Grants in stores and files during runs: revocation, compaction, and reads by other processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    Wait,
)
from chat_core.approvals import approve_with_grant
from chat_core.errors import PolicyError
from chat_core.messages import Grant, Messages
from chat_core.testing import ScriptedProvider
from chat_store import FileConversation, MemoryStore, SqliteStore
from chat_store._compaction import SMALLEST_TAIL

pytestmark = pytest.mark.anyio

Opened: TypeAlias = FileConversation
Open: TypeAlias = Callable[[], AbstractAsyncContextManager[Opened]]


@pytest.fixture(params=["file", "sqlite", "memory"])
async def opens(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Open]:
    """Return a function that opens one conversation as another process would."""
    if request.param == "file":
        yield lambda: FileConversation.open(tmp_path / "chat.jsonl")
        return
    memory = MemoryStore()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[object]:
        store = memory if request.param == "memory" else SqliteStore(tmp_path / "chats.db")
        async with store.open("chat") as conversation:
            yield conversation
        if store is not memory:
            await store.aclose()

    yield opened  # type: ignore[misc] # pyright: ignore[reportReturnType] - the tests use what the kinds share


def grant_until_tomorrow(messages: Messages, path: tuple[str, ...]) -> str:
    return approve_with_grant(messages, path, until=datetime.now(UTC) + timedelta(days=1), by="ana").id


async def test_a_grant_revoked_by_another_process_during_a_run_starts_no_further_call(opens: Open) -> None:
    paid: list[int] = []
    granted: list[str] = []
    tools = ToolCollection()

    @tools.tool(sequential=True)
    async def pay(cents: int) -> str:
        paid.append(cents)
        if cents == 2:
            async with opens() as other:
                other.messages.grants.revoke(granted[0], by="ben")
        return "paid"

    calls = [FunctionCall("pay", {"cents": cents}, id=f"call_{cents}") for cents in (1, 2, 3, 4)]
    model = ScriptedProvider(calls, "Done.", by_history=True)
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).build()

    async with opens() as conversation:
        conversation.messages.user("pay")
        await chat.complete(conversation)
    async with opens() as conversation:
        granted.append(grant_until_tomorrow(conversation.messages, ("call_1",)))
        paused = await chat.complete(conversation)

    assert paid == [1, 2]
    assert isinstance(paused, Paused)
    assert [wait.tool_id for wait in paused.waiting] == ["call_3", "call_4"]
    async with opens() as conversation:
        assert isinstance(await chat.complete(conversation), Paused)
        for id in ("call_3", "call_4"):
            conversation.messages.tool(id).approve(by="cleo")
        assert isinstance(await chat.complete(conversation), ChatResponse)
        decisions = [conversation.messages.tool(call.id).decisions for call in calls]
    assert paid == [1, 2, 3, 4]
    assert [[(one.by, one.grant) for one in found] for found in decisions] == [
        [("ana", None)],
        [("ana", granted[0])],
        [("ana", granted[0]), ("cleo", None)],
        [("ana", granted[0]), ("cleo", None)],
    ]


async def test_the_history_names_who_gave_and_revoked_a_grant(opens: Open) -> None:
    tools = ToolCollection()

    @tools.tool
    def pay() -> str:
        return "paid"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    model = ScriptedProvider(FunctionCall("pay", {}, id="a"), "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).build()
    async with opens() as conversation:
        conversation.messages.user("pay")
        await chat.complete(conversation)
        id = grant_until_tomorrow(conversation.messages, ("a",))
        await chat.complete(conversation)
        conversation.messages.grants.revoke(id, by="ben")
        await conversation.save()
        history = await conversation.history()
    found = [(entry.event, entry.grant.by, entry.grant.revoked_by) for entry in history if entry.grant is not None]
    assert found == [("granted", "ana", None), ("revoked", "ana", "ben")]


async def test_a_snapshot_keeps_grants(opens: Open) -> None:
    tools = ToolCollection()

    @tools.tool
    def pay() -> str:
        return "x" * SMALLEST_TAIL

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    calls = (FunctionCall("pay", {}, id="a"), FunctionCall("pay", {}, id="b"))
    model = ScriptedProvider(*calls, "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).build()
    async with opens() as conversation:
        conversation.messages.user("pay")
        await chat.complete(conversation)
    async with opens() as conversation:
        grant_until_tomorrow(conversation.messages, ("a",))
        assert isinstance(await chat.complete(conversation), ChatResponse)
        grants = [*conversation.messages.grants]
    async with opens() as conversation:
        assert [*conversation.messages.grants] == grants
        assert len(grants) == 1


async def test_a_call_is_listed_for_people_and_not_for_workers_if_a_grant_rule_raises() -> None:
    def broken(_grant: Grant, _wait: Wait) -> bool:
        raise LookupError

    tools = ToolCollection()

    @tools.tool
    def pay() -> str:
        return "paid"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    model = ScriptedProvider(FunctionCall("pay", {}, id="a"), FunctionCall("pay", {}, id="b"), by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).with_grant_rule(broken).build()
    store = MemoryStore()
    name = await store.create(Messages.from_user("pay"))
    async with store.open(name) as conversation:
        await chat.complete(conversation)
        grant_until_tomorrow(conversation.messages, ("a",))
    async with store.open(name) as conversation:
        with pytest.raises(PolicyError):
            await chat.complete(conversation)

    assert [item.wait.path for item in await store.waiting()] == [("b",)]
    assert await store.due() == []
