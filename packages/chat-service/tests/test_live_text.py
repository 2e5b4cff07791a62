"""Open responses of a process."""

from __future__ import annotations

import pytest
from chat_service.live_text import GROUP_CHARACTERS, LiveText, OpenStep
from chat_service.run_events import START, ClientEvent, Place, Writer
from chat_service.signals import Signals
from chat_store import MemoryStore, ResponseDelta

pytestmark = pytest.mark.anyio


async def test_text_is_added_to_the_open_step_and_wakes_followers(store: MemoryStore) -> None:
    signals = Signals(store)
    live, signal = LiveText(signals), signals.session("s")
    live.begin("s.1", OpenStep("s", 0, Writer(1, 1)))
    live.append("s.1", "Good ")
    live.append("s.1", "morning.")
    step = live.step("s.1")
    live.end("s.1")

    assert step is not None
    assert (step.pieces, signal.number, signal.changes) == (["Good ", "morning."], 2, 0)
    assert live.step("s.1") is None


async def test_text_is_taken_once_for_other_processes(store: MemoryStore) -> None:
    live = LiveText(Signals(store))
    live.open("s.1")
    live.begin("s.1", OpenStep("s", 0, Writer(2, 5)))
    live.append("s.1", "Good ")
    live.append("s.1", "morning")
    first = live.take_unwritten({"s"})
    live.append("s.1", ".")
    rest = [live.take_unwritten({"s"}), live.take_unwritten({"s"})]

    job = ("s", "chat_service.run", "s.1@1", 5)
    assert first == [ResponseDelta(*job, 0, 0, ["Good ", "morning"])]
    assert rest == [[ResponseDelta(*job, 0, 2, ["."])], []]


async def test_text_that_no_process_follows_stays_until_one_follows_it(store: MemoryStore) -> None:
    live = LiveText(Signals(store))
    for session in ("s", "t"):
        live.open(f"{session}.1")
        live.begin(f"{session}.1", OpenStep(session, 0, Writer(1, 1)))
        live.append(f"{session}.1", "x" * GROUP_CHARACTERS)
    nothing = live.take_unwritten(())
    unwritten = live.has_unwritten_text.is_set(), live.has_much_text.is_set()
    one = live.take_unwritten({"s"})
    still = live.has_unwritten_text.is_set()
    other = live.take_unwritten({"s", "t"})

    assert (nothing, unwritten) == ([], (True, False))
    assert [(delta.conversation, delta.start, len(delta.pieces)) for delta in (*one, *other)] == [
        ("s", 0, 1),
        ("t", 0, 1),
    ]
    assert (still, live.has_unwritten_text.is_set()) == (True, False)


async def test_text_that_could_not_be_written_is_unwritten_again(store: MemoryStore) -> None:
    live = LiveText(Signals(store))
    live.begin("s.1", OpenStep("s", 0, Writer(1, 1)))
    live.append("s.1", "Good ")
    taken = live.take_unwritten({"s"})
    is_new = live.has_unwritten_text.is_set()
    live.restore_unwritten(taken)

    assert (is_new, live.has_unwritten_text.is_set()) == (False, True)
    assert live.take_unwritten({"s"}) == taken


async def test_much_text_is_written_at_once(store: MemoryStore) -> None:
    live = LiveText(Signals(store))
    live.begin("s.1", OpenStep("s", 0, Writer(1, 1)))
    live.append("s.1", "x" * (GROUP_CHARACTERS - 1))
    before = live.has_unwritten_text.is_set(), live.has_much_text.is_set()
    live.append("s.1", "x")

    assert (before, live.has_much_text.is_set()) == ((True, False), True)


async def test_text_of_other_processes_is_joined_in_order(store: MemoryStore) -> None:
    signals = Signals(store)
    live, signal = LiveText(signals), signals.session("s")
    with live.following("s.1"):
        live.add_written([written(0, "Good "), written(1, "morning."), written(1, "again"), written(9, "gap")])
        step = live.step("s.1")
        known = live.positions()
        live.add_written([written(0, "Newer", fence=2), written(2, " old", fence=1)])
        newer = live.step("s.1")

    assert step is not None
    assert newer is not None
    assert (step.pieces, newer.pieces, newer.writer) == (["Good ", "morning."], ["Newer"], Writer(1, 2))
    assert (known, signal.number) == ({"s": 7}, 3)
    assert (live.step("s.1"), live.positions()) == (None, {})


async def test_text_that_was_written_twice_is_added_once(store: MemoryStore) -> None:
    signals = Signals(store)
    live, signal = LiveText(signals), signals.session("s")
    job = ("s", "chat_service.run", "s.1@0", 1)
    with live.following("s.1"):
        live.add_written([ResponseDelta(*job, 0, 0, ["One ", "two "], position=1)])
        live.add_written([ResponseDelta(*job, 0, 0, ["One ", "two "], position=2)])
        unchanged = signal.number
        live.add_written([ResponseDelta(*job, 0, 1, ["two ", "three "], position=3)])
        live.add_written([ResponseDelta(*job, 0, 3, ["four."], position=4)])
        step = live.step("s.1")

    assert step is not None
    assert step.pieces == ["One ", "two ", "three ", "four."]
    assert (unchanged, signal.number) == (1, 3)


def written(start: int, text: str, fence: int = 1) -> ResponseDelta:
    return ResponseDelta("s", "chat_service.run", "s.1@0", fence, 0, start, [text], position=7)


async def test_only_followed_runs_of_other_processes_are_read(store: MemoryStore) -> None:
    live = LiveText(Signals(store))
    live.open("s.1")
    with live.following("s.1"), live.following("s.1"):
        own = live.positions(), live.needs_store.is_set()
        live.end("s.1")
        other = live.positions(), live.needs_store.is_set()

    assert (own, other) == (({}, False), ({"s": 0}, True))
    assert not live.needs_store.is_set()


def test_followers_at_one_place_share_an_event() -> None:
    start = Place("log", START)
    step = OpenStep("s", 0, Writer(1, 1), ["Good ", "morning."])
    place, event = step.show_after(start)
    again, rest = step.show_after(start), step.show_after(place._replace(pieces=1))
    step.pieces.append(" How are you?")
    later = step.show_after(place)

    assert (event.data, event.id) == ({"content": "Good morning."}, str(place))
    assert again[1] is event
    assert (rest[0], rest[1].data) == (place, {"content": "morning."})
    assert (later[0].pieces, later[1].data) == (3, {"content": " How are you?"})


def test_an_event_is_a_server_sent_event_with_its_id() -> None:
    assert ClientEvent("text", {"content": "a\nb"}, "x-1-0").frame == (
        b'id: x-1-0\nevent: text\ndata: {"content": "a\\nb"}\n\n'
    )
    assert ClientEvent("reset", {}).frame == b"event: reset\ndata: {}\n\n"


async def test_text_of_a_stored_turn_is_not_written_any_more(store: MemoryStore) -> None:
    live = LiveText(Signals(store))
    live.settle("s.1")
    live.begin("s.1", OpenStep("s", 0, Writer(1, 1)))
    live.append("s.1", "Good ")
    live.settle("s.1")

    assert live.take_unwritten({"s"}) == []
    assert not live.has_unwritten_text.is_set()
