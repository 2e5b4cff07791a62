"""The events of the engine, recreated from stored turns and open text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import pytest
from chat_core import (
    AttemptReset,
    ChatResponse,
    Done,
    Messages,
    Paused,
    Reasoning,
    ReasoningDelta,
    StepFinished,
    TextDelta,
    ToolCall,
    ToolResult,
)
from chat_core.approvals import Principal
from chat_core.messages import FunctionCall, Text, Tool, Turn
from chat_service import ServiceSettings
from chat_service.engine_events import EngineEvents
from chat_service.live_text import OpenStep
from chat_service.run_events import Writer
from chat_service.run_records import Run, RunEnd
from chat_service.runs import MessageRequest, Runs
from chat_store import HistoryEntry, MemoryStore, Snapshot
from chat_streams import RunFailedError
from service_helpers import UNKNOWN_ID, build_context

pytestmark = pytest.mark.anyio


class World:
    """A run without a worker: the test stores its turns and writes its text."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.context = build_context(store, ServiceSettings(poll_seconds=0.05, ping_seconds=1))
        self.runs = Runs(self.context)
        self.events = EngineEvents(self.context, self.runs)

    async def start(self) -> tuple[Run, Snapshot]:
        run = await self.runs.start(MessageRequest(Principal("ana"), None, "Pay.", "hash"))
        return run, await self.store.load(run.session_id)

    def write(self, run: Run, text: str, *, step: int = 0, fence: int = 1) -> None:
        """Write open text, as the worker of a run does."""
        open_step = self.context.live.step(run.id)
        if open_step is None or open_step.writer.fence != fence or open_step.step != step:
            self.context.live.begin(run.id, OpenStep(run.session_id, step, Writer(1, fence)))
        self.context.live.append(run.id, text)

    async def add_turn(self, run: Run, *parts: Text | Tool | Reasoning) -> None:
        snapshot = await self.store.load(run.session_id)
        snapshot.messages.append("model", Turn([*parts]))
        await self.store.save(run.session_id, snapshot.messages, revision=snapshot.revision)
        self.context.signals.session(run.session_id).notify_change()

    async def end(self, run: Run, end: RunEnd) -> None:
        await self.runs.end(run, end)
        self.context.signals.session(run.session_id).notify_change()


async def rest(events: AsyncIterator[object]) -> list[object]:
    return [event async for event in events]


def text(events: list[object]) -> str:
    return "".join([event.text for event in events if isinstance(event, TextDelta)])


async def test_a_stored_answer_becomes_the_events_of_a_run(store: MemoryStore) -> None:
    world = World(store)
    run, view = await world.start()
    await world.add_turn(run, Reasoning("Why not."), Text("Done."))
    await world.end(run, RunEnd("answered", 9, input_tokens=3, output_tokens=2))
    events = await rest(world.events.follow(run, view))

    assert [type(event) for event in events] == [ReasoningDelta, TextDelta, StepFinished, Done]
    usage = cast("Done[ChatResponse]", events[-1]).response.usage
    assert (usage.input_tokens, usage.output_tokens) == (3, 2)
    assert len(view.messages.contents) == 2


async def test_open_text_and_the_stored_turn_are_sent_once(store: MemoryStore) -> None:
    world = World(store)
    run, view = await world.start()
    world.context.live.open(run.id)
    world.write(run, "I will ")
    async with aclosing(world.events.follow(run, view)) as events:
        first = await anext(events)
        assert len(view.messages.contents) == 1
        world.write(run, "pa")
        second = await anext(events)
        await world.add_turn(run, Text("I will pay."))
        await world.end(run, RunEnd("answered", 9))
        later = await rest(events)

    assert [first, second] == [TextDelta("I will "), TextDelta("pa")]
    assert text(later) == "y."
    assert not any(isinstance(event, AttemptReset) for event in later)


async def test_the_text_of_a_dead_worker_is_reset(store: MemoryStore) -> None:
    world = World(store)
    run, view = await world.start()
    world.context.live.open(run.id)
    world.write(run, "I would")
    async with aclosing(world.events.follow(run, view)) as events:
        received = [await anext(events)]
        world.write(run, "I will", fence=2)
        received += [await anext(events), await anext(events)]
        world.write(run, "old", fence=1)
        await world.add_turn(run, Text("No."))
        await world.end(run, RunEnd("answered", 9))
        received += await rest(events)

    kinds = [type(event) for event in received]
    assert kinds == [TextDelta, AttemptReset, TextDelta, AttemptReset, TextDelta, StepFinished, Done]
    assert [event.text for event in received if isinstance(event, TextDelta)] == ["I would", "I will", "No."]


