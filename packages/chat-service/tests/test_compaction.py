"""A user requests a summary of a session over the WebSocket."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from chat_agents import AgentConfig, AgentEngine
from chat_core import OverloadedError, Summarize
from chat_core.approvals import owner_may_decide
from chat_core.testing import Answer, ScriptedProvider
from chat_service import Service, ServiceSettings
from chat_store import MemoryStore
from service_helpers import BO, CALL, TOKENS, Bank, scripted, serving
from socket_helpers import Socket, open_socket

pytestmark = pytest.mark.anyio
LONG = "I will keep this in mind. " * 50
SUMMARY = "ana collects stamps"


def build(store: MemoryStore, model: ScriptedProvider, writer: Any, *, keep: int = 100) -> Service:
    config = AgentConfig(context=None if writer is None else Summarize(writer, at=100_000, keep=keep))
    settings = ServiceSettings(poll_seconds=0.2)
    engine = AgentEngine(model, config)
    flow = Bank().flow()
    return Service(engine, flow, store, authenticate=TOKENS, may_decide=owner_may_decide, settings=settings)


async def converse(socket: Socket, count: int) -> str:
    """Send messages, and return the id of the session."""
    session: str | None = None
    for number in range(count):
        await socket.send("chat", session_id=session, message=f"message {number}")
        await socket.until("chat_chunk", done=True)
        session = socket.received[0]["session_id"]
    assert session is not None
    return session


async def compact(socket: Socket, session: str, **args: object) -> dict[str, Any]:
    await socket.send("command", command="compact", args={"session_id": session, **args})
    return await socket.until("command_result", command="compact")


async def test_the_model_receives_the_summary_instead_of_the_first_turns(store: MemoryStore) -> None:
    model, writer = ScriptedProvider(*[LONG] * 4), ScriptedProvider(SUMMARY)
    async with serving(build(store, model, writer)) as client, open_socket(client) as socket:
        session = await converse(socket, 3)
        result = await compact(socket, session)
        types = socket.types
        await socket.send("chat", session_id=session, message="message 3")
        await socket.until("chat_chunk", done=True)
        shown = (await client.get(f"/api/v1/sessions/{session}/messages")).json["messages"]
    asked = model.asked[-1].messages.view()
    texts = " ".join([turn.text for _, turn in asked.turns])
    found: dict[str, Any] = result["result"]

    assert (result["success"], found["compacted"]) == (True, True)
    assert types[-2:] == ["command_progress", "command_result"]
    assert 0 < found["turns_compacted"] < 6
    assert found["tokens_after"] < found["tokens_before"]
    assert "message 0" not in texts
    assert "message 3" in texts
    assert SUMMARY in repr(asked.turns)
    assert [message["content"] for message in shown if message["role"] == "user"][:1] == ["message 0"]


async def test_a_summary_may_be_longer_than_the_turns_that_are_kept(store: MemoryStore) -> None:
    model, writer = ScriptedProvider(*[LONG * 2] * 8), ScriptedProvider(f"{SUMMARY}. " * 220)
    async with serving(build(store, model, writer, keep=2_500)) as client, open_socket(client) as socket:
        result = await compact(socket, await converse(socket, 8))

    assert (result["success"], result["result"]["compacted"]) == (True, True), result


@pytest.mark.parametrize(("messages", "force", "compacted"), [(3, False, False), (3, True, True), (1, True, False)])
async def test_a_short_session_is_summarized_only_by_force(
    store: MemoryStore, messages: int, force: bool, compacted: bool
) -> None:
    model, writer = ScriptedProvider(*["Yes."] * 3), ScriptedProvider(SUMMARY)
    async with (
        serving(build(store, model, writer, keep=50_000)) as client,
        open_socket(client) as socket,
    ):
        result = await compact(socket, await converse(socket, messages), force=force)

    assert result["success"], result
    assert (result["result"]["compacted"], len(writer.asked)) == (compacted, int(compacted))


async def test_a_model_that_fails_changes_nothing(store: MemoryStore) -> None:
    model, writer = ScriptedProvider(*[LONG] * 3), ScriptedProvider(OverloadedError("the key is s3cret"))
    async with serving(build(store, model, writer)) as client, open_socket(client) as socket:
        session = await converse(socket, 3)
        before = (await store.load(session)).messages.to_json()
        result = await compact(socket, session)
        pong = await socket.ask("ping")

    assert (result["success"], "s3cret" in result["result"], pong["type"]) == (False, False, "pong")
    assert (await store.load(session)).messages.to_json() == before


async def test_an_agent_without_summaries_refuses(store: MemoryStore) -> None:
    async with serving(build(store, scripted("Hello."), None)) as client, open_socket(client) as socket:
        result = await compact(socket, await converse(socket, 1))

    assert (result["success"], result["result"]) == (
        False, "The agent writes no summaries: its AgentConfig needs context=Summarize(…).",
    )  # fmt: skip


async def test_a_session_that_waits_is_not_compacted(store: MemoryStore) -> None:
    service = build(store, scripted(CALL, "It is paid."), ScriptedProvider(SUMMARY))
    async with serving(service) as client, open_socket(client) as socket:
        await socket.send("chat", message="Pay Bo.")
        paused = await socket.until("paused")
        result = await compact(socket, paused["session_id"], force=True)

    assert (result["success"], "active or waits" in result["result"]) == (False, True)


async def test_messages_are_read_during_a_run_and_a_new_run_is_sent_first(store: MemoryStore) -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    async def hold() -> None:
        reached.set()
        await go_on.wait()

    model, writer = ScriptedProvider(*[LONG] * 4), ScriptedProvider(Answer([SUMMARY], before=hold))
    async with serving(build(store, model, writer)) as client, open_socket(client) as socket:
        session = await converse(socket, 3)
        await socket.send("command", command="compact", args={"session_id": session})
        await reached.wait()
        await socket.send("ping")
        pong = await socket.until("pong")
        await socket.send("chat", session_id=session, message="meanwhile")
        await socket.until("chat_chunk", done=True)
        go_on.set()
        result = await socket.until("command_result")
        shown = (await client.get(f"/api/v1/sessions/{session}/messages")).json["messages"]

    assert (pong["type"], result["success"]) == ("pong", False)
    assert "changed meanwhile" in result["result"]
    assert [message["content"] for message in shown if message["role"] == "user"][-1] == "meanwhile"


async def test_only_the_owner_of_the_session_compacts_it(store: MemoryStore) -> None:
    writer = ScriptedProvider(SUMMARY)
    async with (
        serving(build(store, ScriptedProvider(*[LONG] * 3), writer)) as client,
        open_socket(client) as owner,
        open_socket(client) as reader,
        open_socket(client, BO) as stranger,
    ):
        session = await converse(owner, 3)
        message: dict[str, Any] = {"command": "compact", "args": {"session_id": session}}
        refused = [(await socket.ask("command", **message))["code"] for socket in (reader, stranger)]
        wrong: list[object] = [None, [], {}, "x"]
        malformed = [(await owner.ask("command", command="compact", args=args))["code"] for args in wrong]

    assert refused == ["session_not_owned", "invalid_session"]
    assert malformed == ["invalid_message"] * 4
    assert writer.asked == []
