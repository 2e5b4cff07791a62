"""The metrics of a service."""

from __future__ import annotations

import pytest
from chat_service import ServiceSettings
from chat_store import MemoryStore
from service_helpers import PROMETHEUS, SteppedModel, build_service, scripted, serving
from socket_helpers import open_socket

pytestmark = pytest.mark.anyio
SETTINGS = ServiceSettings(poll_seconds=0.2, metrics_role="metrics")


async def test_runs_streams_and_tokens_are_counted(store: MemoryStore) -> None:
    model = SteppedModel(scripted(["Good ", "morning."]), after=1)
    async with serving(build_service(store, model, settings=SETTINGS)) as client:
        prometheus = client.as_user(PROMETHEUS)
        before = during = (await prometheus.get("/metrics")).body.decode()
        async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events:
            async for event in events:
                if event.name == "text":
                    during = (await prometheus.get("/metrics")).body.decode()
                    model.go_on.set()
                    break
            assert [event.name async for event in events][-1] == "done"
        after = await prometheus.get("/metrics")

    assert after.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = after.body.decode().splitlines()
    assert "chat_service_running_runs 0" in before.splitlines()
    assert {"chat_service_running_runs 1", "chat_service_open_followers 1"} <= {*during.splitlines()}
    assert {
        'chat_service_ended_runs_total{state="answered"} 1',
        "chat_service_model_calls_total 1",
        'chat_service_tokens_total{kind="input"} 10',
        'chat_service_tokens_total{kind="output"} 5',
    } <= {*lines}
    assert "ana" not in after.body.decode()


async def test_an_open_socket_is_counted(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted(), settings=SETTINGS)) as client:
        prometheus = client.as_user(PROMETHEUS)
        async with open_socket(client) as socket:
            await socket.ask("ping")
            during = (await prometheus.get("/metrics")).body

    assert b"\nchat_service_open_sockets 1\n" in during


async def test_only_users_with_the_metrics_role_may_read_the_metrics(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted(), settings=SETTINGS)) as client:
        statuses = [(await client.as_user(token).get("/metrics")).status for token in (PROMETHEUS, client.token, "?")]
    async with serving(build_service(MemoryStore(), scripted())) as client:
        closed = (await client.as_user(PROMETHEUS).get("/metrics")).status

    assert statuses == [200, 403, 401]
    assert closed == 403
