"""Conformance scenarios for reading a history from a position."""

from __future__ import annotations

from chat_core.messages import Messages, Turn

from chat_store.history import HistoryEntry
from chat_store.meta import HistoryPosition
from chat_store.store import ConversationStore
from chat_store.testing._fixtures import Stores, answer, call, paused, require


def _fields(entry: HistoryEntry) -> tuple[object, ...]:
    tool = entry.tool
    inner = None if tool is None or tool.inner is None else tool.inner.to_json()
    state = None if tool is None else (tool.id, type(tool.status).__name__, inner)
    statuses = None if entry.turn is None else [type(item.status).__name__ for item in entry.turn.tools]
    return entry.number, entry.event, entry.path, entry.role, state, statuses, entry.position


async def a_history_continues_after_any_position(stores: Stores) -> None:
    """`history(after=...)` returns the same events after a position as the complete history."""
    async with stores.open() as here, stores.open() as there:
        outer = call("outer")
        outer.approve()
        outer.start()
        outer.suspend(paused("inner"))
        name = await here.create(paused(outer))
        async with here.open(name) as run:
            await run.claim()
            outer = run.messages.tool("outer")
            outer.start()
            await run.write_tool(("outer",), outer)
            run.messages.tool("outer", "inner").approve()
            await run.write_tool(("outer", "inner"), run.messages.tool("outer", "inner"))
            outer.suspend(outer.inner or Messages())
            await run.write_tool(("outer",), outer)
        async with here.open(name) as run:
            run.messages.tool("outer").cancel("no")
            await run.claim()
            for turn in (Turn([call("last")]), answer()):
                run.messages.append("model", turn)
                await run.write_turn((), "model", turn)
                for tool in turn.tools:
                    tool.cancel("no")
                    await run.write_tool((tool.id,), tool)
            await run.release()
        whole = await there.history(name)
        require(whole[0].turns[0][0] == "user", f"the history begins with the first turns, not {whole[0].turns}")
        waiting = [turn.tools[0].status for _, turn in whole[0].turns if turn.tools]
        require(type(waiting[0]).__name__ == "Suspended", f"the first turns are as they were then, not {waiting}")
        for entry in whole:
            rest = [_fields(item) for item in await there.history(name, after=entry.position)]
            expected = [_fields(item) for item in whole if item.number > entry.number]
            require(rest == expected, f"after entry {entry.number}, the history has {expected}, not {rest}")
        position = (await there.meta(name)).position
        require(position is not None, "meta() returns the position after the last entry")
        require(await there.history(name, after=position) == [], "nothing follows the last entry")


async def a_redacted_history_is_returned_completely(stores: Stores) -> None:
    """After a redaction, `history(after=...)` with an earlier position returns the whole new history."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(Messages.from_user("My card is 4711."))
        await _answer_question(here, name)
        before = (await there.history(name))[0].position
        await here.redact(name, 0, by="dpo", reason="law")
        await _answer_question(here, name)
        whole = await there.history(name)
        for position in (before, HistoryPosition(before.log, 99)):
            found = [_fields(item) for item in await there.history(name, after=position)]
            require(found == [_fields(item) for item in whole], f"the whole history follows {position}, not {found}")
        require(whole[0].position.log != before.log, "a redacted history has another name")
        require([turn.text for _, turn in whole[0].turns] == ["[redacted]", "Done."], f"not {whole[0].turns}")


async def _answer_question(store: ConversationStore, name: str) -> None:
    async with store.open(name) as run:
        await run.claim()
        turn = answer()
        run.messages.append("model", turn)
        await run.write_turn((), "model", turn)
        await run.release()


SCENARIOS = (a_history_continues_after_any_position, a_redacted_history_is_returned_completely)
"""The scenarios of histories."""
