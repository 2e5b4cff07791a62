"""Conformance scenarios for text deltas: text of responses that are not stored yet."""

from __future__ import annotations

from collections.abc import Sequence

from chat_core.errors import LeaseLostError
from chat_core.messages import Messages

from chat_store.deltas import READER_SECONDS, ResponseDelta
from chat_store.jobs import Job, StoredJob
from chat_store.store import ConversationStore
from chat_store.testing._fixtures import Stores, answer, refused, require


async def _create(store: ConversationStore, name: str) -> str:
    return await store.create(Messages.from_user("Hello."), id=name, jobs=[Job("run", name)])


def _create_delta(job: StoredJob | None, step: int, start: int, *pieces: str) -> ResponseDelta:
    require(job is not None, "the job is taken")
    assert job is not None  # noqa: S101 - for type checkers
    return ResponseDelta(job.conversation, job.kind, job.key, job.fence, step, start, pieces)


def _texts_of(deltas: Sequence[ResponseDelta]) -> list[tuple[str, int, int, str]]:
    return [(delta.conversation, delta.step, delta.start, "".join(delta.pieces)) for delta in deltas]


async def unfinished_text_is_read_by_other_processes(stores: Stores) -> None:
    """`deltas()` returns text that other processes have written after a position. `changes()` does not report it."""
    async with stores.open() as here, stores.open() as there:
        one, two = await _create(here, "1"), await _create(here, "2")
        require(await there.deltas({one: 0, "unknown": 0}) == [], "a conversation begins without text")
        async with here.take_job("run") as taken, here.take_job("run") as other:
            jobs = {job.key: job for job in (taken, other) if job is not None}
            first, second = jobs.get("1"), jobs.get("2")
            cursor = (await there.changes()).cursor
            await here.write_deltas([_create_delta(first, 0, 0, "Good ", "mor"), _create_delta(second, 3, 0, "Hé\n")])
            await here.write_deltas([_create_delta(first, 0, 2, "ning.")])
            found = await there.deltas({one: 0})
            expected = [("1", 0, 0, "Good mor"), ("1", 0, 2, "ning.")]
            require(_texts_of(found) == expected, f"the text of a conversation is {expected}, not {_texts_of(found)}")
            require(list(found[0].pieces) == ["Good ", "mor"], "deltas keep their pieces")
            require((found[0].kind, found[0].key, found[0].fence) == ("run", "1", 1), f"not {found[0]}")
            rest = _texts_of(await there.deltas({one: found[0].position, two: 0}))
            require(sorted(rest) == [("1", 0, 2, "ning."), ("2", 3, 0, "Hé\n")], f"after a position, not {rest}")
            require(await there.deltas({one: found[1].position}) == [], "nothing follows the last position")
            changed = (await there.changes(cursor, wait_seconds=0)).conversations
            require(changed == (), f"text is not a change of the conversation, as {changed}")
            await here.write_deltas([_create_delta(first, 1, 0, "Next.")])
            found = await there.deltas({one: found[1].position})
            require(_texts_of(found) == [("1", 1, 0, "Next.")], f"the positions of a conversation grow, not {found}")
            require(
                _texts_of(await there.deltas({one: 0})) == [("1", 1, 0, "Next.")], "another response replaces the text"
            )
            await here.write_deltas([_create_delta(first, 2, 1, "Later.")])
            rest = _texts_of(await there.deltas({one: 0}))
            require(rest == [("1", 2, 1, "Later.")], f"a response without its beginning replaces the text, too: {rest}")


