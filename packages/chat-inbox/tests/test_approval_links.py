"""A link with a bound approval: it shows one call, decides it once, and nothing by being looked at."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any

import pytest
from chat_core.approvals import ApprovalKeys
from chat_core.errors import UsageError
from chat_core.messages import Pending, Rejected
from chat_inbox import Inbox
from chat_store import MemoryStore
from inbox_helpers import ANSWER, Bank, Client, by_header, later, messages_of, until_answered

pytestmark = pytest.mark.anyio
KEYS = ApprovalKeys("k1", {"k1": b"s" * 32})


@pytest.fixture
async def inbox(store: MemoryStore, bank: Bank) -> AsyncGenerator[Inbox]:
    async with Inbox(store, chat=bank.chat, authenticate=by_header, approvals=KEYS) as inbox:
        yield inbox


@pytest.fixture
def client(inbox: Inbox) -> Client:
    """Somebody who is signed in nowhere."""
    return Client(inbox, person=None)


async def link(store: MemoryStore, **terms: Any) -> str:
    return f"/link?token={KEYS.bind('chat-17', await messages_of(store), ['call_1'], **terms)}"


async def test_who_has_the_link_sees_the_call_and_approves_it(client: Client, store: MemoryStore, bank: Bank) -> None:
    page = await client.get(await link(store, person="ana@example.com"))
    assert page.status == 200
    assert "4000" in page.text
    assert "Please pay Maria." not in page.text
    (form,) = page.forms
    answer = await client.submit(form, "Approve")

    assert answer.status == 200
    assert "Approved. It runs, once." in answer.text
    assert await until_answered(store) == ANSWER
    assert bank.paid == ["4000 to Maria"]
    assert (await messages_of(store)).tool("call_1").decisions[0].by == "ana@example.com"


async def test_looking_decides_nothing(client: Client, store: MemoryStore) -> None:
    address = await link(store)
    for query in ("", "&action=approve", "&action=reject"):
        assert (await client.get(address + query)).status == 200
        await client.request("HEAD", address + query)
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_a_link_decides_once(client: Client, store: MemoryStore, bank: Bank) -> None:
    address = await link(store, person="ana@example.com")
    (form,) = (await client.get(address)).forms
    await client.submit(form, "Approve")
    again = await client.submit(form, "Reject")

    assert again.status == 410
    assert "ana@example.com" in again.text
    assert (await client.get(address)).status == 410
    await until_answered(store)
    assert bank.paid == ["4000 to Maria"]


async def test_a_link_rejects_with_a_reason(client: Client, store: MemoryStore, bank: Bank) -> None:
    (form,) = (await client.get(await link(store))).forms
    await client.submit(form, "Reject", **{"Reason, for the model optional": "not this month"})

    await until_answered(store)
    status = (await messages_of(store)).tool("call_1").status
    assert isinstance(status, Rejected)
    assert status.reason == "not this month"
    assert bank.paid == []


async def test_a_link_that_allows_edits_has_a_form(client: Client, store: MemoryStore, bank: Bank) -> None:
    (form,) = (await client.get(await link(store, edits=True))).forms
    wrong = await client.submit(form, "Approve", cents="-1")
    assert wrong.status == 422
    assert "greater than 0" in wrong.text
    assert (await client.submit(form, "Approve", cents="many")).status == 422
    (form,) = wrong.forms
    await client.submit(form, "Approve", cents="35")

    await until_answered(store)
    assert bank.paid == ["35 to Maria"]


async def test_a_link_that_allows_none_has_no_form_and_takes_none(client: Client, store: MemoryStore) -> None:
    (form,) = (await client.get(await link(store, allow=["reject"]))).forms
    assert set(form.fields) == {"token", "text"}
    form.buttons["Approve"] = ("action", "approve")

    answer = await client.submit(form, "Approve")
    assert answer.status == 403
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_a_link_for_somebody_else_decides_nothing(inbox: Inbox, store: MemoryStore) -> None:
    address = await link(store, person="ana@example.com")

    assert (await Client(inbox, "ben@example.com").get(address)).status == 403
    assert (await Client(inbox, "ana@example.com").get(address)).status == 200


async def test_a_link_that_was_changed_or_is_too_old_decides_nothing(client: Client, store: MemoryStore) -> None:
    address = await link(store)
    (form,) = (await client.get(address)).forms
    for token in ("", "nonsense", form.fields["token"][:-2] + "xx"):
        assert (await client.get(f"/link?token={token}")).status == 403
        form.fields["token"] = token
        assert (await client.submit(form, "Approve")).status == 403
    other = ApprovalKeys("k1", {"k1": b"x" * 32})
    forged = other.bind("chat-17", await messages_of(store), ["call_1"])
    assert (await client.get(f"/link?token={forged}")).status == 403
    late = ApprovalKeys("k1", {"k1": b"s" * 32}, now=_past)
    old = late.bind("chat-17", await messages_of(store), ["call_1"], expires_in=timedelta(hours=1))
    assert "expired" in (await client.get(f"/link?token={old}")).text
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


def _past() -> datetime:
    return later(days=-1)


async def test_a_link_to_what_was_deleted_says_so(client: Client, store: MemoryStore) -> None:
    address = await link(store)
    (form,) = (await client.get(address)).forms
    await store.delete("chat-17")

    assert (await client.get(address)).status == 404
    assert (await client.submit(form, "Approve")).status == 404


async def test_a_link_from_another_sites_page_is_not_taken(client: Client, store: MemoryStore) -> None:
    (form,) = (await client.get(await link(store))).forms
    client.site = "cross-site"

    assert (await client.submit(form, "Approve")).status == 403


async def test_without_keys_there_are_no_links(store: MemoryStore) -> None:
    assert (await Client(Inbox(store, authenticate=by_header)).get(await link(store))).status == 404


@pytest.mark.parametrize("action", ["fail", "retry", "complete"])
async def test_a_link_approves_only_where_approve_was_said(client: Client, store: MemoryStore, action: str) -> None:
    (form,) = (await client.get(await link(store))).forms
    form.buttons["Other"] = ("action", action)
    form.fields |= {"text": "it failed", "result": "done"}

    assert (await client.submit(form, "Other")).status == 400
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_a_link_to_an_inbox_that_is_not_open_decides_nothing(store: MemoryStore, bank: Bank) -> None:
    client = Client(Inbox(store, chat=bank.chat, authenticate=by_header, approvals=KEYS), person=None)
    (form,) = (await client.get(await link(store))).forms

    with pytest.raises(UsageError, match="the inbox is not open"):
        await client.submit(form, "Approve")
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
