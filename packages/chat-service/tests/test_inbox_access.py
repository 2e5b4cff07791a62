"""The inbox that a service mounts."""

from __future__ import annotations

import pytest
from chat_core import Wait
from chat_core.approvals import Principal
from chat_store import MemoryStore
from service_helpers import ANA, BO, Bank, Client, build_service, scripted, serving

pytestmark = pytest.mark.anyio


def let_bo_decide(principal: Principal, _wait: Wait, /) -> bool:
    return principal.name == "bo"


async def ask(client: Client) -> str:
    return str((await client.as_user(ANA).post("/api/v1/chat", {"message": "Pay Bo."})).json["session_id"])


async def test_a_user_who_may_decide_sees_and_decides_the_call(store: MemoryStore) -> None:
    bank = Bank()
    async with serving(build_service(store, scripted(), bank=bank, may_decide=let_bo_decide)) as client:
        session = await ask(client)
        bo = client.as_user(BO)
        (waiting,) = (await bo.get("/inbox/api/waiting")).json["waiting"]
        path = f"/inbox/api/conversations/{waiting['conversation']}"
        call = (await bo.get(f"{path}/calls/{waiting['call']}")).json
        decided = await bo.post(f"{path}/calls/{waiting['call']}/approve", {"version": call["version"]})
        run = (await client.as_user(ANA).get(f"/api/v1/sessions/{session}/runs")).json["runs"][0]["id"]
        await client.as_user(ANA).events("GET", f"/api/v1/runs/{run}/events")
        afterwards = await bo.get(path)

    assert (waiting["id"], decided.status, afterwards.status) == (session, 200, 200)
    assert bank.paid == ["500 to Bo"]


async def test_other_users_see_neither_calls_nor_conversations(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        await ask(client)
        (waiting,) = (await client.as_user(ANA).get("/inbox/api/waiting")).json["waiting"]
        path = f"/inbox/api/conversations/{waiting['conversation']}"
        own = await client.as_user(ANA).get(path)
        assert (await client.as_user(BO).get(path)).status == 404
        replies = [
            await client.as_user(BO).get(f"{path}/stream"),
            await client.as_user(BO).get(f"{path}/calls/{waiting['call']}"),
            await client.as_user(BO).post(f"{path}/calls/{waiting['call']}/approve", {"version": "x"}),
        ]
        listed = (await client.as_user(BO).get("/inbox/api/waiting")).json["waiting"]
        nobody = await client.as_user(None).get("/inbox/")

    assert own.status == 200
    assert [reply.status for reply in replies] == [404, 404, 404]
    assert (listed, nobody.status) == ([], 401)


async def test_the_inbox_is_checked_for_host_names_and_origins(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        found = [
            (await client.get("/inbox/", host="evil.example.org")).status,
            (await client.post("/inbox/conversations/x/decide", {}, origin="http://evil.example.org")).status,
        ]

    assert found == [403, 403]
