"""HTML pages without JavaScript: forms, errors and redirects."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import quote

import anyio
import pytest
from chat_core import FunctionCall, Wait
from chat_core.approvals import Principal, owner_may_decide
from chat_core.errors import OverloadedError
from chat_core.messages import Completed, Failed, Messages, Pending, Rejected
from chat_inbox import Inbox
from chat_inbox.security import COOKIE_NAME
from chat_store import MemoryStore
from inbox_helpers import (
    ANSWER,
    CALL,
    OTHER,
    Bank,
    Client,
    anyone,
    by_header,
    form_for,
    later,
    messages_of,
    only_ana,
    until_answered,
    until_condition,
)

pytestmark = pytest.mark.anyio
PAGE = "/conversations/chat-17"
NOTE, REASON = "Note for the record optional", "Reason, for the model optional"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


async def interrupted(store: MemoryStore) -> None:
    async with store.open("chat-17") as conversation:
        tool = conversation.messages.tool("call_1")
        tool.approve()
        tool.start()
        tool.lost("its process is gone")


async def test_list_page_shows_waiting_calls_with_deadlines(store: MemoryStore, client: Client) -> None:
    bank = Bank(OTHER, expires_in=timedelta(hours=5, minutes=30))
    await bank.ask(store, "chat-18", "ben@example.com")
    page = (await client.get("/")).text

    assert "2 pending approvals" in page
    assert "Maria" in page
    assert re.search(r"in 5 h [12]?\d min", page)
    assert "ben@example.com" in page


async def test_empty_list_page_shows_a_message(bank: Bank) -> None:
    async with Inbox(MemoryStore(), authenticate=by_header, may_decide=anyone) as inbox:
        assert "Nothing is pending." in (await Client(inbox).get("/")).text


async def test_long_list_page_is_truncated_with_a_note(client: Client, store: MemoryStore) -> None:
    messages = await messages_of(store)
    for number in range(201):
        await store.create(Messages.from_json(messages.to_json()), id=f"more-{number}")
    page = (await client.get("/")).text

    assert "202 pending approvals" in page
    assert "1 to 25 of 202" in page


async def test_conversation_page_shows_history_and_form(client: Client) -> None:
    page = await client.get(PAGE)

    assert "Please pay Maria." in page.text
    form = form_for(page)
    assert form.fields[form.names["to"]] == "Maria"
    assert form.fields[form.names["cents"]] == "4000"
    assert {"Approve", "Reject"} <= set(form.buttons)


async def test_approved_call_runs_and_the_page_confirms_it(client: Client, store: MemoryStore, bank: Bank) -> None:
    answer = await client.submit(form_for(await client.get(PAGE)), "Approve")

    assert answer.status == 303
    assert answer.headers["location"].startswith(f"{PAGE}?done=call_1#call-")
    assert await until_answered(store) == ANSWER
    page = await client.get(answer.headers["location"])
    assert "Approved." in page.text
    assert "ana approved it" in page.text
    assert ANSWER in page.text
    tool = (await messages_of(store)).tool("call_1")
    assert (tool.edited, tool.decisions[0].by) == (None, "ana")


async def test_notice_of_a_decision_appears_only_for_the_person_who_made_it(client: Client, inbox: Inbox) -> None:
    for done in ("approve", "call_1", "", "outer,call_1", "%25"):
        assert "Approved." not in (await client.get(f"{PAGE}?done={done}")).text
    answer = await client.submit(form_for(await client.get(PAGE)), "Approve")

    assert "Approved." in (await client.get(answer.headers["location"])).text
    assert "Approved." not in (await Client(inbox, "ben").get(answer.headers["location"])).text


async def test_arguments_edited_in_the_form_run(client: Client, store: MemoryStore, bank: Bank) -> None:
    form = form_for(await client.get(PAGE))
    await client.submit(form, "Approve", to="Zoë & <Söhne>", cents="98765432109876543210")

    await until_answered(store)
    assert bank.paid == ["98765432109876543210 to Zoë & <Söhne>"]


async def test_page_of_a_rejected_form_contains_the_address_of_its_conversation(client: Client) -> None:
    page = await client.get(PAGE)
    refused = await client.submit(form_for(page), "Approve", cents="many")

    assert "data-address" not in page.text
    assert refused.status == 422
    assert f'data-address="{PAGE}"' in refused.text


async def test_invalid_form_field_shows_an_error_and_leaves_the_call_pending(
    client: Client, store: MemoryStore
) -> None:
    for text, told in (("many", "is not a whole number"), ("-5", "greater than 0")):
        answer = await client.submit(form_for(await client.get(PAGE)), "Approve", cents=text, to="Ben")

        assert answer.status == 422
        assert told in answer.text
        form = form_for(answer)
        assert form.invalid == {form.names["cents"]}
        assert (form.fields[form.names["cents"]], form.fields[form.names["to"]]) == (text, "Ben")
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_form_can_be_approved_after_its_errors_are_corrected(
    client: Client, store: MemoryStore, bank: Bank
) -> None:
    answer = await client.submit(form_for(await client.get(PAGE)), "Approve", cents="many")
    await client.submit(form_for(answer), "Approve", cents="5")

    await until_answered(store)
    assert bank.paid == ["5 to Maria"]


async def test_form_of_another_schema_is_refused(client: Client, store: MemoryStore) -> None:
    form = form_for(await client.get(PAGE))
    form.fields["schema"] = "of-an-earlier-version"
    refused = await client.submit(form, "Approve")

    assert refused.status == 409
    assert "The arguments of transfer have changed since this page was made" in refused.text
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
    again = await client.submit(form_for(refused), "Approve")
    assert again.status == 303


async def test_add_button_adds_a_list_item(store: MemoryStore) -> None:
    call = FunctionCall("transfer", {"to": "Maria", "cents": 1, "items": [{"name": "tulips", "cents": 1}]}, id="call_1")
    bank = Bank(call, ANSWER)
    await bank.ask(store, "chat-18")
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox)
        form = form_for(await client.get("/conversations/chat-18"))
        longer = await client.submit(form, "Add an item to items", cents="7")
        assert longer.status == 200
        form = form_for(longer)
        assert form.fields[form.names["cents"]] == "7"
        await client.submit(form, "Approve", **{"2": '{"name": "roses", "cents": 6}'})
        await until_answered(store, "chat-18")

    edited = (await messages_of(store, "chat-18")).tool("call_1").edited
    assert edited is not None
    assert edited["items"] == [{"name": "tulips", "cents": 1}, {"name": "roses", "cents": 6}]


async def test_rejection_form_stores_its_reason(client: Client, store: MemoryStore) -> None:
    form = form_for(await client.get(PAGE))
    await client.submit(form, "Reject", **{REASON: "not this month"})

    await until_answered(store)
    status = (await messages_of(store)).tool("call_1").status
    assert isinstance(status, Rejected)
    assert status.reason == "not this month"


async def test_approval_with_a_reason_for_the_model_is_an_error_that_keeps_the_reason(
    client: Client, store: MemoryStore, bank: Bank
) -> None:
    answer = await client.submit(form_for(await client.get(PAGE)), "Approve", **{REASON: "not now", "cents": "5"})
    assert answer.status == 422
    form = form_for(answer)
    assert form.invalid == {"text"}
    assert (form.fields["text"], form.fields[form.names["cents"]]) == ("not now", "5")
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
    await client.submit(form, "Reject")

    await until_answered(store)
    assert (await messages_of(store)).tool("call_1").status == Rejected("not now")


@pytest.mark.parametrize(
    ("button", "label"),
    [
        ("Run it again", "What went wrong, for the model"),
        ("Run it again", "Result"),
        ("Record this result", "What went wrong, for the model"),
        ("Record that it failed", "Result"),
    ],
)
async def test_text_that_contradicts_the_button_is_an_error(
    client: Client, store: MemoryStore, button: str, label: str
) -> None:
    await interrupted(store)
    typed = {"What went wrong, for the model": "it failed"} if button == "Record that it failed" else {}
    answer = await client.submit(form_for(await client.get(PAGE)), button, **{**typed, label: "written"})

    assert answer.status == 422
    assert "this does not belong to the button that you pressed" in answer.text
    assert "written" in form_for(answer).fields.values()
    assert (await messages_of(store)).pending() == [(await messages_of(store)).tool("call_1")]


async def test_interrupted_call_can_be_completed_with_a_json_result(
    client: Client, store: MemoryStore, bank: Bank
) -> None:
    await interrupted(store)
    form = form_for(await client.get(PAGE))
    answer = await client.submit(form, "Record this result", Result="{", **form.choose("The result is", "JSON"))
    assert answer.status == 422
    assert "this is not JSON" in answer.text

    await client.submit(form_for(answer), "Record this result", Result='{"receipt": 7}')
    await until_answered(store)
    status = (await messages_of(store)).tool("call_1").status
    assert isinstance(status, Completed)
    assert status.result == {"receipt": 7}
    assert bank.paid == []


async def test_interrupted_call_can_be_completed_with_a_text_result(client: Client, store: MemoryStore) -> None:
    await interrupted(store)
    await client.submit(form_for(await client.get(PAGE)), "Record this result", Result="sent\nat 9:40")

    await until_answered(store)
    assert (await messages_of(store)).tool("call_1").status == Completed("sent\nat 9:40")


async def test_interrupted_call_can_be_retried(client: Client, store: MemoryStore, bank: Bank) -> None:
    await interrupted(store)
    await client.submit(form_for(await client.get(PAGE)), "Run it again")

    await until_answered(store)
    assert bank.paid == ["4000 to Maria"]


async def test_form_to_fail_a_call_requires_a_message(client: Client, store: MemoryStore) -> None:
    await interrupted(store)
    label = "What went wrong, for the model"
    answer = await client.submit(form_for(await client.get(PAGE)), "Record that it failed")
    assert answer.status == 422

    await client.submit(form_for(answer), "Record that it failed", **{label: "it was never sent"})
    await until_answered(store)
    assert (await messages_of(store)).tool("call_1").status == Failed("it was never sent")


async def test_scheduled_call_can_be_run_immediately(store: MemoryStore, bank: Bank) -> None:
    async with store.open("chat-18") as conversation:
        conversation.messages.append("model", (await messages_of(store))[1].turns[0])
        tool = conversation.messages.tool("call_1")
        tool.adopt(tool.with_status(Pending()))
        tool.schedule(later(hours=1))
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox)
        page = await client.get("/conversations/chat-18")
        assert re.search(r"runs in [3-5]\d min", page.text)
        await client.submit(form_for(page), "Run it now")
        await until_answered(store, "chat-18")

    assert bank.paid == ["4000 to Maria"]


async def test_expired_call_cannot_be_approved(store: MemoryStore, bank: Bank) -> None:
    async with store.open("chat-18") as conversation:
        conversation.messages.append("model", (await messages_of(store))[1].turns[0])
        tool = conversation.messages.tool("call_1")
        tool.adopt(tool.with_status(Pending("approval", expires_at=later(hours=-1))))
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox)
        page = await client.get("/conversations/chat-18")
        form = form_for(page)
        assert "Approve" not in form.buttons
        form.buttons["Approve"] = ("action", "approve")
        late = await client.submit(form, "Approve")
        assert late.status == 409
        assert "expired at" in late.text

        (resume,) = [form for form in page.forms if "Resume" in form.buttons]
        assert (await client.submit(resume, "Resume")).status == 303
        await until_answered(store, "chat-18")

    assert bank.paid == []
    assert "not approved in time" in (await messages_of(store, "chat-18")).tool("call_1").result_text()


async def test_form_of_an_outdated_page_returns_409_and_shows_who_decided(
    client: Client, store: MemoryStore, bank: Bank
) -> None:
    form = form_for(await client.get(PAGE))
    async with MemoryStore(beside=store).open("chat-17") as elsewhere:
        elsewhere.messages.tool("call_1").approve(by="ben@example.com", arguments={"to": "Ben", "cents": 1})
    edits = {"to": "Mira", "cents": "many", NOTE: "as agreed", **form.choose("speed", "fast")}
    answer = await client.submit(form, "Approve", **edits)

    assert answer.status == 409
    assert "ben@example.com approved transfer with other arguments" in answer.text
    for written in (
        "You wrote: as agreed",
        "You edited: to: Mira",
        "You edited: cents: many",
        "You edited: speed: fast",
    ):
        assert written in answer.text
    assert bank.paid == []


@pytest.mark.parametrize("cents", ["5", "many"])
async def test_edits_of_an_outdated_page_are_not_shown_again(client: Client, store: MemoryStore, cents: str) -> None:
    form = form_for(await client.get(PAGE))
    async with MemoryStore(beside=store).open("chat-17") as elsewhere:
        tool = elsewhere.messages.tool("call_1")
        tool.approve(arguments={"to": "Ben", "cents": 1}, by="ben@example.com")
        tool.adopt(tool.with_status(Pending("approval")))
    answer = await client.submit(form, "Approve", cents=cents)

    assert answer.status == 409
    assert "ben@example.com approved transfer with other arguments" in answer.text
    fresh = form_for(answer)
    assert (fresh.fields[fresh.names["to"]], fresh.fields[fresh.names["cents"]]) == ("Ben", "1")
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_only_one_of_several_concurrent_form_decisions_is_stored(
    client: Client, store: MemoryStore, bank: Bank
) -> None:
    form = form_for(await client.get(PAGE))
    statuses: list[int] = []

    async def decide() -> None:
        statuses.append((await client.submit(form, "Approve")).status)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(decide)
    await until_answered(store)

    assert sorted(statuses) == [303, 409, 409, 409, 409]
    assert bank.paid == ["4000 to Maria"]


async def test_calls_of_one_response_can_be_decided_separately(store: MemoryStore) -> None:
    bank = Bank([CALL, OTHER], "Both are settled.")
    await bank.ask(store, "chat-18")
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox)
        await client.submit(form_for(await client.get("/conversations/chat-18"), "call_2"), "Approve")
        await until_condition(store, "chat-18", lambda messages: messages.tool("call_2").resolved)
        await client.submit(form_for(await client.get("/conversations/chat-18"), "call_1"), "Reject")
        assert await until_answered(store, "chat-18") == "Both are settled."

    assert bank.paid == ["900 to Ben"]


async def test_model_error_is_shown_with_a_button_to_resume_the_conversation(store: MemoryStore) -> None:
    bank = Bank(CALL, OverloadedError("the model has no room for now"))
    await bank.ask(store, "chat-18")
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox)
        async with client.follow("/api/conversations/chat-18/stream") as events:
            await client.submit(form_for(await client.get("/conversations/chat-18")), "Approve")
            async for event in events:
                if event.name == "ended":
                    break
        page = await client.get("/conversations/chat-18")
        assert "the model has no room for now" in page.text
        (form,) = page.forms
        assert list(form.buttons) == ["Resume"]
    assert bank.paid == ["4000 to Maria"]


async def test_model_output_is_escaped_in_pages(store: MemoryStore) -> None:
    call = FunctionCall("transfer", {"to": EVIL, "cents": 1, "purpose": EVIL}, id=EVIL)
    bank = Bank([EVIL, call])
    await bank.ask(store, EVIL, EVIL)
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox, person=EVIL)
        list_channel = (await client.get("/")).text
        (item,) = [item for item in (await client.get("/api/waiting")).json["waiting"] if item["id"] == EVIL]
        page = (await client.get(f"/conversations/{quote(item['conversation'])}")).text

    for text in (list_channel, page):
        assert "alert(1)" in text
        assert "<script>" not in text
        assert "<img src=x" not in text
        assert EVIL not in text


async def test_form_is_accepted_in_a_conversation_with_a_lone_surrogate(store: MemoryStore) -> None:
    bank = Bank(["a\ud800b", CALL], ANSWER)
    await bank.ask(store, "chat-18")
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox)
        await client.submit(form_for(await client.get("/conversations/chat-18")), "Approve", cents="2")
        await until_answered(store, "chat-18")

    assert bank.paid == ["2 to Maria"]


# --- Forged requests --------------------------------------------------------------------------------------------------


async def test_form_without_a_valid_token_returns_403(client: Client, store: MemoryStore) -> None:
    form = form_for(await client.get(PAGE))
    for token in ("", "0" * 64, "ü", form.fields["token"][:-1]):
        form.fields["token"] = token
        assert (await client.submit(form, "Approve")).status == 403
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_form_of_an_earlier_run_of_the_server_is_shown_again_with_its_content(
    client: Client, store: MemoryStore, bank: Bank
) -> None:
    form = form_for(await client.get(PAGE))
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as restarted:
        client.app = restarted
        refused = await client.submit(form, "Approve", **{NOTE: "as agreed", "cents": "35"})
        assert refused.status == 403
        assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
        assert "This form has expired" in refused.text
        await client.submit(form_for(refused), "Approve")
        await until_answered(store)

    assert bank.paid == ["35 to Maria"]
    assert (await messages_of(store)).tool("call_1").decisions[0].note == "as agreed"


async def test_form_token_is_bound_to_browser_and_person(client: Client, inbox: Inbox) -> None:
    form = form_for(await client.get(PAGE))
    other_browser, other_person = Client(inbox), Client(inbox, "ben", cookies=dict(client.cookies))
    await other_browser.get(PAGE)

    assert (await other_browser.submit(form, "Approve")).status == 403
    assert (await other_person.submit(form, "Approve")).status == 403
    assert (await Client(inbox).submit(form, "Approve")).status == 403
    assert COOKIE_NAME in client.cookies


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_cross_site_form_returns_403(client: Client, store: MemoryStore, site: str) -> None:
    form = form_for(await client.get(PAGE))
    client.site = site

    assert (await client.submit(form, "Approve")).status == 403
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_resume_form_requires_a_token(client: Client) -> None:
    kind = "application/x-www-form-urlencoded"

    assert (await client.request("POST", f"{PAGE}/resume", b"", content_type=kind)).status == 403
    assert (await client.request("POST", f"{PAGE}/resume", b"", content_type="text/plain")).status == 415


async def test_get_request_to_a_form_url_returns_405(client: Client, store: MemoryStore) -> None:
    form = form_for(await client.get(PAGE))
    for path in (f"{PAGE}/decide", f"{PAGE}/resume"):
        query = "&".join(f"{name}={value}" for name, value in {**form.fields, "action": "approve"}.items())
        assert (await client.get(f"{path}?{query}")).status == 405
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_form_without_a_valid_action_or_call_returns_an_error(client: Client, store: MemoryStore) -> None:
    form = form_for(await client.get(PAGE))

    assert (await client.submit(form)).status == 400
    form.fields["call"] = "none"
    assert (await client.submit(form, "Approve")).status == 404
    kind = "application/x-www-form-urlencoded"
    body = f"token={form.fields['token']}&call=%FF".encode()
    assert (await client.request("POST", f"{PAGE}/decide", body, content_type=kind)).status == 400


async def test_unauthenticated_request_returns_401(inbox: Inbox) -> None:
    nobody = Client(inbox, person=None)
    for path in ("/", PAGE):
        answer = await nobody.get(path)
        assert answer.status == 401
        assert "You are not signed in" in answer.text
        assert "Maria" not in answer.text


async def test_page_of_another_person_returns_404(store: MemoryStore, bank: Bank) -> None:
    async with Inbox(
        store, authenticate=by_header, may_decide=anyone, authorize=lambda person, owner: person == owner
    ) as inbox:
        assert "Maria" not in (await Client(inbox, "ben").get("/")).text
        assert (await Client(inbox, "ben").get(PAGE)).status == 404
        assert (await Client(inbox, "ana@example.com").get(PAGE)).status == 200


async def test_inbox_without_a_chat_stores_decisions_without_running_calls(store: MemoryStore) -> None:
    async with Inbox(store, authenticate=by_header, may_decide=anyone) as inbox:
        client = Client(inbox)
        form = form_for(await client.get(PAGE))
        await client.submit(form, "Approve", arguments='{"to": "Maria", "cents": 1}')

    assert [item.conversation for item in await store.due()] == ["chat-17"]
    assert (await messages_of(store)).tool("call_1").edited == {"to": "Maria", "cents": 1}


async def test_long_conversation_links_to_earlier_turns(store: MemoryStore) -> None:
    messages = Messages()
    for number in range(60):
        messages.user(f"word {number}.")
    await store.create(messages, id="long")
    async with Inbox(store, authenticate=by_header, may_decide=anyone) as inbox:
        page = (await Client(inbox).get("/conversations/long")).text
        every = (await Client(inbox).get("/conversations/long?all=1")).text

    assert "Show 20 earlier turns" in page
    assert "word 19." not in page
    assert "word 0." in every


async def test_page_has_no_form_for_a_call_that_the_person_may_not_decide(store: MemoryStore, bank: Bank) -> None:
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=only_ana) as inbox:
        ana, ben = Client(inbox, "ana@example.com"), Client(inbox, "ben@example.com")
        assert "Nothing is pending." in (await ben.get("/")).text
        assert "1 pending approval" in (await ana.get("/")).text

        page = await ben.get("/conversations/chat-17")
        assert page.status == 200
        assert page.forms == []
        assert "transfer" in page.text


async def test_response_to_a_forbidden_decision_has_no_form(store: MemoryStore, bank: Bank) -> None:
    approvers = {"ana@example.com", "ben@example.com"}

    def may_decide(principal: Principal, _wait: Wait) -> bool:
        return principal.name in approvers

    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=may_decide) as inbox:
        ben = Client(inbox, "ben@example.com")
        form = form_for(await ben.get("/conversations/chat-17"))
        approvers.remove("ben@example.com")
        answer = await ben.submit(form, "Approve", cents="not a number")
        assert answer.status == 403
        assert "You are not allowed to decide on the call to transfer" in answer.text
        assert answer.forms == []
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_form_is_shown_to_the_owner_while_another_call_of_the_conversation_runs(store: MemoryStore) -> None:
    bank = Bank([CALL, OTHER], ANSWER)
    async with store.open("chat-18", owner="ana@example.com") as opened:
        opened.messages.user("Please pay both.")
        await bank.chat.complete(opened)
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=owner_may_decide) as inbox:
        ana = Client(inbox, "ana@example.com")
        await ana.submit(form_for(await ana.get("/conversations/chat-18"), "call_2"), "Approve")
        assert form_for(await ana.get("/conversations/chat-18"), "call_1")