async def test_calls_and_their_results_are_sent_in_order(store: MemoryStore) -> None:
    world = World(store)
    run, view = await world.start()
    await world.add_turn(run, Text("I will pay."), Tool(FunctionCall("pay", {"to": "Bo", "cents": 5}, id="c-1")))
    await world.end(run, RunEnd("paused", 9))
    paused = await rest(world.events.follow(run, view))
    snapshot = await store.load(run.session_id)
    (call,) = snapshot.messages.pending()
    call.reject("no", by="ana")
    await store.apply(run.session_id, snapshot.revision, tools=[call])
    await world.runs.resume(await world.runs.of_session(run.session_id))
    await world.add_turn(run, Text("It was refused."))
    resumed = await world.runs.find(run.id)
    assert resumed is not None
    await world.end(resumed, RunEnd("answered", 99))
    later = await rest(world.events.follow(resumed, view))

    assert [type(event) for event in paused] == [TextDelta, ToolCall, StepFinished, Paused]
    assert [type(event) for event in later] == [ToolResult, TextDelta, StepFinished, Done]
    assert isinstance(paused[-1], Paused)


async def test_a_client_that_has_everything_receives_the_answer_again(store: MemoryStore) -> None:
    world = World(store)
    run, _ = await world.start()
    await world.add_turn(run, Text("Done."))
    await world.end(run, RunEnd("answered", 9))
    events = await rest(world.events.follow(run, await store.load(run.session_id)))

    assert [type(event) for event in events] == [TextDelta, Done]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(RunEnd("failed", 9, "llm_error"), "llm_error", id="a-failed-model"),
        pytest.param(RunEnd("failed", 9, "timeout"), "timeout", id="a-timeout"),
        pytest.param(RunEnd("failed", 9, "unheard of"), "internal", id="another-failure"),
        pytest.param(RunEnd("cancelled", 9), "cancelled", id="cancelled"),
    ],
)
async def test_a_failed_run_raises_its_code(store: MemoryStore, end: RunEnd, code: str) -> None:
    world = World(store)
    run, view = await world.start()
    await world.end(run, end)

    with pytest.raises(RunFailedError) as failed:
        await rest(world.events.follow(run, view))
    assert failed.value.code == code


async def test_a_deleted_session_ends_the_stream(store: MemoryStore) -> None:
    world = World(store)
    run, view = await world.start()
    await store.delete(run.session_id)

    with pytest.raises(RunFailedError, match="cancelled"):
        await rest(world.events.follow(run, view))


async def test_the_turns_of_a_later_run_are_not_sent(store: MemoryStore) -> None:
    world = World(store)
    run, view = await world.start()
    await world.add_turn(run, Text("Done."))
    await world.end(run, RunEnd("answered", 9))
    await world.runs.start(MessageRequest(Principal("ana"), run.session_id, "And now?", "hash"))
    events = await rest(world.events.follow(run, view))

    assert text(events) == "Done."
    assert isinstance(view.messages, Messages)
    assert len(view.messages.contents) == 2


@pytest.mark.parametrize("turns", [pytest.param(4, id="short"), pytest.param(400, id="long")])
async def test_the_work_for_an_event_does_not_depend_on_the_length_of_the_session(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    world = World(store)
    messages = Messages()
    for number in range(turns):
        messages.append("user" if number % 2 == 0 else "model", Turn([Text(f"{number}")]))
    session_id = await store.create(messages, id=UNKNOWN_ID, owner="ana")
    run = await world.runs.start(MessageRequest(Principal("ana"), session_id, "Pay.", "hash"))
    view = await store.load(session_id)
    loads, loads_of_test, entries = 0, 0, 0
    load, history = store.load, store.history

    async def count_loads(id: str) -> Snapshot:
        nonlocal loads
        loads += 1
        return await load(id)

    async def count_entries(id: str, **fields: Any) -> list[HistoryEntry]:
        nonlocal entries
        found = await history(id, **fields)
        entries += sum([1 + len(entry.turns) for entry in found])
        return found

    monkeypatch.setattr(store, "load", count_loads)
    monkeypatch.setattr(store, "history", count_entries)
    received: list[object] = []
    async with aclosing(world.events.follow(run, view)) as events:
        for number in range(5):
            before = loads
            await world.add_turn(run, Text(f"{number}"))
            loads_of_test += loads - before
            received += [await anext(events) for _ in range(2)]
        await world.end(run, RunEnd("answered", 99))
        received += await rest(events)

    assert text(received) == "01234"
    assert loads == loads_of_test, "only the test has loaded the session"
    assert entries == 12, "the reader and the follower read the message and each answer once"
