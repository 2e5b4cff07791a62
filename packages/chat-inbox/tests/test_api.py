"""JSON API: each route, and that responses match the OpenAPI description."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from chat_core import FunctionCall
from chat_core.approvals import owner_may_decide
from chat_core.messages import Approved, Completed, Failed, Pending, Rejected
from chat_core.tools import SchemaChecker
from chat_inbox import Inbox
from chat_inbox.api import json_response, short_hash
from chat_store import MemoryStore
from inbox_helpers import ANSWER, Answer, Bank, Client, anyone, by_header, messages_of, only_ana, until, until_answered

pytestmark = pytest.mark.anyio
ONE = "/api/conversations/chat-17"
CALL = f"{ONE}/calls/call_1"


async def version(client: Client) -> str:
    return str((await client.get(CALL)).json["version"])


def deviations(inbox: Inbox, method: str, path: str, answer: Answer) -> list[str]:
    """Return how the response deviates from the OpenAPI description."""
    document: Any = inbox.openapi()
    responses = document["paths"][path][method]["responses"]
    response = responses.get(str(answer.status), responses["default"])
    (kind, content), *_ = response["content"].items()
    assert answer.headers["content-type"].partition(";")[0] == kind
    return SchemaChecker({**content["schema"], "components": document["components"]}).problems(answer.json)


async def interrupted(store: MemoryStore) -> None:
    async with store.open("chat-17") as conversation:
        tool = conversation.messages.tool("call_1")
        tool.approve()
        tool.start()
        tool.lost("its process is gone")


async def test_waiting_calls_are_listed(client: Client, inbox: Inbox) -> None:
    answer = await client.get("/api/waiting")

    (item,) = answer.json["waiting"]
    assert (item["conversation"], item["call"], item["waits_for"]) == ("chat-17", "call_1", "approval")
    assert item["arguments"]["cents"] == 4000
    assert deviations(inbox, "get", "/api/waiting", answer) == []


async def test_limit_parameter_bounds_the_list_of_waiting_calls(client: Client, store: MemoryStore) -> None:
    await Bank().ask(store, "chat-18")

    assert len((await client.get("/api/waiting?limit=1")).json["waiting"]) == 1
    assert (await client.get("/api/waiting?limit=all")).json["detail"] == (
        "limit must be an integer, such as 50, not 'all'."
    )


async def test_unchanged_resource_returns_304(client: Client) -> None:
    tag = (await client.get(ONE)).headers["etag"]

    assert (await client.get(ONE, if_none_match=tag)).status == 304
    assert (await client.get(ONE, if_none_match='W/"other"')).status == 200


async def test_conversation_lists_its_waiting_calls(client: Client, inbox: Inbox) -> None:
    answer = await client.get(ONE)

    assert answer.json["person"] == "ana@example.com"
    assert [call["name"] for call in answer.json["waiting"]] == ["transfer"]
    assert answer.json["messages"]["version"] == 1
    assert deviations(inbox, "get", "/api/conversations/{conversation}", answer) == []


async def test_call_includes_the_schema_of_its_tool(client: Client, inbox: Inbox) -> None:
    answer = await client.get(CALL)

    assert set(answer.json["schema"]["properties"]) == {"to", "cents", "purpose", "speed", "items"}
    assert deviations(inbox, "get", "/api/conversations/{conversation}/calls/{call}", answer) == []


async def test_approved_call_runs_and_response_is_stored(
    client: Client, inbox: Inbox, store: MemoryStore, bank: Bank
) -> None:
    answer = await client.post(f"{CALL}/approve", {"version": await version(client), "note": "as agreed"})

    assert deviations(inbox, "post", "/api/conversations/{conversation}/calls/{call}/approve", answer) == []
    assert answer.json["decisions"][0]["by"] == "ana"
    assert answer.json["decisions"][0]["note"] == "as agreed"
    assert await until_answered(store) == ANSWER
    assert bank.paid == ["4000 to Maria"]


async def test_approval_with_edited_arguments_runs_them(client: Client, store: MemoryStore, bank: Bank) -> None:
    arguments = {"to": "Maria", "cents": 12345678901234567890}
    answer = await client.post(f"{CALL}/approve", {"version": await version(client), "arguments": arguments})

    assert answer.json["arguments"] == arguments
    assert answer.json["asked"]["cents"] == 4000
    await until_answered(store)
    assert bank.paid == ["12345678901234567890 to Maria"]


async def test_approval_with_invalid_arguments_returns_422_and_leaves_the_call_pending(
    client: Client, store: MemoryStore
) -> None:
    arguments = {"to": "Maria", "cents": -1}
    answer = await client.post(f"{CALL}/approve", {"version": await version(client), "arguments": arguments})

    assert answer.status == 422
    assert "greater than 0" in answer.json["errors"]["cents"]
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_rejection_is_stored_and_its_reason_sent_to_the_model(
    client: Client, store: MemoryStore, bank: Bank
) -> None:
    await client.post(f"{CALL}/reject", {"version": await version(client), "reason": "not this month"})

    await until_answered(store)
    assert isinstance((await messages_of(store)).tool("call_1").status, Rejected)
    assert "not this month" in bank.model.asked[-1].messages.tool("call_1").result_text()


async def test_approval_with_resume_false_starts_no_run(client: Client, store: MemoryStore) -> None:
    await client.post(f"{CALL}/approve", {"version": await version(client), "resume": False})

    assert isinstance((await messages_of(store)).tool("call_1").status, Approved)
    assert [item.conversation for item in await store.due()] == ["chat-17"]


async def test_resume_request_starts_a_run(client: Client, inbox: Inbox, store: MemoryStore) -> None:
    await client.post(f"{CALL}/approve", {"version": await version(client), "resume": False})
    answer = await client.post(f"{ONE}/resume", {})

    assert answer.status == 202
    assert deviations(inbox, "post", "/api/conversations/{conversation}/resume", answer) == []
    assert await until_answered(store) == ANSWER


async def test_interrupted_call_runs_again_after_retry(client: Client, store: MemoryStore, bank: Bank) -> None:
    await interrupted(store)
    shown = (await client.get(CALL)).json
    assert (shown["waits_for"], shown["error"]) == ("interrupted", "its process is gone")

    await client.post(f"{CALL}/retry", {"version": shown["version"]})
    await until_answered(store)
    assert bank.paid == ["4000 to Maria"]


async def test_interrupted_call_can_be_completed(client: Client, store: MemoryStore, bank: Bank) -> None:
    await interrupted(store)
    body = {"version": await version(client), "result": {"receipt": 7}}

    assert (await client.post(f"{CALL}/complete", body)).status == 200
    await until_answered(store)
    status = (await messages_of(store)).tool("call_1").status
    assert isinstance(status, Completed)
    assert status.result == {"receipt": 7}
    assert bank.paid == []


async def test_interrupted_call_can_be_failed(client: Client, store: MemoryStore) -> None:
    await interrupted(store)
    body = {"version": await version(client), "error": "it was never sent"}

    assert (await client.post(f"{CALL}/fail", body)).status == 200
    await until_answered(store)
    assert (await messages_of(store)).tool("call_1").status == Failed("it was never sent")


async def test_retry_of_a_call_that_was_not_interrupted_returns_409(client: Client) -> None:
    answer = await client.post(f"{CALL}/retry", {"version": await version(client)})

    assert answer.status == 409
    assert answer.json["detail"].startswith("This cannot be done: ")


async def test_outdated_version_returns_409_with_the_decider(
    client: Client, inbox: Inbox, store: MemoryStore, bank: Bank
) -> None:
    seen = await version(client)
    async with MemoryStore(beside=store).open("chat-17") as elsewhere:
        elsewhere.messages.tool("call_1").reject("no", by="ben@example.com")
    answer = await client.post(f"{CALL}/approve", {"version": seen})

    assert answer.status == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert "ben@example.com rejected transfer" in answer.json["detail"]
    assert deviations(inbox, "post", "/api/conversations/{conversation}/calls/{call}/approve", answer) == []
    assert bank.paid == []


async def test_decision_without_a_version_returns_400(client: Client, store: MemoryStore) -> None:
    answer = await client.post(f"{CALL}/approve", {})

    assert answer.status == 400
    assert answer.json["errors"] == {"version": "this field is required"}
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("approve", {"arguments": [1]}, "arguments"),
        ("approve", {"reason": "a slip"}, "reason"),
        ("reject", {"reason": 7}, "reason"),
        ("fail", {}, "error"),
        ("complete", {}, "result"),
        ("approve", {"resume": "no"}, "resume"),
    ],
)
async def test_request_with_an_invalid_body_returns_400_and_names_the_field(
    client: Client, action: str, body: dict[str, object], field: str
) -> None:
    answer = await client.post(f"{CALL}/{action}", {"version": await version(client), **body})

    assert answer.status == 400
    assert list(answer.json["errors"]) == [field]


async def test_malformed_json_returns_400(client: Client) -> None:
    for body in (b"{", b"[]", b'{"version": NaN}', b"\xff"):
        answer = await client.request("POST", f"{CALL}/approve", body, content_type="application/json")
        assert answer.status == 400
        assert answer.json["title"] == "Bad Request"


async def test_non_json_or_cross_site_post_is_rejected(client: Client, store: MemoryStore) -> None:
    body = f'{{"version": "{await version(client)}"}}'.encode()
    for headers in (
        {"content_type": "text/plain"},
        {"content_type": "application/json", "sec_fetch_site": "cross-site"},
        {"content_type": "application/json", "origin": "http://elsewhere.example"},
    ):
        assert (await client.request("POST", f"{CALL}/approve", body, **headers)).status in (403, 415)
        assert (await client.request("POST", f"{ONE}/resume", b"{}", **headers)).status in (403, 415)
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_get_request_to_an_action_url_does_not_decide_the_call(client: Client, store: MemoryStore) -> None:
    for action in ("approve", "reject", "retry", "fail", "complete"):
        answer = await client.get(f"{CALL}/{action}")
        assert answer.status in (404, 405)
        assert answer.headers["content-type"] == "application/problem+json"
    assert (await client.get(f"{ONE}/resume")).status == 405
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_unauthenticated_request_returns_401(inbox: Inbox, store: MemoryStore) -> None:
    nobody = Client(inbox, person=None)
    for path in ("/api/waiting", "/api/waiting/stream", ONE, f"{ONE}/stream", CALL):
        assert (await nobody.get(path)).status == 401
    for path in (f"{ONE}/resume", *[f"{CALL}/{word}" for word in ("approve", "reject", "retry", "fail", "complete")]):
        assert (await nobody.post(path, {"version": "1"})).status == 401
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_authorize_hides_conversations_of_other_owners(store: MemoryStore, bank: Bank) -> None:
    def own(person: str, in_charge: str | None) -> bool:
        return person == in_charge

    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone, authorize=own) as inbox:
        ben, ana = Client(inbox, "ben@example.com"), Client(inbox, "ana@example.com")
        seen = (await ana.get(CALL)).json["version"]

        assert (await ben.get("/api/waiting")).json["waiting"] == []
        for path in (ONE, f"{ONE}/stream", CALL):
            assert (await ben.get(path)).status == 404
        assert (await ben.post(f"{CALL}/approve", {"version": seen})).status == 404
        assert (await ben.post(f"{ONE}/resume", {})).status == 404
        assert len((await ana.get("/api/waiting")).json["waiting"]) == 1


async def test_api_lists_only_calls_that_the_person_may_decide(store: MemoryStore, bank: Bank) -> None:
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=only_ana) as inbox:
        ana, ben = Client(inbox, "ana@example.com"), Client(inbox, "ben@example.com")

        for path in ("/api/waiting", ONE):
            assert len((await ana.get(path)).json["waiting"]) == 1
            assert (await ben.get(path)).json["waiting"] == []
        assert (await ben.get("/api/waiting?limit=1")).json["waiting"] == []
        assert (await ana.get(CALL)).json["may_decide"] is True
        assert (await ben.get(CALL)).json["may_decide"] is False
        assert (await ben.get(ONE)).json["messages"]["contents"], "the conversation itself stays visible"


async def test_may_decide_receives_owner_and_conversation_for_the_list(store: MemoryStore, bank: Bank) -> None:
    async with store.open("chat-18", owner="ben@example.com") as opened:
        opened.messages.user("Please pay Maria.")
        await bank.chat.complete(opened)
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=owner_may_decide) as inbox:
        found = (await Client(inbox, "ben@example.com").get("/api/waiting")).json["waiting"]
        assert [item["id"] for item in found] == ["chat-18"]
        assert (await Client(inbox, "ana@example.com").get("/api/waiting")).json["waiting"] == []


async def test_event_streams_do_not_contain_calls(store: MemoryStore, bank: Bank) -> None:
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=only_ana) as inbox:
        ana, ben = Client(inbox, "ana@example.com"), Client(inbox, "ben@example.com")
        seen = (await ana.get(CALL)).json["version"]
        async with ben.follow("/api/waiting/stream") as listed, ben.follow(f"{ONE}/stream") as events:
            await ana.post(f"{CALL}/approve", {"version": seen})
            async for event in listed:
                assert (event.name, event.data) == ("changed", {})
                break
            async for event in events:
                assert "transfer" not in json.dumps(event.data)
                if event.name == "ended":
                    break


async def test_unknown_conversation_or_call_returns_404(client: Client) -> None:
    assert (await client.get("/api/conversations/none")).json["status"] == 404
    assert (await client.get(f"{ONE}/calls/none")).json["status"] == 404
    assert (await client.get(f"{ONE}/calls/call_1,none")).json["status"] == 404
    assert (await client.get("/api/nothing")).json["detail"] == "There is nothing at this address."


async def test_ids_with_special_characters_can_be_used_in_urls(store: MemoryStore, bank: Bank) -> None:
    name, call = "a/b?c#d,e %41 ü.", "f/g,h"
    other = Bank(FunctionCall("transfer", {"to": "Maria", "cents": 1}, id=call), ANSWER)
    await other.ask(store, name)
    async with Inbox(store, chat=other.chat, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox)
        items = (await client.get("/api/waiting")).json["waiting"]
        (item,) = [item for item in items if item["id"] == name]
        one = f"/api/conversations/{quote(item['conversation'], safe='')}"
        shown = (await client.get(f"{one}/calls/{quote(item['call'], safe='')}")).json
        assert shown["path"] == [call]
        assert (await client.get(one)).json["id"] == name


async def test_conversation_stream_delivers_text_and_outcome(client: Client) -> None:
    async with client.follow(f"{ONE}/stream") as events:
        await client.post(f"{CALL}/approve", {"version": await version(client)})
        texts: list[str] = []
        ends: list[object] = []
        async for event in events:
            if event.name == "text":
                texts.append(event.data["text"])
            if event.name == "ended":
                ends.append(event.data)
                break

    assert "".join(texts) == ANSWER
    assert ends == [{"outcome": "answered", "detail": "The model has answered."}]


async def test_list_stream_reports_changes(client: Client, store: MemoryStore) -> None:
    async with client.follow("/api/waiting/stream") as events:
        await Bank().ask(MemoryStore(beside=store), "chat-18")
        await until(events, "changed")

    assert len((await client.get("/api/waiting")).json["waiting"]) == 2


async def test_openapi_document_is_served(client: Client, inbox: Inbox) -> None:
    assert (await client.get("/openapi.json")).json == inbox.openapi()


def test_lone_surrogate_is_encoded_in_json() -> None:
    assert json_response({"text": "\ud800"}).body == b'{"text":"\\ud800"}'
    assert short_hash(b"one") != short_hash(b"two")


async def test_lone_surrogate_in_call_id_is_listed(bank: Bank) -> None:
    store, call = MemoryStore(), "half \ud83d"
    await Bank(FunctionCall("transfer", {"to": "Maria", "cents": 1}, id=call), ANSWER).ask(store)
    client = Client(Inbox(store, authenticate=by_header, may_decide=anyone))
    (item,) = (await client.get("/api/waiting")).json["waiting"]

    assert (await client.get(f"{ONE}/calls/{quote(item['call'], safe='')}")).json["path"] == [call]
    assert (await client.get("/conversations/chat-17")).status == 200


async def test_wrong_method_returns_405_with_allow(client: Client) -> None:
    answer = await client.request("DELETE", "/api/waiting")

    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
