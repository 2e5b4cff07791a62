"""The endpoints of workflows: who may use them, and what they return."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_inbox.url_keys import quote_key
from chat_store import MemoryStore
from workflow_helpers import ANA, OTHER, PAY, STAFF, Office, follow_until, waiting_run

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(tmp_path: Path, store: MemoryStore) -> Office:
    return Office(tmp_path, store)


async def test_workflows_are_listed_and_shown_with_their_definition(office: Office) -> None:
    (office.folder / "broken.toml").write_text("[workflow]\n", encoding="utf-8")
    async with office.serving() as client:
        listed = (await client.get("/api/v1/workflows")).json
        shown = (await client.get("/api/v1/workflows/pay")).json
        missing = await client.get("/api/v1/workflows/other")

    assert [item["name"] for item in listed["workflows"]] == ["closed", "pay"]
    assert listed["schedules"] == []
    assert list(listed["errors"]) == ["broken.toml"]
    assert (shown["definition"], shown["description"]) == (PAY, "Pays after an approval.")
    assert shown["tasks"][1] == {"id": "pay", "runtime": "tool", "dependencies": ["sum"]}
    assert missing.status == 404


async def test_a_decision_in_the_inbox_wakes_the_run_that_waits(office: Office) -> None:
    async with office.serving() as client:
        run = await waiting_run(client)
        (call,) = run["waiting"]
        listed = (await client.get("/inbox/")).body.decode()
        page = (await client.get(call["inbox"])).body.decode()
        (entry,) = (await client.get("/inbox/api/waiting")).json["waiting"]
        url = f"/inbox/api/conversations/{quote_key((entry['id'],))}/calls/{entry['call']}"
        found = (await client.get(url)).json
        decided = await client.post(f"{url}/approve", {"version": found["version"]})
        assert decided.status == 200, decided.body
        ended = await follow_until(client, run["id"], "completed")

    assert (call["task"], call["tool"], call["arguments"], call["kind"]) == ("pay", "pay", {"cents": 500}, "approval")
    assert "Workflow pay · Task pay" in listed
    assert "State" in page
    assert "waiting, sum completed, pay waiting" in page
    assert "Pays after an approval." in page
    assert ended["tasks"]["pay"] == {"state": "completed", "output": {"paid": 500}, "error": None}
    assert (ended["waiting"], office.paid) == ([], [500])


async def test_a_repeated_idempotency_key_starts_no_second_run(office: Office) -> None:
    async with office.serving() as client:
        url, body = "/api/v1/workflows/pay/runs", {"input": {"cents": 1}}
        first = await client.post(url, body, idempotency_key="a")
        again = await client.post(url, body, idempotency_key="a")
        other = await client.post(url, {"input": {"cents": 2}}, idempotency_key="a")
        second = await client.post(url, body, idempotency_key="b")
        runs = (await client.get("/api/v1/workflow-runs?workflow=pay")).json["runs"]
        none = (await client.get("/api/v1/workflow-runs?workflow=closed")).json["runs"]

    assert first.json["id"] == again.json["id"] != second.json["id"]
    assert (first.status, again.status, other.status) == (202, 202, 422)
    assert [run["id"] for run in runs] == [second.json["id"], first.json["id"]]
    assert none == []


async def test_a_cancelled_run_is_repeated_from_a_task(office: Office) -> None:
    async with office.serving() as client:
        run = await waiting_run(client)
        url = f"/api/v1/workflow-runs/{run['id']}"
        early = await client.post(f"{url}/retry", {})
        cancelled = await client.post(f"{url}/cancel")
        again = await client.post(f"{url}/cancel")
        wrong = await client.post(f"{url}/retry", {"from_task": "other"})
        repeated = await client.post(f"{url}/retry", {"from_task": "pay"})
        found = await follow_until(client, repeated.json["id"], "waiting")

    assert (early.status, cancelled.status, again.status, wrong.status, repeated.status) == (409, 200, 409, 400, 202)
    assert (cancelled.json["state"], cancelled.json["waiting"]) == ("cancelled", [])
    assert (found["id"] != run["id"], found["tasks"]["sum"]["output"]) == (True, 500)


async def test_a_repeated_retry_with_the_same_key_starts_one_run(office: Office) -> None:
    async with office.serving() as client:
        run = await waiting_run(client)
        url = f"/api/v1/workflow-runs/{run['id']}"
        await client.post(f"{url}/cancel")
        first = await client.post(f"{url}/retry", {}, idempotency_key="a")
        again = await client.post(f"{url}/retry", {"from_task": None}, idempotency_key="a")
        other = await client.post(f"{url}/retry", {"from_task": "sum"}, idempotency_key="a")
        unknown = await client.post(f"{url}/retry", {"from_task": "x"}, idempotency_key="a")
        second = await client.post(f"{url}/retry", {"from_task": "sum"}, idempotency_key="b")
        runs = (await client.get("/api/v1/workflow-runs")).json["runs"]

    assert [reply.status for reply in (first, again, other, unknown, second)] == [202, 202, 422, 400, 202]
    assert first.json["id"] == again.json["id"] != second.json["id"]
    assert [item["id"] for item in runs] == [second.json["id"], first.json["id"], run["id"]]


async def test_only_the_role_may_use_workflows(office: Office) -> None:
    async with office.serving() as client:
        run = await waiting_run(client)
        url = f"/api/v1/workflow-runs/{run['id']}"
        requests = [
            ("GET", "/api/v1/workflows"),
            ("GET", "/api/v1/workflows/pay"),
            ("POST", "/api/v1/workflows/pay/runs"),
            ("GET", "/api/v1/workflow-runs"),
            ("GET", url),
            ("GET", f"{url}/events"),
            ("POST", f"{url}/cancel"),
            ("POST", f"{url}/retry"),
        ]
        ana, nobody = client.as_user(ANA), client.as_user(None)
        statuses = {
            (await ana.request(method, path, {} if method == "POST" else None)).status for method, path in requests
        }
        signed_out = {(await nobody.request(method, path)).status for method, path in requests}
        inbox = (await ana.get(run["waiting"][0]["inbox"])).status
        state = (await client.get(url)).json["state"]

    assert (statuses, signed_out, inbox, state) == ({403}, {401}, 404, "waiting")


async def test_a_user_sees_and_changes_only_own_runs_and_the_operator_all(office: Office) -> None:
    async with office.serving() as client:
        sam, ole = client.as_user(STAFF), client.as_user(OTHER)
        run = await waiting_run(sam)
        theirs = await waiting_run(client)
        url = f"/api/v1/workflow-runs/{run['id']}"
        requests = [("GET", url), ("GET", f"{url}/events"), ("POST", f"{url}/cancel"), ("POST", f"{url}/retry")]
        hidden = {
            (await ole.request(method, path, {} if method == "POST" else None)).status for method, path in requests
        }
        listed = {
            name: [item["owner"] for item in (await user.get("/api/v1/workflow-runs")).json["runs"]]
            for name, user in {"sam": sam, "ole": ole, "olga": client}.items()
        }
        other = (await sam.get(f"/api/v1/workflow-runs/{theirs['id']}")).status
        names = (await sam.get("/api/v1/workflows")).status, (await sam.get("/api/v1/workflows/pay")).status
        cancelled = (await sam.post(f"{url}/cancel")).json
        repeated = (await client.post(f"{url}/retry", {})).json

    assert (hidden, other, names) == ({404}, 404, (200, 200))
    assert listed == {"sam": ["sam"], "ole": [], "olga": ["olga", "sam"]}
    assert (cancelled["state"], cancelled["owner"], repeated["owner"]) == ("cancelled", "sam", "sam")
