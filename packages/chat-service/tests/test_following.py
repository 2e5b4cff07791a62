"""Following a run: from any event, by several clients, in another process, and after another worker took it over."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from chat_agents import AgentSession
from chat_core.approvals import Principal
from chat_core.testing import Answer, ScriptedProvider
from chat_service import ServiceSettings
from chat_service.following import Follower, failure_text
from chat_service.live_text import OpenStep
from chat_service.run_events import Writer
from chat_service.run_records import Run, RunEnd
from chat_service.runs import MessageRequest, Runs
from chat_service.signals import Signals
from chat_store import MemoryStore
from service_helpers import (
    CALL,
    WAIT,
    Event,
    SteppedModel,
    approve,
    build_context,
    build_service,
    names,
    scripted,
    serving,
    text_of,
)

pytestmark = pytest.mark.anyio


async def test_a_client_can_continue_after_each_event(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        await client.post(f"/api/v1/sessions/{paused['session_id']}/decisions", approve(paused["waiting"]))
        path = f"/api/v1/runs/{paused['run_id']}/events"
        live = await client.events("GET", path)
        whole = await client.events("GET", path)  # all of it from the journal
        rests = [await client.events("GET", path, headers={"last-event-id": event.id or ""}) for event in whole[1:-1]]

    assert names(whole) == ["session", "text", "tool_start", "tool_output", "tool_end", "text", "done"]
    assert rests == [whole[number:] for number in range(2, len(whole))]
    assert (text_of(live), text_of(whole)) == ("I will pay. It is paid.", "I will pay. It is paid.")
    assert [event for event in live if event.name != "text"] == [event for event in whole if event.name != "text"]


async def test_a_client_that_returns_during_a_response_receives_the_rest(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please, I am thinking."), 3)
    async with serving(build_service(store, model)) as client:
        async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events:
            first = [await anext(events)]
            while text_of(first) != "One moment please, ":
                first.append(await anext(events))
        path, after_one_word = f"/api/v1/runs/{first[0].data['run_id']}/events", f"{(first[-1].id or '')[:-1]}1"
        async with client.stream("GET", path, headers={"last-event-id": after_one_word}) as events:
            rest = [await anext(events)]
            model.go_on.set()
            rest += [event async for event in events]

    assert first[-1].id != after_one_word
    assert rest[0].data["content"] == "moment please, "
    assert text_of(rest) == "moment please, I am thinking."
    assert [event.name for event in rest if event.name != "text"] == ["done"]


async def test_an_unknown_place_in_a_response_causes_a_reset(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("One moment please."))) as client:
        run_id = (await client.post("/api/v1/chat", {"message": "Hello."})).json["run_id"]
        path = f"/api/v1/runs/{run_id}/events"
        log = ((await client.events("GET", path))[-1].id or "").partition("-")[0]
        rest = await client.events("GET", path, headers={"last-event-id": f"{log}-0-0.1.7.2"})

    assert names(rest) == ["reset", "text", "done"]
    assert text_of([Event("text", {"content": "One mo"}), *rest]) == "One moment please."


async def test_a_place_in_a_cancelled_response_causes_a_reset_after_a_retry(store: MemoryStore) -> None:
    model = SteppedModel(ScriptedProvider("Lyon has many bridges.", "Paris has the Louvre."), 1)
    settings = ServiceSettings(poll_seconds=0.2, retry_seconds=0.2)
    async with serving(build_service(store, model, settings=settings)) as client:
        async with client.stream("POST", "/api/v1/chat/stream", {"message": "Where?"}) as events:
            first = [await anext(events), await anext(events)]
            path = f"/api/v1/runs/{first[0].data['run_id']}"
            await client.post(f"{path}/cancel")
            first += [event async for event in events]
        model.reached = anyio.Event()
        await client.post(f"{path}/retry")
        await model.reached.wait()
        async with client.stream("GET", f"{path}/events", headers={"last-event-id": first[1].id or ""}) as events:
            rest = [await anext(events)]
            model.go_on.set()
            rest += [event async for event in events]

    assert (text_of(first), names(rest)[0], names(rest)[-1]) == ("Lyon ", "reset", "done")
    assert text_of([*first[:2], *rest]) == "Paris has the Louvre."


async def test_all_followers_of_a_run_receive_the_same_text(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please, I am thinking."), 2)
    async with (
        serving(build_service(store, model)) as client,
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as one,
    ):
        start = await anext(one)
        path = f"/api/v1/runs/{start.data['run_id']}/events"
        async with client.stream("GET", path) as two:
            await model.reached.wait()
            model.go_on.set()
            found = [[event async for event in events] for events in (one, two)]

    assert [text_of(events) for events in found] == ["One moment please, I am thinking."] * 2
    assert found[0][-1] == found[1][-1]


async def test_a_run_can_be_followed_and_cancelled_in_another_process(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    idle = ServiceSettings(workers=0, poll_seconds=0.2)
    async with (
        serving(build_service(store, model)) as client,
        serving(build_service(MemoryStore(beside=store), scripted(), settings=idle)) as other,
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events,
    ):
        run_id = (await anext(events)).data["run_id"]
        await model.reached.wait()
        async with other.stream("GET", f"/api/v1/runs/{run_id}/events") as elsewhere:
            assert (await anext(elsewhere)).name == "session"
            cancelled = await other.post(f"/api/v1/runs/{run_id}/cancel")
            ends = [[event async for event in stream][-1] for stream in (events, elsewhere)]

    assert cancelled.json["state"] == "cancelled"
    assert ends[0] == ends[1]
    assert (ends[0].name, ends[0].data["code"], model.open_streams) == ("error", "cancelled", 0)


async def test_a_run_in_another_process_is_shown_step_by_step(store: MemoryStore) -> None:
    idle = ServiceSettings(workers=0, poll_seconds=0.2)
    async with (
        serving(build_service(store, scripted())) as client,
        serving(build_service(MemoryStore(beside=store), scripted(), settings=idle)) as other,
    ):
        events = await other.events("POST", "/api/v1/chat/stream", {"message": "Pay Bo."})
        session_id, run_id = events[0].data["session_id"], events[0].data["run_id"]
        await other.post(f"/api/v1/sessions/{session_id}/decisions", approve(events[-1].data["waiting"]))
        rest = await other.events(
            "GET", f"/api/v1/runs/{run_id}/events", headers={"last-event-id": events[-1].id or ""}
        )
        again = await client.events("GET", f"/api/v1/runs/{run_id}/events")

    assert names(events) == ["session", "text", "tool_start", "paused"]
    assert names(rest) == ["tool_output", "tool_end", "text", "done"]
    assert [event for event in again if event.name != "session"] == [*events[1:-1], *rest]


async def test_texts_of_failures_contain_no_details() -> None:
    assert failure_text("timeout") == "The run took too long."
    assert failure_text("llm_error") == failure_text("a new code")


async def test_events_of_a_run_end_at_the_next_message(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("First.", "Second."))) as client:
        one = (await client.post("/api/v1/chat", {"message": "Hello."})).json
        body = {"message": "More.", "session_id": one["session_id"]}
        two = (await client.post("/api/v1/chat", body)).json
        texts = [text_of(await client.events("GET", f"/api/v1/runs/{run['run_id']}/events")) for run in (one, two)]

    assert texts == ["First.", "Second."]


async def test_a_follower_ends_if_a_response_is_stored_while_its_run_is_cancelled(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SteppedModel(scripted(), 1)
    shown, cancelled, end = anyio.Event(), anyio.Event(), Runs.end

    async def late(runs: Runs, run: Run, outcome: RunEnd) -> None:
        if outcome.state == "cancelled":
            model.go_on.set()  # the response is stored after the position of the end was read
            await shown.wait()
            await end(runs, run, outcome)
            cancelled.set()
        else:
            await cancelled.wait()
            await end(runs, run, outcome)

    monkeypatch.setattr(Runs, "end", late)
    rest: list[Event] = []
    async with (
        serving(build_service(store, model)) as client,
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events,
        anyio.create_task_group() as group,
    ):
        run_id = (await anext(events)).data["run_id"]
        await model.reached.wait()
        group.start_soon(client.post, f"/api/v1/runs/{run_id}/cancel")
        async for event in events:
            rest.append(event)
            if event.name == "tool_start":
                shown.set()

    assert (text_of(rest), names(rest)[-2:]) == ("I will pay. ", ["tool_start", "error"])


async def test_a_client_that_has_the_end_of_a_run_receives_it_again(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        events = await client.events("POST", "/api/v1/chat/stream", {"message": "Hello."})
        path = f"/api/v1/runs/{events[0].data['run_id']}/events"
        rest = await client.events("GET", path, headers={"last-event-id": events[-1].id or ""})

    assert rest == events[-1:]


async def test_a_slow_reader_receives_the_whole_response(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings())
    runs = Runs(context)
    run = await runs.start(MessageRequest(Principal("ana"), None, "Hello.", ""))
    context.live.begin(run.id, OpenStep(run.session_id, 0, Writer(1, 1)))
    context.live.append(run.id, "One moment please.")
    found: list[str] = []
    with anyio.fail_after(WAIT):
        async for event in Follower(context, runs).follow(Principal("ana"), run):
            found.append(event.name)
            if event.name == "text":
                async with anyio.create_task_group() as group:  # the reader waits
                    group.start_soon(anyio.lowlevel.checkpoint)
                await runs.end(run, RunEnd("answered", 1))
                context.signals.session(run.session_id).notify_change()

    assert found == ["session", "text", "done"]


async def test_text_of_a_response_is_sent_after_the_end_of_the_calls_before_it(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings(ping_seconds=WAIT))
    runs, ana = Runs(context), Principal("ana")
    run = await runs.start(MessageRequest(ana, None, "Pay Bo.", ""))
    signal = context.signals.session(run.session_id)
    found: list[Event] = []

    async def execute() -> None:
        session = await AgentSession.open(store, run.session_id, flow=context.flow.name)
        async with context.engine.run(context.flow, session) as events:
            async for _ in events:
                pass

    async def follow() -> None:
        async for event in Follower(context, runs).follow(ana, run):
            found.append(Event(event.name, event.data))

    await execute()  # up to the approval of the call
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            context.live.begin(run.id, OpenStep(run.session_id, 1, Writer(1, 1)))  # read before the end of the call
            context.live.append(run.id, "It is ")
            await anyio.wait_all_tasks_blocked()
            async with store.open(run.session_id) as conversation:
                conversation.messages.pending()[0].approve(by="ana")
            await execute()
            await runs.end(run, RunEnd("answered", 100))
            signal.notify_change()

    assert names(found) == ["session", "text", "tool_start", "tool_output", "tool_end", "text", "done"]
    assert text_of(found) == "I will pay. It is paid."


async def test_calls_of_a_truncated_response_end(store: MemoryStore) -> None:
    truncated = Answer(["I will pay. ", CALL], finish_reason="length")
    async with serving(build_service(store, scripted(truncated, "Sorry."))) as client:
        events = await client.events("POST", "/api/v1/chat/stream", {"message": "Pay Bo."})

    assert names(events) == ["session", "text", "tool_start", "tool_output", "tool_end", "text", "done"]


async def test_a_deleted_session_ends_the_streams_of_its_runs(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Signals.refresh, "__defaults__", (0.2,))  # a store does not report deleted sessions
    idle = ServiceSettings(workers=0, poll_seconds=0.2)
    async with (
        serving(build_service(store, scripted(), settings=idle)) as client,
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events,
    ):
        session_id = (await anext(events)).data["session_id"]
        await store.delete(session_id)
        rest = [event async for event in events]

    assert [(event.name, event.data["code"]) for event in rest] == [("error", "cancelled")]


async def test_text_of_a_run_in_another_process_is_streamed_while_the_model_writes_it(store: MemoryStore) -> None:
    model, idle = SteppedModel(scripted("One moment please, I am thinking."), 3), ServiceSettings(workers=0)
    async with (
        serving(build_service(store, model)) as client,
        serving(build_service(MemoryStore(beside=store), scripted(), settings=idle)) as other,
    ):
        async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events:
            first = [await anext(events)]
            while text_of(first) != "One moment please, ":
                first.append(await anext(events))
        path, last = f"/api/v1/runs/{first[0].data['run_id']}/events", first[-1].id or ""
        async with other.stream("GET", path) as events:
            found = [await anext(events)]
            while text_of(found) != "One moment please, ":
                found.append(await anext(events))
            async with other.stream("GET", path, headers={"last-event-id": last}) as moved:
                model.go_on.set()
                rest = [event async for event in moved]
            found += [event async for event in events]

    assert (found[-1].name, text_of(found)) == ("done", "One moment please, I am thinking.")
    assert (names(rest)[0], text_of(rest)) == ("text", "I am thinking.")
    assert [event for event in found if event.name == "reset"] == []


# --- Redactions -------------------------------------------------------------------------------------------------------


async def test_a_stream_begins_again_after_a_redaction(store: MemoryStore) -> None:
    model = scripted("Good morning.", ["I will ", "pay. ", CALL], "It is paid.")
    async with serving(build_service(store, model)) as client:
        session_id = (await client.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        body = {"message": "Pay Bo.", "session_id": session_id}
        paused = await client.events("POST", "/api/v1/chat/stream", body)
        run_id = paused[0].data["run_id"]
        await store.redact(session_id, 0, by="ops", reason="law")
        path = f"/api/v1/runs/{run_id}/events"
        again = await client.events("GET", path, headers={"last-event-id": paused[-1].id or ""})
        await client.post(f"/api/v1/sessions/{session_id}/decisions", approve(again[-1].data["waiting"]))
        await client.events("GET", path)  # until the run has ended
        rest = await client.events("GET", path, headers={"last-event-id": again[-1].id or ""})

    assert names(again) == ["session", "text", "tool_start", "paused"]
    assert [event.data for event in again] == [event.data for event in [*paused[:1], *joined(paused[1:])]]
    assert [name for name in names(rest) if name != "text"] == ["tool_output", "tool_end", "done"]
    assert text_of([*again, *rest]) == "I will pay. It is paid."


def joined(events: list[Event]) -> list[Event]:
    """Return the events with the pieces of the first text as one event."""
    texts = [event for event in events if event.name == "text"]
    return [Event("text", {"content": text_of(texts)}), *[event for event in events if event.name != "text"]]


async def test_the_results_of_earlier_runs_are_kept_after_a_redaction(store: MemoryStore) -> None:
    body, model = {"message": "Pay Bo."}, scripted(["I will pay. ", CALL], "It is paid.", "Yes.")
    async with serving(build_service(store, model)) as client:
        paused = (await client.post("/api/v1/chat", body, idempotency_key="k1")).json
        session_id = paused["session_id"]
        await client.post(f"/api/v1/sessions/{session_id}/decisions", approve(paused["waiting"]))
        await client.events("GET", f"/api/v1/runs/{paused['run_id']}/events")
        second = {"message": "And now?", "session_id": session_id}
        before = [await client.post("/api/v1/chat", body, idempotency_key="k1")]
        before.append(await client.post("/api/v1/chat", second, idempotency_key="k2"))
        await store.redact(session_id, 0, by="ops", reason="law")
        after = [await client.post("/api/v1/chat", body, idempotency_key="k1")]
        after.append(await client.post("/api/v1/chat", second, idempotency_key="k2"))

    assert [reply.json for reply in after] == [reply.json for reply in before]
    assert before[0].json["tool_calls"] == [{"id": "call_1", "name": "pay", "success": True}]


async def test_events_of_an_earlier_history_do_not_hide_new_ones(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("First.", "Second."))) as client:
        one = (await client.events("POST", "/api/v1/chat/stream", {"message": "Hello."}))[0].data
        await store.redact(one["session_id"], 0, by="ops", reason="law")
        body = {"message": "More.", "session_id": one["session_id"]}
        late = {"last-event-id": "0-99-0"}
        two = (await client.events("POST", "/api/v1/chat/stream", body))[0].data
        events = [
            await client.events("GET", f"/api/v1/runs/{run['run_id']}/events", headers=late) for run in (one, two)
        ]

    assert [(names(found), text_of(found)) for found in events] == [
        (["session", "text", "done"], "First."),
        (["session", "text", "done"], "Second."),
    ]
