"""Messages, idempotency keys, runs and decisions over HTTP."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from chat_core import NetworkError
from chat_core.approvals import Principal, only_role
from chat_service import ServiceSettings
from chat_service.run_records import RUN_JOB, run_of_part, session_of
from chat_service.runs import MessageRequest, Runs
from chat_store import MemoryStore
from service_helpers import (
    ANA,
    BO,
    CALL,
    UNKNOWN_ID,
    Bank,
    Client,
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


async def test_a_response_contains_the_calls_and_the_usage_of_its_run(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        await client.post(f"/api/v1/sessions/{paused['session_id']}/decisions", approve(paused["waiting"]))
        await client.events("GET", f"/api/v1/runs/{paused['run_id']}/events")
        again = await client.post(f"/api/v1/runs/{paused['run_id']}/cancel")
        session = (await client.get(f"/api/v1/sessions/{paused['session_id']}")).json

    assert again.json["state"] == "answered"
    assert session["turns"][0]["assistant_response"] == "It is paid."
    assert session["turns"][0]["tool_call_count"] == 1


async def test_a_plain_answer_has_the_documented_fields(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        reply = await client.post("/api/v1/chat", {"message": "Hello."})

    session_id = reply.json["session_id"]
    assert reply.status == 200
    assert reply.json == {
        "session_id": session_id,
        "run_id": f"{session_id}.1",
        "response": "Good morning.",
        "tool_calls": [],
        "truncated": False,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


async def test_the_stream_has_the_documented_events_in_order(store: MemoryStore) -> None:
    bank = Bank()
    async with serving(build_service(store, scripted(), bank=bank)) as client:
        first = await client.events("POST", "/api/v1/chat/stream", {"message": "Pay Bo."})
        session_id = first[0].data["session_id"]
        await client.post(f"/api/v1/sessions/{session_id}/decisions", approve(first[-1].data["waiting"]))
        last = await client.events(
            "GET", f"/api/v1/runs/{first[0].data['run_id']}/events", headers={"last-event-id": first[-1].id or ""}
        )

    assert [name for name in names(first) if name != "text"] == ["session", "tool_start", "paused"]
    assert text_of(first) == "I will pay. "
    assert first[-2].data == {"id": "call_1", "name": "pay"}
    assert [name for name in names(last) if name != "text"] == ["tool_output", "tool_end", "done"]
    assert last[1].data == {"id": "call_1", "success": True, "content": "paid 500 cents to Bo"}
    assert last[-1].data == {
        "iterations": 2,
        "truncated": False,
        "usage": {"input_tokens": 20, "output_tokens": 10},
    }


async def test_the_next_message_sees_a_streamed_answer(store: MemoryStore) -> None:
    model = scripted("My name is Clerk.", "I said Clerk.")
    async with serving(build_service(store, model)) as client:
        events = await client.events("POST", "/api/v1/chat/stream", {"message": "Who are you?"})
        session_id = events[0].data["session_id"]
        reply = await client.post("/api/v1/chat", {"message": "What did you say?", "session_id": session_id})

    assert reply.json["response"] == "I said Clerk."
    assert len(model.asked) == 2
    assert [content.text for content in model.asked[1].messages][:2] == ["Who are you?", "My name is Clerk."]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"message": "é" * 51_200}, 200),
        ({"message": "é" * 51_200 + "a"}, 400),
        ({"message": " \n"}, 400),
        ({"message": 5}, 400),
        ({}, 400),
        ([], 400),
        (b"{", 400),
        (b'{"message": NaN}', 400),
        (b"\xff", 400),
        ({"message": "Hello.", "session_id": "17"}, 400),
        ({"message": "Hello.", "session_id": 17}, 400),
        ({"message": "Hello.", "session_id": UNKNOWN_ID}, 404),
        ({"message": "Hello.", "when_busy": "sometimes"}, 400),
        ({"message": "Hello.", "when_busy": []}, 400),
        ({"message": "\ud800"}, 400),
        ({"message": "Hello.", "unknown": 1}, 200),
    ],
)
async def test_a_message_is_validated(store: MemoryStore, body: object, status: int) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        for path in ("/api/v1/chat", "/api/v1/chat/stream"):
            reply = await client.post(path, body)
            assert reply.status == status
            assert status == 200 or reply.json["code"] in {"bad_request", "not_found"}


async def test_a_body_over_the_limit_is_refused(store: MemoryStore) -> None:
    settings = ServiceSettings(max_body_bytes=100, poll_seconds=0.2)
    async with serving(build_service(store, scripted("Good morning."), settings=settings)) as client:
        body = b'{"message": "Hello."' + b" " * 79 + b"}"
        assert (await client.post("/api/v1/chat", body)).status == 200
        reply = await client.post("/api/v1/chat", body + b" ")

    assert (reply.status, reply.json["code"]) == (413, "payload_too_large")


async def test_a_body_that_is_not_declared_as_json_is_refused(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        reply = await client.post("/api/v1/chat", {"message": "Hello."}, content_type="text/plain")

    assert (reply.status, reply.json["code"]) == (415, "unsupported_media_type")


async def test_twenty_requests_on_a_session_wait_for_each_other(store: MemoryStore) -> None:
    model = scripted(*[f"Answer {number}." for number in range(21)])
    async with serving(build_service(store, model)) as client:
        session_id = (await client.post("/api/v1/chat", {"message": "Begin."})).json["session_id"]
        answers: dict[int, str] = {}

        async def ask(number: int) -> None:
            reply = await client.post("/api/v1/chat", {"message": f"Message {number}.", "session_id": session_id})
            answers[number] = reply.json["response"]

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(ask, number)
        turns = (await client.get(f"/api/v1/sessions/{session_id}")).json["turns"]

    assert sorted(turn["user_message"] for turn in turns[1:]) == sorted(f"Message {n}." for n in range(20))
    assert {turn["user_message"]: turn["assistant_response"] for turn in turns[1:]} == {
        f"Message {number}.": answer for number, answer in answers.items()
    }


async def test_a_request_that_does_not_wait_is_refused_during_a_run(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    async with (
        serving(build_service(store, model)) as client,
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events,
    ):
        session_id = (await anext(events)).data["session_id"]
        body = {"message": "Again.", "session_id": session_id, "when_busy": "refuse"}
        reply = await client.post("/api/v1/chat", body)
        model.go_on.set()

    assert (reply.status, reply.json["code"]) == (409, "conflict")


async def test_a_request_that_does_not_wait_is_refused_while_a_run_is_queued(store: MemoryStore) -> None:
    settings = ServiceSettings(workers=0)
    async with (
        serving(build_service(store, scripted(), settings=settings)) as client,
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events,
    ):
        start = await anext(events)
        body = {"message": "Again.", "session_id": start.data["session_id"], "when_busy": "refuse"}
        reply = await client.post("/api/v1/chat", body)
        run = await client.get(f"/api/v1/runs/{start.data['run_id']}")
        await client.post(f"/api/v1/runs/{start.data['run_id']}/cancel")

    assert (reply.status, reply.json["code"], run.json["state"]) == (409, "conflict", "queued")


async def test_a_message_while_calls_wait_is_refused(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        reply = await client.post("/api/v1/chat", {"message": "Hello?", "session_id": paused["session_id"]})

    assert (reply.status, reply.json["code"]) == (409, "conflict")


async def test_a_run_continues_after_its_client_has_disconnected(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    async with serving(build_service(store, model)) as client:
        async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events:
            run_id = (await anext(events)).data["run_id"]
            await anext(events)
        model.go_on.set()
        rest = await client.events("GET", f"/api/v1/runs/{run_id}/events")

    assert (text_of(rest), rest[-1].name) == ("One moment please.", "done")


async def test_a_failure_of_the_model_is_a_503_and_keeps_the_message_once(store: MemoryStore) -> None:
    model = scripted(*[NetworkError("the key sk-1234 was refused")] * 9)
    async with serving(build_service(store, model, settings=ServiceSettings())) as client:
        with anyio.fail_after(60):
            reply = await client.post("/api/v1/chat", {"message": "Hello."}, idempotency_key="k")
            again = await client.post("/api/v1/chat", {"message": "Hello."}, idempotency_key="k")
        sessions = (await client.get("/api/v1/sessions")).json["sessions"]
        session = (await client.get(f"/api/v1/sessions/{sessions[0]['id']}")).json

    assert (reply.status, reply.json["code"], again.status) == (503, "service_unavailable", 503)
    assert b"sk-1234" not in reply.body
    assert [turn["user_message"] for turn in session["turns"]] == ["Hello."]


# --- Idempotency keys -----------------------------------------------------------------------------------------------


async def test_a_repeated_request_follows_the_first_run(store: MemoryStore) -> None:
    model = scripted("Good morning.", "Never.")
    async with serving(build_service(store, model)) as client:
        replies = [await client.post("/api/v1/chat", {"message": "Hello."}, idempotency_key="k1") for _ in range(2)]
        body = {"message": "And now?", "session_id": replies[0].json["session_id"]}
        more = [await client.post("/api/v1/chat", body, idempotency_key="k1") for _ in range(2)]

    assert replies[0].json == replies[1].json
    assert more[0].json == more[1].json
    assert more[0].json["run_id"] != replies[0].json["run_id"]
    assert len(model.asked) == 2


async def test_two_equal_requests_at_the_same_time_have_one_run(store: MemoryStore) -> None:
    model = scripted("Good morning.", "Never.")
    found: list[str] = []
    async with serving(build_service(store, model)) as client:

        async def ask() -> None:
            reply = await client.post("/api/v1/chat", {"message": "Hello."}, idempotency_key="k1")
            found.append(reply.json["run_id"])

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask)

    assert len(set(found)) == 1
    assert len(model.asked) == 1


async def test_a_key_with_another_body_is_refused(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        first = await client.post("/api/v1/chat", {"message": "Hello."}, idempotency_key="k1")
        other = await client.post("/api/v1/chat", {"message": "Hello!"}, idempotency_key="k1")
        empty = await client.post("/api/v1/chat", {"message": "Hello!"}, idempotency_key="k" * 256)

    assert (first.status, other.status, other.json["code"]) == (200, 422, "unprocessable")
    assert empty.status == 400


async def test_a_key_belongs_to_its_user_and_its_route(store: MemoryStore) -> None:
    model = scripted("Good morning.")
    async with serving(build_service(store, model)) as client:
        body = {"message": "Hello."}
        one = (await client.post("/api/v1/chat", body, idempotency_key="k1")).json["session_id"]
        two = (await client.as_user(BO).post("/api/v1/chat", body, idempotency_key="k1")).json["session_id"]
        events = await client.events("POST", "/api/v1/chat/stream", body, headers={"idempotency-key": "k1"})

    assert len({one, two, events[0].data["session_id"]}) == 3


async def test_a_key_can_be_used_again_after_its_time(store: MemoryStore) -> None:
    settings = ServiceSettings(idempotency_seconds=0.0, poll_seconds=0.2)
    async with serving(build_service(store, scripted("Good morning."), settings=settings)) as client:
        one, two, three = [
            (await client.post("/api/v1/chat", {"message": text}, idempotency_key="k1")).json["session_id"]
            for text in ("Hello.", "Hello!", "Hello?")
        ]

    assert len({one, two, three}) == 3


# --- Runs -----------------------------------------------------------------------------------------------------------


async def test_a_cancelled_run_closes_the_connection_to_the_model(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please.", "Here I am."), 1)
    async with serving(build_service(store, model)) as client:
        async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events:
            run_id = (await anext(events)).data["run_id"]
            await model.reached.wait()
            cancelled = await client.post(f"/api/v1/runs/{run_id}/cancel")
            rest = [event async for event in events]
        again = await client.post(f"/api/v1/runs/{run_id}/cancel")
        body = {"message": "Are you there?", "session_id": session_of(run_id)}
        model.go_on.set()
        after = await client.post("/api/v1/chat", body)

    assert (cancelled.json["state"], again.json["state"]) == ("cancelled", "cancelled")
    assert rest[-1].data == {"code": "cancelled", "message": "The run was cancelled."}
    assert (after.status, after.json["response"]) == (200, "One moment please.")
    assert model.open_streams == 0


async def test_a_cancelled_run_can_be_retried(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    async with serving(build_service(store, model)) as client:
        async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events:
            run_id = (await anext(events)).data["run_id"]
            await model.reached.wait()
            await client.post(f"/api/v1/runs/{run_id}/cancel")
        model.go_on.set()
        retried = await client.post(f"/api/v1/runs/{run_id}/retry")
        events_again = await client.events("GET", f"/api/v1/runs/{run_id}/events")
        refused = await client.post(f"/api/v1/runs/{run_id}/retry")

    assert (retried.status, retried.json["state"], refused.status) == (202, "queued", 409)
    assert (text_of(events_again), events_again[-1].name) == ("One moment please.", "done")


async def test_a_retry_at_the_same_time_as_a_message_is_refused(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, apply = Runs(build_context(store, ServiceSettings())), store.apply
    async with serving(build_service(store, scripted(NetworkError("offline"), "Yes."))) as client:
        await client.post("/api/v1/chat", {"message": "Hello."})
        (job,) = await store.jobs(kind=RUN_JOB)

        async def add_message_first(id: str, *arguments: Any, **options: Any) -> None:
            monkeypatch.setattr(store, "apply", apply)
            await others.start(MessageRequest(Principal("ana"), id, "Are you there?", ""))
            await apply(id, *arguments, **options)

        monkeypatch.setattr(store, "apply", add_message_first)
        refused = await client.post(f"/api/v1/runs/{run_of_part(job.key)}/retry")
        keys = [job.key for job in await store.jobs(kind=RUN_JOB)]

    assert (refused.status, len(keys), len({run_of_part(key) for key in keys})) == (409, 2, 2)


async def test_cancelling_a_paused_run_cancels_its_calls(store: MemoryStore) -> None:
    bank = Bank()
    async with serving(build_service(store, scripted(CALL, "As you like."), bank=bank)) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        cancelled = await client.post(f"/api/v1/runs/{paused['run_id']}/cancel")
        decided = await client.post(f"/api/v1/sessions/{paused['session_id']}/decisions", approve(paused["waiting"]))
        body = {"message": "Never mind.", "session_id": paused["session_id"]}
        reply = await client.post("/api/v1/chat", body)

    assert (cancelled.json["state"], decided.status) == ("cancelled", 409)
    assert (reply.json["response"], bank.paid) == ("As you like.", [])


@pytest.mark.parametrize("run_id", ["x", f"{UNKNOWN_ID}.1", "..%2F..%2Fetc", "%00"])
async def test_an_unknown_run_is_a_404(store: MemoryStore, run_id: str) -> None:
    async with serving(build_service(store, scripted())) as client:
        replies = [
            await client.get(f"/api/v1/runs/{run_id}"),
            await client.get(f"/api/v1/runs/{run_id}/events"),
            await client.post(f"/api/v1/runs/{run_id}/cancel"),
        ]

    assert [reply.status for reply in replies] == [404, 404, 404]


@pytest.mark.parametrize("name", ["9", "%00", "%ED%A0%80"])
async def test_an_unknown_run_of_an_own_session_is_a_404(store: MemoryStore, name: str) -> None:
    async with serving(build_service(store, scripted("Hello."))) as client:
        session = (await client.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        replies = [await client.get(f"/api/v1/runs/{session}.{name}{path}") for path in ("", "/events")]

    assert [reply.status for reply in replies] == [404, 404]


async def test_the_objects_of_another_user_are_404(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        session, run = f"/api/v1/sessions/{paused['session_id']}", f"/api/v1/runs/{paused['run_id']}"
        statuses: list[int] = []
        for user, token in (("ana", ANA), ("bo", BO)):
            other = Client(client.port, token)
            requests: list[tuple[str, str, object]] = [
                ("GET", session, None),
                ("GET", f"{session}/messages", None),
                ("GET", f"{session}/runs", None),
                ("PATCH", session, {"title": user}),
                ("GET", run, None),
            ]
            if user == "bo":
                requests += [
                    ("POST", f"{session}/decisions", approve(paused["waiting"])),
                    ("POST", f"{run}/cancel", None),
                    ("POST", f"{run}/retry", None),
                    ("GET", f"{run}/events", None),
                    ("DELETE", session, None),
                    ("POST", "/api/v1/chat", {"message": "Hi.", "session_id": paused["session_id"]}),
                ]
            statuses += [(await other.request(*request)).status for request in requests]

    assert statuses == [200] * 5 + [404] * 11


async def test_a_malformed_event_id_is_refused(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        run_id = (await client.post("/api/v1/chat", {"message": "Hello."})).json["run_id"]
        reply = await client.get(f"/api/v1/runs/{run_id}/events", last_event_id="1-2-x")

    assert (reply.status, reply.json["code"]) == (400, "bad_request")


# --- Decisions ------------------------------------------------------------------------------------------------------


async def test_only_users_who_may_decide_see_and_decide_calls(store: MemoryStore) -> None:
    bank = Bank()
    service = build_service(store, scripted(), bank=bank, may_decide=only_role("approver"))
    async with serving(service) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        decision = {"id": "call_1", "action": "approve", "arguments": {"to": "Bo", "cents": 500}}
        path = f"/api/v1/sessions/{paused['session_id']}/decisions"
        reply = await client.post(path, {"decisions": [decision]})

    assert paused["waiting"] == []
    assert (reply.status, reply.json["code"], bank.paid) == (403, "forbidden", [])


@pytest.mark.parametrize(
    ("decisions", "status"),
    [
        (None, 400),
        ([], 400),
        ("yes", 400),
        ([{"id": "call_1", "action": "perhaps"}], 400),
        ([{"id": "call_9", "action": "reject"}], 409),
        ([{"id": "call_1", "action": "approve", "arguments": {"to": "Bo", "cents": 1}}], 409),
    ],
)
async def test_a_wrong_decision_changes_nothing(store: MemoryStore, decisions: object, status: int) -> None:
    bank = Bank()
    async with serving(build_service(store, scripted(), bank=bank)) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        path = f"/api/v1/sessions/{paused['session_id']}/decisions"
        reply = await client.post(path, {"decisions": decisions})
        run = (await client.get(f"/api/v1/runs/{paused['run_id']}")).json

    assert (reply.status, run["state"], bank.paid) == (status, "paused", [])


async def test_edited_arguments_are_used_and_recorded_under_the_name_of_the_user(store: MemoryStore) -> None:
    bank = Bank()
    async with serving(build_service(store, scripted(), bank=bank)) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        decision = {
            "id": "call_1",
            "action": "approve",
            "arguments": {"to": "Bo", "cents": 500},
            "edited_arguments": {"to": "Bo", "cents": 400},
        }
        path = f"/api/v1/sessions/{paused['session_id']}/decisions"
        await client.post(path, {"decisions": [decision], "by": "somebody else"})
        await client.events("GET", f"/api/v1/runs/{paused['run_id']}/events")
    tool = (await store.load(paused["session_id"])).messages.tool("call_1")

    assert bank.paid == ["400 to Bo"]
    assert tool.decisions[-1].by == "ana"