async def text_of_a_worker_without_its_job_is_ignored(stores: Stores) -> None:
    """Text of a worker whose lease has expired, or whose job another worker has taken or cancelled, is not stored."""
    async with stores.open() as here, stores.open() as there:
        name = await _create(here, "1")
        with refused(LeaseLostError, "the lease of the first worker has expired"):
            async with here.take_job("run") as first:
                await here.write_deltas([_create_delta(first, 0, 0, "First ")])
                stores.clock.advance(hours=1)
                await here.write_deltas([_create_delta(first, 0, 1, "late")])
                require(
                    _texts_of(await there.deltas({name: 0})) == [("1", 0, 0, "First ")],
                    "an expired lease writes nothing",
                )
                with refused(LeaseLostError, "the job of the second worker is cancelled"):
                    async with there.take_job("run") as second:
                        await there.write_deltas([_create_delta(second, 0, 0, "Second ")])
                        await here.write_deltas([_create_delta(first, 0, 1, "late")])
                        found = _texts_of(await here.deltas({name: 0}))
                        require(found == [("1", 0, 0, "Second ")], f"the text is that of the new worker, not {found}")
                        await here.cancel_job("run", "1")
                        await there.write_deltas([_create_delta(second, 0, 1, "late")])
                        found = _texts_of(await here.deltas({name: 0}))
                        require(found == [("1", 0, 0, "Second ")], f"a cancelled job writes nothing, but {found}")


async def text_is_deleted_when_its_turn_is_stored(stores: Stores) -> None:
    """Text is deleted when a turn is stored, by a redaction, and with its conversation."""
    async with stores.open() as here, stores.open() as there:
        names = [await _create(here, name) for name in ("1", "2")]
        async with here.take_job("run") as one, here.take_job("run") as two:
            await here.write_deltas([_create_delta(one, 0, 0, "Text."), _create_delta(two, 0, 0, "Text.")])
            await here.apply("1", meta={"title": "Parcel"})
            require(len(await there.deltas(dict.fromkeys(names, 0))) == len(names), "a new title deletes no text")
            async with here.open("1") as run:
                await run.claim()
                turn = answer()
                run.messages.append("model", turn)
                await run.write_turn((), "model", turn)
                require(await there.deltas({"1": 0}) == [], "text is deleted when the turn is stored")
                await run.release()
            await there.redact("2", 0, by="dpo", reason="law")
            require(await there.deltas({"2": 0}) == [], "a redaction deletes text")
        await _create(here, "3")
        with refused(LeaseLostError, "the job was deleted with its conversation"):
            async with here.take_job("run") as three:
                await here.write_deltas([_create_delta(three, 0, 0, "Three.")])
                await there.delete("3")
        await _create(here, "3")
        require(await there.deltas({"3": 0}) == [], "a deleted conversation leaves no text")


async def readers_of_text_are_reported(stores: Stores) -> None:
    """`write_deltas()` returns the conversations whose text other stores have read in the last `READER_SECONDS`."""
    async with stores.open() as here, stores.open() as there:
        one, two = await _create(here, "1"), await here.create(Messages.from_user("Hello."), id="2")
        async with here.take_job("run") as taken:
            delta = _create_delta(taken, 0, 0, "Text.")
            found = await here.write_deltas([delta])
            require(found == frozenset(), f"nobody has read a text, but {found} are reported")
            await here.deltas({one: 0})
            found = await here.write_deltas([delta])
            require(found == frozenset(), f"only this store has read a text, but {found} are reported")
            await there.deltas({one: 0, "unknown": 0})
            found = await here.write_deltas([delta])
            require(found == frozenset({one}), f"the text of {one} was read, and {found} are reported")
            stores.clock.advance(seconds=0.8 * READER_SECONDS)
            await there.deltas({two: 0, one: 0})
            stores.clock.advance(seconds=0.8 * READER_SECONDS)
            found = await here.write_deltas([])
            require(found == frozenset({one, two}), f"without deltas, both conversations are reported, not {found}")
            stores.clock.advance(seconds=0.8 * READER_SECONDS)
            found = await here.write_deltas([])
            require(found == frozenset(), f"nobody reads a text any more, but {found} are reported")
            await there.deltas({one: 0, two: 0})
            await there.delete(two)
            found = await here.write_deltas([])
            require(found == frozenset({one}), f"a deleted conversation is not read, but {found} are reported")


SCENARIOS = (
    unfinished_text_is_read_by_other_processes,
    readers_of_text_are_reported,
    text_of_a_worker_without_its_job_is_ignored,
    text_is_deleted_when_its_turn_is_stored,
)
"""The scenarios of text deltas."""
