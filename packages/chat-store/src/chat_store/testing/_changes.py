"""Conformance scenarios for `ConversationStore.changes()`: a follower misses no change."""

from __future__ import annotations

import anyio
from chat_core.errors import UsageError
from chat_core.messages import Messages

from chat_store.results import Changed
from chat_store.store import ConversationStore
from chat_store.testing._fixtures import Stores, answer, call, paused, refused, require

_BOUND = 60


async def a_change_is_reported_once(stores: Stores) -> None:
    """`changes()` returns each changed conversation once per cursor, even if it is called much later."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), id="old")
        first = await there.changes()
        require(first.conversations == (), "changes() without a cursor returns no conversations, only a cursor")
        for name in ("1", "2"):
            await here.create(paused("a"), id=name, person="ana")
            await here.assign(name, "ben")
        found = await there.changes(first.cursor, wait_seconds=_BOUND)
        expected = {Changed("1", "ben"), Changed("2", "ben")}
        require(set(found.conversations) == expected, f"changes() returns {expected}, not {found.conversations}")
        require(len(found.conversations) == len(expected), "changes() returns each conversation once")
        require(
            await _list_changed_ids(there, found.cursor) == set(), "a change is not returned again for the new cursor"
        )
        require(
            await _list_changed_ids(there, first.cursor) == {"1", "2"}, "an old cursor returns all changes since then"
        )


async def every_change_is_reported(stores: Stores) -> None:
    """`changes()` reports turns, calls, runs and assignments, but no lease renewals."""
    async with stores.open() as here, stores.open() as there:
        cursor = (await there.changes()).cursor

        async def require_reported(what: str) -> None:
            nonlocal cursor
            found = await there.changes(cursor, wait_seconds=0)
            require([item.conversation for item in found.conversations] == ["chat"], f"changes() reports {what}")
            cursor = found.cursor

        async with here.open("chat") as conversation:
            conversation.messages.user("Pay.")
            await conversation.save()
            await require_reported("a pushed turn")
            await conversation.claim()
            await require_reported("the start of a run")
            turn = paused("a")[-1].turns[0]
            conversation.messages.append("model", turn)
            await conversation.write_turn((), "model", turn)
            await require_reported("a turn written by a run")
            conversation.messages.tool("a").approve()
            await conversation.write_tool(("a",), conversation.messages.tool("a"))
            await require_reported("a changed call")
            await conversation.renew()
            require(await _list_changed_ids(there, cursor) == set(), "a lease renewal is not reported as a change")
            await conversation.release()
            await require_reported("the end of a run")
        await here.assign("chat", "ana")
        await require_reported("an assignment")


async def a_due_conversation_is_reported(stores: Stores) -> None:
    """`changes()` reports conversations that become due without a write, so a worker need not poll."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused(call("planned", at=stores.clock.after(hours=1))), id="planned")
        await here.create(paused(call("asked", expires_at=stores.clock.after(hours=2))), id="asked")
        await here.create(Messages.from_user("Hello."), id="run")
        async with here.open("run") as run:
            await run.claim()
            cursor = (await there.changes()).cursor
            stores.clock.advance(seconds=1)
            require(await _list_changed_ids(there, cursor) == set(), "no conversation is reported before it is due")
            stores.clock.advance(minutes=10)
            found = await there.changes(cursor, wait_seconds=0)
            names = [item.conversation for item in found.conversations]
            require(names == ["run"], "a conversation is reported when the lease of a dead run has expired")
            stores.clock.advance(minutes=50)
            found = await there.changes(found.cursor, wait_seconds=0)
            names = [item.conversation for item in found.conversations]
            require(names == ["planned"], f"only the scheduled call is reported when its time has come, not {names}")
            stores.clock.advance(hours=1)
            require(await _list_changed_ids(there, found.cursor) == {"asked"}, "an expired approval is reported")
            require(
                await _list_changed_ids(there, cursor) == {"run", "planned", "asked"},
                "an old cursor returns all of these changes",
            )


