"""The list of pending approvals as HTML, and decisions about several calls."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from chat_core import FunctionCall
from chat_core.approvals import Principal
from chat_core.messages import Messages, Pending, Rejected
from chat_inbox import Inbox
from chat_inbox.security import COOKIE_NAME, FormTokens
from chat_store import MemoryStore
from inbox_helpers import (
    ANSWER,
    OTHER,
    Answer,
    Bank,
    Client,
    Form,
    anyone,
    by_header,
    messages_of,
    only_ana,
    until_answered,
)

pytestmark = pytest.mark.anyio
NOTE, REASON = "Note for the record optional", "Reason, for the model optional"


async def copies(store: MemoryStore, count: int) -> None:
    text = (await messages_of(store)).to_json()
    for number in range(count):
        await store.create(Messages.from_json(text), id=f"more-{number}")


def bulk_form(page: Answer, *, select: bool = True) -> Form:
    """Return the form of the list, or of the confirmation, with all calls selected."""
    (form,) = [form for form in page.forms if form.action.startswith("/decide")]
    if select:
        form.fields |= form.boxes
    return form


async def follow(client: Client, answer: Answer) -> Answer:
    """Return the page to which a response redirects."""
    assert answer.status == 303
    return await client.get(answer.headers["location"])


async def test_row_shows_the_request_the_description_and_all_arguments(store: MemoryStore, client: Client) -> None:
    purpose = "flowers, " * 40 + "tulips"
    arguments = {"to": "Ben", "cents": 1, "purpose": purpose, "speed": "slow", "items": None}
    bank = Bank(FunctionCall("transfer", arguments, id="call_1"), ANSWER)
    await bank.ask(store, "chat-18")
    page = (await client.get("/?conversation=chat-18")).text

    assert "Please pay Maria." in page
    assert "Send money to somebody." in page
    assert purpose in page
    assert "show all 366 characters" in page
    assert "1 more argument" in page
    assert "items" in page


async def test_list_is_searched_and_filtered(store: MemoryStore, client: Client) -> None:
    await Bank(OTHER, ANSWER).ask(store, "chat-18", "ben@example.com")

    for query, shown, hidden in (
        ("q=ben", "chat-18", "chat-17"),
        ("person=ana@example.com", "chat-17", "chat-18"),
        ("conversation=chat-18", "chat-18", "chat-17"),
    ):
        page = (await client.get(f"/?{query}")).text
        assert f"conversations/{shown}" in page
        assert f"conversations/{hidden}" not in page
        assert "Filtered from 2." in page
    assert "None of the 2 pending approvals matches." in (await client.get("/?q=nobody")).text
    assert "None of the 2 pending approvals matches." in (await client.get("/?age=hour")).text


async def test_invalid_filter_is_refused_with_the_known_values(client: Client) -> None:
    answer = await client.get("/?sort=size")

    assert answer.status == 400
    assert "sort must be one of" in answer.text


async def test_list_has_pages_and_keeps_the_filters(store: MemoryStore, client: Client) -> None:
    await copies(store, 26)
    first = (await client.get("/?tool=transfer")).text
    second = (await client.get("/?tool=transfer&page=2")).text

    assert "1 to 25 of 27" in first
    assert 'href="/?tool=transfer&amp;page=2" rel="next"' in first
    assert "26 to 27 of 27" in second
    assert 'href="/?tool=transfer" rel="prev"' in second
    assert "26 to 27 of 27" in (await client.get("/?page=9")).text


async def test_selected_calls_are_decided_after_one_confirmation(
    store: MemoryStore, client: Client, bank: Bank
) -> None:
    await copies(store, 1)
    asked = await client.submit(bulk_form(await client.get("/?sort=tool")), "Approve selected …")
    assert asked.status == 200
    assert "Approve 2 calls?" in asked.text
    assert asked.text.count("Please pay Maria.") == 2
    assert bank.paid == []
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
    form = bulk_form(asked)
    assert form.action == "/decide?sort=tool"
    done = await follow(client, await client.submit(form, "Approve 2 calls", **{NOTE: "checked"}))

    assert "2 of 2 calls approved" in done.text
    for conversation in ("chat-17", "more-0"):
        assert await until_answered(store, conversation) == ANSWER
        (decision,) = (await messages_of(store, conversation)).tool("call_1").decisions
        assert (decision.by, decision.note) == ("ana", "checked")
    assert bank.paid == ["4000 to Maria"] * 2


async def test_selected_calls_are_rejected_with_a_reason(store: MemoryStore, client: Client, bank: Bank) -> None:
    asked = await client.submit(bulk_form(await client.get("/")), "Reject selected …")
    done = await follow(client, await client.submit(bulk_form(asked), "Reject 1 call", **{REASON: "not now"}))

    assert "1 of 1 call rejected" in done.text
    assert (await messages_of(store)).tool("call_1").status == Rejected("not now")
    assert bank.paid == []


async def test_page_of_the_outcomes_can_be_loaded_again_and_names_the_filters(
    store: MemoryStore, client: Client, bank: Bank
) -> None:
    asked = await client.submit(bulk_form(await client.get("/?sort=tool")), "Approve selected …")
    stored = await client.submit(bulk_form(asked), "Approve 1 call")
    for _ in range(2):
        done = await follow(client, stored)
        assert "1 of 1 call approved" in done.text
        assert 'href="/?sort=tool"' in done.text
    await until_answered(store)

    assert bank.paid == ["4000 to Maria"]
    assert "0 of 1 call rejected" in (await client.get(stored.headers["location"].replace("=approve", "=reject"))).text


async def test_confirmation_of_an_earlier_run_of_the_server_keeps_what_was_written(
    store: MemoryStore, client: Client, bank: Bank
) -> None:
    form = bulk_form(await client.submit(bulk_form(await client.get("/")), "Reject selected …"))
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as restarted:
        client.app = restarted
        refused = await client.submit(form, "Reject 1 call", **{NOTE: "checked", REASON: "not now"})
        assert refused.status == 403
        assert "This form has expired" in refused.text
        assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
        await client.submit(bulk_form(refused), "Reject 1 call")

    tool = (await messages_of(store)).tool("call_1")
    assert (tool.status, tool.decisions[0].note) == (Rejected("not now"), "checked")


async def test_list_after_a_form_without_a_selection_can_be_used_again(client: Client) -> None:
    form = bulk_form(await client.get("/?tool=transfer"), select=False)
    answer = await client.submit(form, "Approve selected …")

    assert answer.status == 422
    assert "Select at least one call" in answer.text
    assert 'data-address="/?tool=transfer"' in answer.text
    assert (await client.submit(bulk_form(answer), "Approve selected …")).status == 200
    assert (await client.submit(bulk_form(answer))).status == 400


async def test_call_that_changed_is_not_part_of_the_confirmation(store: MemoryStore, client: Client) -> None:
    form = bulk_form(await client.get("/"))
    async with MemoryStore(beside=store).open("chat-17") as elsewhere:
        elsewhere.messages.tool("call_1").reject(by="ben@example.com")
    answer = await client.submit(form, "Approve selected …")

    assert answer.status == 409
    assert "Nothing to approve" in answer.text
    assert "ben@example.com rejected transfer" in answer.text


async def test_call_that_changes_after_the_confirmation_was_shown_is_not_decided(
    store: MemoryStore, client: Client, bank: Bank
) -> None:
    form = bulk_form(await client.submit(bulk_form(await client.get("/")), "Approve selected …"))
    async with MemoryStore(beside=store).open("chat-17") as elsewhere:
        elsewhere.messages.tool("call_1").reject(by="ben@example.com")
    done = await client.submit(form, "Approve 1 call")

    assert done.status == 409
    assert "0 of 1 call approved" in done.text
    assert "ben@example.com rejected transfer" in done.text
    assert bank.paid == []


async def test_a_decision_that_was_refused_is_not_shown_as_stored(store: MemoryStore, client: Client) -> None:
    chosen = bulk_form(await client.get("/"))
    first, second = [bulk_form(await client.submit(chosen, "Reject selected …")) for _ in range(2)]
    first.fields["text"], second.fields["text"] = "the first reason", "the second reason"
    stored, refused = [await client.submit(form, "Reject 1 call") for form in (first, second)]
    assert "1 of 1 call rejected" in (await follow(client, stored)).text
    assert "0 of 1 call rejected" in refused.text
    assert "Your reason: the second reason" in refused.text
    assert len(refused.forms) == 0
    status = (await messages_of(store)).tool("call_1").status
    assert isinstance(status, Rejected)
    assert status.reason == "the first reason"


async def test_what_the_user_wrote_can_be_sent_again_for_calls_that_were_refused(
    store: MemoryStore, client: Client
) -> None:
    await copies(store, 2)
    form = bulk_form(await client.submit(bulk_form(await client.get("/?sort=tool")), "Reject selected …"))
    async with MemoryStore(beside=store).open("more-0") as elsewhere:
        elsewhere.messages.tool("call_1").reject(by="ben@example.com")
    form.fields["call:more-1/call_1"] = "0-0"  # the version before a change of the call
    written = {REASON: "not <now>", NOTE: "\u200bchecked"}
    refused = await client.submit(form, "Reject 3 calls", **written)

    assert refused.status == 200
    assert "1 of 3 calls rejected" in refused.text
    assert "Your reason: not &lt;now&gt;" in refused.text
    assert "Your note: \\u200bchecked" in refused.text
    assert isinstance((await messages_of(store, "more-1")).tool("call_1").status, Pending)
    again = bulk_form(await client.submit(bulk_form(refused), "Reject the call that can still be decided …"))
    assert again.action == "/decide?sort=tool"
    assert "1 of 1 call rejected" in (await follow(client, await client.submit(again, "Reject 1 call"))).text
    tool = (await messages_of(store, "more-1")).tool("call_1")
    assert (tool.status, tool.decisions[0].note) == (Rejected("not <now>"), "\u200bchecked")


async def test_what_the_user_wrote_is_shown_if_no_selected_call_can_be_decided(
    store: MemoryStore, client: Client
) -> None:
    form = bulk_form(await client.submit(bulk_form(await client.get("/")), "Reject selected …"))
    async with MemoryStore(beside=store).open("chat-17") as elsewhere:
        elsewhere.messages.tool("call_1").reject(by="ben@example.com")
    form.fields["token"] = "of an earlier run of the server"
    answer = await client.submit(form, "Reject 1 call", **{REASON: "not now"})

    assert "Nothing to reject" in answer.text
    assert "Your reason: not now" in answer.text


async def test_addresses_of_a_long_selection_are_short(store: MemoryStore, client: Client) -> None:
    text = (await messages_of(store)).to_json()
    for number in range(24):
        await store.create(Messages.from_json(text), id=f"{number}/{'long name/' * 30}")
    page = await client.get("/?tool=transfer")
    assert page.text.count('formmethod="post" formaction="/decide?tool=transfer"') == 2
    form = bulk_form(page)
    form.method, form.action = "post", "/decide?tool=transfer"
    empty = await client.submit(bulk_form(page, select=False), "Approve selected …")
    assert "Select at least one call" in empty.text
    asked = bulk_form(await client.submit(form, "Approve selected …"))
    assert asked.action == "/decide?tool=transfer"
    done = await client.submit(asked, "Approve 25 calls")

    assert done.status == 200
    assert "25 of 25 calls approved" in done.text
    assert 'href="/?tool=transfer"' in done.text


async def test_addresses_of_a_short_selection_can_be_loaded_again(client: Client) -> None:
    assert "formmethod" not in (await client.get("/")).text


async def test_a_decision_is_stored_only_from_the_page_that_asks_for_a_confirmation(
    store: MemoryStore, client: Client
) -> None:
    form = bulk_form(await client.submit(bulk_form(await client.get("/")), "Approve selected …"))
    del form.fields["confirmed"]
    assert "Approve 1 call?" in (await client.submit(form, "Approve 1 call")).text
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_a_link_does_not_fill_in_the_words_of_the_user(client: Client) -> None:
    form = bulk_form(await client.submit(bulk_form(await client.get("/")), "Reject selected …"))
    words = {"text": "words+of+a+link", "note": "words+of+a+link"}
    query = "&".join(f"{name}={quote(value)}" for name, value in {**form.fields, **words, "action": "reject"}.items())
    assert "words" not in bulk_form(await client.get(f"/decide?{query}")).fields["note"]


# --- Forged requests --------------------------------------------------------------------------------------------------


async def test_bulk_form_requires_a_token_of_this_person_and_site(
    store: MemoryStore, client: Client, inbox: Inbox
) -> None:
    button = "Approve 1 call"
    form = bulk_form(await client.submit(bulk_form(await client.get("/")), "Approve selected …"))
    ben = Client(inbox, "ben", cookies=dict(client.cookies))
    assert (await ben.submit(form, button)).status == 403
    client.site = "cross-site"
    assert (await client.submit(form, button)).status == 403
    client.site, form.fields["token"] = "same-origin", "0" * 64
    assert (await client.submit(form, button)).status == 403
    query = "&".join(f"{name}={quote(value)}" for name, value in {**form.fields, "action": "approve"}.items())
    assert (await client.get(f"/decide?{query}")).status == 200
    assert (await client.get(f"/decided?{query}")).status == 200
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_person_who_may_not_decide_gets_no_selected_call(store: MemoryStore, bank: Bank) -> None:
    secret = b"s" * 32
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=only_ana, secret=secret) as inbox:
        ana, ben = Client(inbox, "ana@example.com"), Client(inbox, "ben@example.com")
        mine = bulk_form(await ana.get("/"))
        assert "transfer" not in (await ben.get("/")).text
        answer = await ben.submit(mine, "Approve selected …")
        assert answer.status == 409
        assert "You are not allowed to decide" in answer.text
        form = bulk_form(await ana.submit(mine, "Approve selected …"))
        form.fields["token"] = FormTokens(secret).sign(ben.cookies[COOKIE_NAME], Principal("ben@example.com"))
        done = await ben.submit(form, "Approve 1 call")
        assert "You are not allowed to decide" in done.text
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_list_shows_no_request_of_a_conversation_that_the_person_may_not_see(
    store: MemoryStore, bank: Bank
) -> None:
    async with Inbox(
        store, chat=bank.chat, authenticate=by_header, may_decide=anyone, may_see=lambda _person, _snapshot: False
    ) as inbox:
        page = await Client(inbox).get("/")

    assert "transfer" in page.text
    assert "Please pay Maria." not in page.text
    assert bulk_form(page).boxes == {}
