"""Writes of tools and turns inside the inner conversations of tools, by path."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from chat_core.errors import ConflictError, UsageError
from chat_core.frozen import FrozenList
from chat_core.messages import Approved, Completed, Messages, Running, Text, Tool, Turn
from chat_store import FileConversation, OpenConversation, SqliteStore
from chat_store.testing._fixtures import call, paused

pytestmark = pytest.mark.anyio

Open: TypeAlias = Callable[[], AbstractAsyncContextManager[OpenConversation]]


@pytest.fixture(params=["file", "store"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "file":
        return lambda: FileConversation.open(tmp_path / "chat.jsonl")
    return lambda: _open_stored(tmp_path / "chats.db")


@asynccontextmanager
async def _open_stored(path: Path) -> AsyncGenerator[OpenConversation]:
    async with SqliteStore(path) as store, store.open("chat") as conversation:
        yield conversation


def outer_of(conversation: OpenConversation) -> tuple[Tool, Messages]:
    tool = conversation.messages.tool("outer")
    assert tool.inner is not None
    return tool, tool.inner


async def begin(conversation: OpenConversation) -> tuple[Tool, Messages]:
    """Store a call whose inner conversation waits, and resume it."""
    outer = call("outer")
    outer.approve()
    outer.start()
    outer.suspend(paused("inner"))
    conversation.messages.append("user", Turn([Text("Pay.")]))
    conversation.messages.append("model", Turn([outer], finish_reason="tool_calls"))
    await conversation.claim()
    outer.start()
    await conversation.write_tool(("outer",), outer)
    return outer_of(conversation)


async def test_a_tool_of_an_inner_conversation_is_stored_under_its_path(opened: Open) -> None:
    async with opened() as conversation:
        _, inner = await begin(conversation)
        tool = inner.tool("inner")
        for step in (tool.approve, tool.start, lambda: tool.complete("paid")):
            step()
            await conversation.write_tool(("outer", "inner"), tool)
            async with opened() as other:
                assert other.messages == conversation.messages
        history = await conversation.history()
    assert [entry.path for entry in history if entry.event == "tool"] == [("outer",), *[("outer", "inner")] * 3]
    async with opened() as conversation:
        assert conversation.messages.tool("outer", "inner").status == Completed("paid")


async def test_delivery_marks_of_an_answer_before_a_summary_are_stored(opened: Open) -> None:
    async with opened() as conversation, opened() as other:
        conversation.messages.append("user", Turn([Text("hi")]))
        conversation.messages.append("model", Turn([Text("Hello.")], finish_reason="stop"))
        conversation.messages.append("user", Turn([Text("bye")]))
        answer = Turn([Text("Bye.")], finish_reason="stop")
        answer.delivered = False
        conversation.messages.append("model", answer)
        conversation.messages.summarize("A greeting.", 2)
        await conversation.claim()
        await other.save()
        answer.delivered = True
        await conversation.write_marks()
        await other.save()
        async with opened() as again:
            for messages in (other.messages, again.messages):
                delivered = [turn.delivered for content in messages for turn in content.turns]
                assert delivered == [None, None, None, True, None]


async def test_a_turn_of_an_inner_conversation_is_stored_under_its_tool(opened: Open) -> None:
    async with opened() as conversation:
        _, inner = await begin(conversation)
        turn = Turn([Text("And this one."), call("second")])
        inner.append("model", turn)
        await conversation.write_turn(("outer",), "model", turn)
        async with opened() as other:
            assert other.messages == conversation.messages
        inner.tool("second").approve()
        await conversation.write_tool(("outer", "second"), inner.tool("second"))
        async with opened() as other:
            assert isinstance(other.messages.tool("outer", "second").status, Approved)


async def test_writing_an_inner_tool_also_stores_its_unwritten_turn(opened: Open) -> None:
    async with opened() as conversation:
        _, inner = await begin(conversation)
        inner.append("model", Turn([call("second")]))
        await conversation.write_tool(("outer", "second"), inner.tool("second"))
        async with opened() as other:
            assert other.messages == conversation.messages


async def test_writing_an_inner_change_does_not_repeat_stored_turns(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chat.jsonl"
    async with FileConversation.open(path) as conversation:
        outer, inner = await begin(conversation)
        inner.append("user", Turn([Text("long" * 1000)]))
        await conversation.write_tool(("outer",), outer)
        size = path.stat().st_size
        for _ in range(5):
            outer.suspend(inner)
            await conversation.write_tool(("outer",), outer)
            outer.start()
            await conversation.write_tool(("outer",), outer)
            turn = Turn([Text("short")])
            inner.append("model", turn)
            await conversation.write_turn(("outer",), "model", turn)
        assert path.stat().st_size - size < 12_000
        async with FileConversation.open(path) as other:
            assert other.messages == conversation.messages
        seen = [entry for entry in await conversation.history() if entry.event == "turn" and entry.path]
        assert [(entry.path, entry.role) for entry in seen] == [(("outer",), "user"), *[(("outer",), "model")] * 5]
        last = [entry.tool for entry in await conversation.history() if entry.path == ("outer",) and entry.tool][-1]
        assert last is not None
        assert isinstance(last.status, Running)
        assert last.inner is not None
        assert "".join([turn.text for content in last.inner for turn in content.turns]).endswith("short" * 4)


async def test_inner_decisions_do_not_conflict_with_the_status_of_the_outer_tool(opened: Open) -> None:
    async with opened() as conversation:
        outer, inner = await begin(conversation)
        async with opened() as other:
            other.messages.tool("outer", "inner").approve(by="ana")
        outer.suspend(inner)
        await conversation.write_tool(("outer",), outer)
        assert conversation.messages.tool("outer").inner is inner
        assert isinstance(inner.tool("inner").status, Approved)
        async with opened() as other:
            assert other.messages == conversation.messages


async def test_an_inner_turn_of_another_process_is_received_on_save(opened: Open) -> None:
    async with opened() as conversation, opened() as other:
        _, inner = await begin(conversation)
        await other.save()
        turn = Turn([Text("And this one."), call("second")])
        inner.append("model", turn)
        await conversation.write_turn(("outer",), "model", turn)
        inner.tool("second").approve()
        await conversation.write_tool(("outer", "second"), inner.tool("second"))
        await other.save()
        assert other.messages == conversation.messages


async def test_inner_turns_added_by_two_writers_raise_a_conflict(opened: Open) -> None:
    async with opened() as conversation, opened() as other:
        _, inner = await begin(conversation)
        await other.save()
        mine = other.messages.tool("outer").inner
        assert mine is not None
        mine.append("model", Turn([Text("mine")]))
        turn = Turn([Text("yours")])
        inner.append("model", turn)
        await conversation.write_turn(("outer",), "model", turn)
        with pytest.raises(ConflictError, match="added turns"):
            await other.save()
        last = mine.contents[-1]
        last._turns = FrozenList(last.turns[:-1])  # pyright: ignore[reportPrivateUsage] - the test replaces it


async def test_an_inner_tool_decided_by_another_writer_raises_a_conflict(opened: Open) -> None:
    async with opened() as conversation:
        outer = call("outer")
        outer.approve()
        outer.start()
        outer.suspend(paused("inner"))
        conversation.messages.append("model", Turn([outer], finish_reason="tool_calls"))
        await conversation.claim()
        async with opened() as other:
            other.messages.tool("outer", "inner").approve(by="ana")
        tool = conversation.messages.tool("outer", "inner")
        tool.reject("no")
        with pytest.raises(ConflictError, match="outer/inner"):
            await conversation.write_tool(("outer", "inner"), tool)
        assert isinstance(conversation.messages.tool("outer", "inner").status, Approved)


async def test_writing_a_tool_or_turn_under_a_wrong_path_is_refused(opened: Open) -> None:
    async with opened() as conversation:
        outer, inner = await begin(conversation)
        tool = inner.tool("inner")
        for path in ((), ("inner",), ("outer",), ("inner", "outer")):
            with pytest.raises(UsageError, match="requires a tool of these messages"):
                await conversation.write_tool(path, tool)
        turn = Turn([Text("more")])
        inner.append("model", turn)
        for path in ((), ("inner",), ("outer", "inner")):
            with pytest.raises(UsageError, match="append it before"):
                await conversation.write_turn(path, "model", turn)
        assert isinstance(outer.status, Running)


async def test_the_conversation_of_a_failed_chat_is_stored_with_its_decisions(opened: Open) -> None:
    async with opened() as conversation:
        outer, inner = await begin(conversation)
        async with opened() as other:
            other.messages.tool("outer", "inner").approve(by="ana")
        tool = inner.tool("inner")
        await conversation.write_tool(("outer", "inner"), tool)
        tool.start()
        tool.complete("paid")
        await conversation.write_tool(("outer", "inner"), tool)
        outer.fail("503")
        await conversation.write_tool(("outer",), outer)
        async with opened() as other:
            stored = other.messages.tool("outer", "inner")
            assert stored.status == Completed("paid")
            assert [decision.by for decision in stored.decisions] == ["ana"]
            assert other.messages == conversation.messages
            history = await other.history()
        assert history[-1].tool == outer