async def a_change_wakes_a_waiting_follower(stores: Stores) -> None:
    """A waiting `changes()` returns when another store writes a change, and not before."""
    async with stores.open() as here, stores.open() as there:
        cursor = (await there.changes()).cursor
        told: list[str] = []

        async def wait(store: ConversationStore) -> None:
            found = await store.changes(cursor)
            told.extend(item.conversation for item in found.conversations)

        with anyio.fail_after(_BOUND):
            async with anyio.create_task_group() as group:
                group.start_soon(wait, here)
                group.start_soon(wait, there)
                await anyio.wait_all_tasks_blocked()
                require(told == [], "changes() waits for a change")
                await here.create(paused("a"), id="new")
        require(told == ["new", "new"], f"a change wakes all waiting calls of changes(), not only {told}")


async def a_cancelled_wait_loses_no_change(stores: Stores) -> None:
    """A wait that times out or is cancelled loses no change."""
    async with stores.open() as here, stores.open() as there:
        first = await there.changes()
        second = await there.changes(first.cursor, wait_seconds=0.01)
        require(second.conversations == (), "changes() returns no conversations after its timeout")
        with anyio.move_on_after(0.01):
            await there.changes(second.cursor)
        await here.create(paused("a"), id="new")
        require(
            await _list_changed_ids(there, second.cursor) == {"new"},
            "after a cancelled wait, the same cursor still returns the change",
        )
        require(
            await _list_changed_ids(there, first.cursor) == {"new"},
            "after a cancelled wait, an earlier cursor still returns the change",
        )


async def a_cursor_is_accepted_by_every_store(stores: Stores) -> None:
    """Any store accepts the cursor of another store, and rejects an invalid cursor."""
    async with stores.open() as here, stores.open() as there:
        cursor = (await here.changes()).cursor
        await here.create(paused("a"), id="new")
        require(await _list_changed_ids(there, cursor) == {"new"}, "a store accepts the cursor of another store")
        require(cursor.isascii() and cursor.isprintable(), "a cursor consists of printable ASCII characters")
        require(not set(cursor) & set(" \"'<>&%\\"), "a cursor has no character that must be quoted or escaped")
        for text in ("", "no cursor", f"?{cursor}", f"{cursor}?"):
            with refused(UsageError, f"changes() rejects {text!r}, which is not a cursor"):
                await there.changes(text, wait_seconds=0)


async def a_follower_misses_no_change(stores: Stores) -> None:
    """A follower sees the last change of each conversation despite concurrent writers."""
    async with stores.open() as here, stores.open() as there:
        cursor = (await there.changes()).cursor
        seen: dict[str, int] = {}
        turns = {f"chat {number}": 1 + number % 3 for number in range(6)}

        async def talk(name: str, first: int, last: int) -> None:
            async with here.open(name) as conversation:
                for number in range(first, last):
                    conversation.messages.append("model", answer(str(number)))
                    await conversation.save()

        async def look(wait_seconds: float | None) -> bool:
            nonlocal cursor
            found = await there.changes(cursor, wait_seconds=wait_seconds)
            for item in found.conversations:
                seen[item.conversation] = (await there.load(item.conversation)).revision
            cursor = found.cursor
            return bool(found.conversations)

        async def follow() -> None:
            while True:
                await look(None)

        async with anyio.create_task_group() as group:
            for name in turns:
                group.start_soon(talk, name, 0, 1)
        async with anyio.create_task_group() as following:
            following.start_soon(follow)
            async with anyio.create_task_group() as group:
                for name, last in turns.items():
                    group.start_soon(talk, name, 1, last)
            following.cancel_scope.cancel()
        while await look(0):
            pass
        require(seen == turns, f"the last change of each conversation is reported: {turns}, not {seen}")


async def _list_changed_ids(store: ConversationStore, cursor: str) -> set[str]:
    """Return the ids of the conversations changed since `cursor`."""
    return {item.conversation for item in (await store.changes(cursor, wait_seconds=0)).conversations}


SCENARIOS = (
    a_change_is_reported_once,
    every_change_is_reported,
    a_due_conversation_is_reported,
    a_change_wakes_a_waiting_follower,
    a_cancelled_wait_loses_no_change,
    a_cursor_is_accepted_by_every_store,
    a_follower_misses_no_change,
)
