"""The service as an application: a conversation with an approval, refused requests, opening and closing."""

from __future__ import annotations

from typing import Any, cast

import pytest
from chat_agents import AgentEngine
from chat_core import UsageError
from chat_core.approvals import owner_may_decide
from chat_service import Service
from chat_store import MemoryStore
from service_helpers import TOKENS, Bank, approve, build_service, names, scripted, serving, text_of

pytestmark = pytest.mark.anyio


async def test_a_message_is_answered_after_an_approval(store: MemoryStore) -> None:
    bank = Bank()
    async with serving(build_service(store, scripted(), bank=bank)) as client:
        paused = await client.post("/api/v1/chat", {"message": "Pay Bo."})
        assert (paused.status, paused.json["status"], bank.paid) == (202, "paused", [])
        session_id = paused.json["session_id"]

        decided = await client.post(f"/api/v1/sessions/{session_id}/decisions", approve(paused.json["waiting"]))
        assert decided.status == 202
        events = await client.events("GET", f"/api/v1/runs/{decided.json['run_id']}/events")

    assert bank.paid == ["500 to Bo"]
    assert (names(events)[0], names(events)[-1]) == ("session", "done")
    assert text_of(events) == "I will pay. It is paid."


@pytest.mark.parametrize("token", [None, "", "another token"])
async def test_a_request_without_a_valid_token_is_refused(store: MemoryStore, token: str | None) -> None:
    async with serving(build_service(store, scripted())) as client:
        reply = await client.as_user(token).get("/api/v1/sessions")

    assert (reply.status, reply.json["code"]) == (401, "unauthorized")
    assert reply.headers["content-type"] == "application/problem+json"


async def test_errors_of_the_router_are_problem_details(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        unknown, method = await client.get("/api/v2"), await client.request("PUT", "/api/v1/chat")

    assert (unknown.status, unknown.json["code"]) == (404, "not_found")
    assert (method.status, method.json["code"], method.headers["allow"]) == (405, "method_not_allowed", "POST")


async def test_the_text_of_an_unexpected_error_is_not_sent(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(**_: object) -> None:
        msg = "the password of the database is hunter2"
        raise RuntimeError(msg)

    async with serving(build_service(store, scripted())) as client:
        monkeypatch.setattr(store, "conversations", failing)
        reply = await client.get("/api/v1/sessions")

    assert (reply.status, reply.json["code"]) == (500, "internal_error")
    assert b"hunter2" not in reply.body


async def test_a_service_without_a_plain_rule_for_decisions_is_refused(store: MemoryStore) -> None:
    async def rule(*_: object) -> bool:
        return True

    for wrong in (None, rule):
        with pytest.raises(UsageError, match="may_decide must be a plain function"):
            Service(AgentEngine(scripted()), Bank().flow(), store, authenticate=TOKENS, may_decide=cast("Any", wrong))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("close_jobs", "a function that returns jobs"),
        ("memory", "OwnerMemory"),
        ("settings", "ServiceSettings"),
        ("traces", "TracePropagation"),
        ("workflows", "ServiceWorkflows"),
    ],
)
def test_a_service_checks_its_arguments(name: str, problem: str) -> None:
    wrong: Any = {name: 5}
    with pytest.raises(UsageError, match=f"^{name} must be .*{problem}"):
        Service(
            AgentEngine(scripted()),
            Bank().flow(),
            MemoryStore(),
            authenticate=TOKENS,
            may_decide=owner_may_decide,
            **wrong,
        )


async def test_a_service_cannot_be_opened_twice(store: MemoryStore) -> None:
    async with build_service(store, scripted()) as service:
        with pytest.raises(UsageError, match="already open"):
            await service.__aenter__()
