"""Messages of WebSocket clients: concurrent runs, owners and readers, decisions, errors and limits."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from chat_core.approvals import only_role
from chat_core.provider import Abilities, ProviderMeta
from chat_core.testing import ScriptedProvider
from chat_service import Service, ServiceSettings
from chat_store import ConversationMeta, Job, MemoryStore
from service_helpers import ANA, BO, CALL, UNKNOWN_ID, WAIT, Bank, SteppedModel, build_service, scripted, serving
from socket_helpers import open_socket
from starlette.types import Message
from websockets.exceptions import ConnectionClosed

pytestmark = pytest.mark.anyio


async def test_a_message_is_answered_and_stored_as_by_the_api(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted(["Good ", "morning."]))) as client:
        async with open_socket(client) as socket:
            created = await socket.ask("chat", message="Hello.")
            ack = await socket.receive()
            await socket.until("chat_chunk", done=True)
        session = created["session_id"]
        path = f"/api/v1/sessions/{session}/messages"
        stored = (await client.get(path)).json["messages"]
        other = (await client.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        same = (await client.get(f"/api/v1/sessions/{other}/messages")).json["messages"]

    assert (created["type"], ack["type"], ack["owner"], len(ack["reconnect_token"])) == (
        "session_created", "subscribe_ack", True, 43,
    )  # fmt: skip
    assert socket.text == "Good morning."
    assert [(item["role"], item["content"]) for item in stored] == [(item["role"], item["content"]) for item in same]
    assert [item["content"] for item in stored] == ["Hello.", "Good morning."]


async def test_ping_and_cancel_act_while_a_run_streams(store: MemoryStore) -> None:
    model = SteppedModel(scripted(["One ", "two."]), after=1)
    async with serving(build_service(store, model)) as client, open_socket(client) as socket:
        session = (await socket.ask("chat", message="Count."))["session_id"]
        await socket.until("chat_chunk", chunk="One ")
        with anyio.fail_after(WAIT):
            await model.reached.wait()
        pong = await socket.ask("ping")
        await socket.send("cancel", session_id=session)
        result = await socket.until("command_result")
        if not any(message.get("done") for message in socket.received):
            await socket.until("chat_chunk", done=True)
        run = (await client.get(f"/api/v1/sessions/{session}/runs")).json["runs"][0]

    assert (pong["type"], run["state"], model.open_streams) == ("pong", "cancelled", 0)
    assert (result["command"], result["result"]) == ("cancel", {"cancelled": True})
    assert socket.text == "One "


async def test_a_cancel_without_a_run_is_acknowledged(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Hello."))) as client, open_socket(client) as socket:
        session = (await client.post("/api/v1/sessions", {})).json["id"]
        await socket.ask("subscribe", session_id=session)
        found = await socket.ask("cancel", session_id=session)

    assert found == {"type": "command_result", "command": "cancel", "success": True, "result": {"cancelled": False}}


async def test_readers_receive_the_run_of_the_owner_and_may_not_chat(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted(["Good ", "morning."]))) as client:
        session = (await client.post("/api/v1/sessions", {})).json["id"]
        async with open_socket(client) as owner, open_socket(client) as reader:
            acks = [await socket.ask("subscribe", session_id=session) for socket in (owner, reader)]
            refusals = [
                await reader.ask("chat", session_id=session, message="Hello."),
                await reader.ask("cancel", session_id=session),
            ]
            await owner.send("chat", session_id=session, message="Hello.")
            for socket in (owner, reader):
                await socket.until("chat_chunk", done=True)

    assert [ack["owner"] for ack in acks] == [True, False]
    assert "reconnect_token" not in acks[1]
    assert [refusal["code"] for refusal in refusals] == ["session_not_owned", "session_not_owned"]
    assert (owner.text, reader.text) == ("Good morning.", "Good morning.")


async def test_a_session_is_reclaimed_twice_after_lost_connections(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Hello."))) as client:
        session = (await client.post("/api/v1/sessions", {})).json["id"]
        token: str | None = None
        owners: list[bool] = []
        for _ in range(3):
            async with open_socket(client) as socket:
                ack = await socket.ask("subscribe", session_id=session, reconnect_token=token)
            token = ack.get("reconnect_token")
            owners.append(ack["owner"])
        async with open_socket(client) as stranger:
            ack = await stranger.ask("subscribe", session_id=session)

    assert owners == [True, True, True]
    assert ack["owner"] is False


async def test_a_disconnect_neither_ends_the_run_nor_closes_the_session(store: MemoryStore) -> None:
    jobs: list[ConversationMeta] = []

    def close_jobs(meta: ConversationMeta) -> list[Job]:
        jobs.append(meta)
        return []

    model = SteppedModel(scripted(["One ", "two."]), after=1)
    async with serving(build_service(store, model, close_jobs=close_jobs)) as client:
        async with open_socket(client) as socket:
            session = (await socket.ask("chat", message="Count."))["session_id"]
            await socket.until("chat_chunk", chunk="One ")
        model.go_on.set()
        async with open_socket(client) as again:
            await again.send("subscribe", session_id=session)
            run = (await client.get(f"/api/v1/sessions/{session}/runs")).json["runs"][0]
            await client.events("GET", f"/api/v1/runs/{run['id']}/events")
        stored = (await client.get(f"/api/v1/sessions/{session}/messages")).json["messages"]

    assert (await store.meta(session)).state == "open"
    assert [item["content"] for item in stored] == ["Count.", "One two."]
    assert jobs == []


async def test_a_waiting_call_is_decided_and_the_run_continues(store: MemoryStore) -> None:
    bank = Bank()
    async with serving(build_service(store, scripted(), bank=bank)) as client, open_socket(client) as socket:
        session = (await socket.ask("chat", message="Pay Bo."))["session_id"]
        (wait,) = (await socket.until("paused", session_id=session))["waiting"]
        wrong = {"id": wait["id"], "decision": "approve", "arguments": {"to": "Eve"}}
        await socket.send("decide", session_id=session, **wrong)
        refusal = await socket.until("error")
        decision = {name: wait[name] for name in ("id", "arguments", "revision")}
        await socket.send("decide", session_id=session, decision="approve", **decision)
        end = await socket.until("tool_end")
        await socket.until("chat_chunk", done=True)

    assert (refusal["code"], end["success"], end["tool_id"]) == ("invalid_message", True, wait["id"])
    assert socket.text == "I will pay. It is paid."
    assert socket.types.count("paused") == 1
    assert bank.paid == ["500 to Bo"]


@pytest.mark.parametrize(
    ("window", "percent", "status"),
    [(1000, 1.5, "ok"), (22, 68.2, "ok"), (21, 71.4, "warning"), (17, 88.2, "warning"), (16, 93.8, "critical")],
)
async def test_the_client_learns_how_much_of_the_context_window_is_used(
    store: MemoryStore, window: int, percent: float, status: str
) -> None:
    meta = ProviderMeta("scripted", abilities=Abilities(context_window=window))
    model = ScriptedProvider("Hello.", meta=meta)  # its responses report 10 input and 5 output tokens
    async with serving(build_service(store, model)) as client, open_socket(client) as socket:
        await socket.send("chat", message="Hello.")
        await socket.until("chat_chunk", done=True)
    found = [message for message in socket.received if message["type"] == "context_info"]
    session = socket.received[0]["session_id"]

    assert found == [
        {"type": "context_info", "session_id": session, "current_tokens": 15, "max_tokens": window, "percent": percent,
         "status": status}
    ]  # fmt: skip
    assert socket.types[-2:] == ["context_info", "chat_chunk"]  # nothing follows the end of the run


async def test_without_a_known_context_window_nothing_is_sent_about_it(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Hello."))) as client, open_socket(client) as socket:
        await socket.send("chat", message="Hello.")
        await socket.until("chat_chunk", done=True)

    assert "context_info" not in socket.types


async def test_a_user_who_may_not_decide_cannot_decide_their_own_call(store: MemoryStore) -> None:
    bank = Bank()
    service = build_service(store, scripted(), bank=bank, may_decide=only_role("approver"))
    async with serving(service) as client, open_socket(client) as socket:
        await socket.send("chat", message="Pay Bo.")
        paused = await socket.until("paused")
        session = paused["session_id"]
        await socket.send("decide", session_id=session, id="call_1", decision="approve", arguments=dict(CALL.arguments))
        error = await socket.until("error")
        runs = (await client.get(f"/api/v1/sessions/{session}/runs")).json["runs"]

    assert (paused["waiting"], error["code"], runs[-1]["state"], bank.paid) == ([], "invalid_message", "paused", [])


async def test_before_auth_only_auth_and_ping_are_accepted(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Hello."))) as client, open_socket(client, None) as socket:
        found = [
            await socket.ask("ping"),
            await socket.ask("chat", message="Hello."),
            await socket.ask("auth", token=f"not {ANA}"),
            await socket.ask("auth", token=5),
            await socket.ask("auth", token=ANA),
            await socket.ask("auth", token=BO),
            await socket.ask("chat", message="Hello."),
        ]

    assert [message.get("code") or message.get("success", message["type"]) for message in found] == [
        "pong", "unauthorized", False, False, True, "unauthorized", "session_created",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "parse_error"),
        (b"{}", "parse_error"),
        ("[]", "invalid_message"),
        ('{"type": "dance"}', "invalid_message"),
        ('{"type": []}', "invalid_message"),
        ('{"type": "subscribe"}', "invalid_message"),
        ('{"type": "chat"}', "invalid_message"),
        ('{"type": "chat", "message": " "}', "invalid_message"),
        ('{"type": "chat", "message": "\\ud800"}', "invalid_message"),
        ('{"type": "chat", "message": "Hello.", "session_id": "x"}', "invalid_message"),
        ('{"type": "chat", "message": "Hello.", "workstream_id": "w"}', "invalid_workstream_id"),
        (f'{{"type": "subscribe", "session_id": "{UNKNOWN_ID}"}}', "invalid_session"),
        (f'{{"type": "decide", "session_id": "{UNKNOWN_ID}"}}', "invalid_session"),
    ],
)
async def test_an_invalid_message_is_answered_and_the_connection_stays(
    store: MemoryStore, message: str | bytes, code: str
) -> None:
    async with serving(build_service(store, scripted())) as client, open_socket(client) as socket:
        await socket.connection.send(message)
        error = await socket.receive()
        pong = await socket.ask("ping")

    assert (error["type"], error["code"], pong["type"]) == ("error", code, "pong")


async def test_a_session_of_another_user_is_an_invalid_session(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Hello."))) as client, open_socket(client, BO) as socket:
        session = (await client.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        found = [
            (await socket.ask(kind, session_id=session, message="Hello.", id="x", decision="approve"))["code"]
            for kind in ("subscribe", "chat", "cancel", "decide")
        ]

    assert found == ["invalid_session"] * 4


@pytest.mark.parametrize(("size", "is_open"), [(999, True), (1000, True), (1001, False)])
async def test_a_message_over_the_limit_closes_the_connection(store: MemoryStore, size: int, is_open: bool) -> None:
    settings = ServiceSettings(socket_max_bytes=1000, workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client, open_socket(client) as socket:
        text = json.dumps({"type": "ping", "padding": "é"}, ensure_ascii=False)
        await socket.connection.send(text.replace("é", "é" + "x" * (size - len(text.encode()))))
        code: int | None = None
        found: dict[str, Any] = {}
        try:
            found = await socket.receive()
        except ConnectionClosed as closed:
            code = None if closed.rcvd is None else closed.rcvd.code

    assert (found.get("type"), code) == (("pong", None) if is_open else (None, 1009))


async def test_a_connection_without_messages_is_closed(store: MemoryStore) -> None:
    settings = ServiceSettings(socket_idle_seconds=0.1, workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client, open_socket(client) as socket:
        error = await socket.receive()
        with pytest.raises(ConnectionClosed):
            await socket.receive()

    assert error["code"] == "idle_timeout"


class StalledSocket:
    """The server side of a connection whose client subscribes to a session and then does not read."""

    def __init__(self, session: str) -> None:
        self._messages = [{"type": "websocket.connect"}, {"type": "subscribe", "session_id": session}]
        self.is_subscribed = anyio.Event()

    async def receive(self) -> Message:
        if not self._messages:
            await anyio.sleep_forever()
        message = self._messages.pop(0)
        if message["type"] == "subscribe":
            return {"type": "websocket.receive", "text": json.dumps(message)}
        return message

    async def send(self, message: Message) -> None:
        text = str(message.get("text", ""))
        if "subscribe_ack" in text:
            self.is_subscribed.set()
        elif "chat_chunk" in text:
            await anyio.sleep_forever()

    async def run(self, service: Service) -> None:
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {ANA}".encode())]
        scope = {"type": "websocket", "path": "/ws", "headers": headers, "query_string": b"", "client": ("", 1)}
        await service(scope, self.receive, self.send)


async def test_a_client_that_does_not_read_is_disconnected_and_others_continue(store: MemoryStore) -> None:
    service = build_service(store, scripted(["Good ", "morning."]), settings=ServiceSettings(socket_send_seconds=0.5))
    async with serving(service) as client, open_socket(client) as owner:
        session = (await client.post("/api/v1/sessions", {})).json["id"]
        await owner.ask("subscribe", session_id=session)
        slow = StalledSocket(session)
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as group:
                group.start_soon(slow.run, service)
                await slow.is_subscribed.wait()
                await owner.send("chat", session_id=session, message="Hello.")
                await owner.until("chat_chunk", done=True)

    assert owner.text == "Good morning."


async def test_a_failure_of_the_model_is_an_agent_error(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("only one answer"))) as client, open_socket(client) as socket:
        session = (await socket.ask("chat", message="Hello."))["session_id"]
        await socket.until("chat_chunk", done=True)
        await socket.send("chat", session_id=session, message="Again.")
        error = await socket.until("error")
        unknown = await socket.ask("command", command="dance")

    assert (error["code"], error["session_id"]) == ("agent_error", session)
    assert unknown == {
        "type": "command_result", "command": "dance", "success": False, "result": "There is no such command.",
    }  # fmt: skip


async def test_a_store_error_ends_the_subscription_and_the_connection_stays(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_id: str, /) -> ConversationMeta:
        msg = "the database is away"
        raise OSError(msg)

    service = build_service(store, scripted(["Good ", "morning."]), settings=ServiceSettings(ping_seconds=1))
    async with serving(service) as client, open_socket(client) as socket:
        session = (await client.post("/api/v1/sessions", {})).json["id"]
        await socket.ask("subscribe", session_id=session)
        with monkeypatch.context() as patch:
            patch.setattr(store, "meta", fail)
            error = await socket.receive()
        pong = await socket.ask("ping")
        await socket.send("chat", session_id=session, message="Hello.")
        await socket.until("chat_chunk", done=True)

    assert (error["type"], error["code"], error["session_id"]) == ("error", "internal", session)
    assert (pong["type"], socket.text) == ("pong", "Good morning.")
