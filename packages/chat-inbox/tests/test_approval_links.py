"""Bound approval links: show one call, decide it once."""

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
from inbox_helpers import ANSWER, Bank, Client, anyone, by_header, later, messages_of, only_ana, until_answered

pytestmark = pytest.mark.anyio
KEYS = ApprovalKeys("k1", {"k1": b"s" * 32}, may_decide=None)


@pytest.fixture
async def inbox(store: MemoryStore, bank: Bank) -> AsyncGenerator[Inbox]:
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone, approvals=KEYS) as inbox:
        yield inbox


@pytest.fixture
def client(inbox: Inbox) -> Client:
    """Return a client that is not signed in."""
    return Client(inbox, person=None)


async def link(store: MemoryStore, **terms: Any) -> str:
    return f"/link?token={KEYS.bind('chat-17', await messages_of(store), ['call_1'], **terms)}"


async def test_link_shows_the_call_and_approves_it(client: Client, store: MemoryStore, bank: Bank) -> None:
    page = await client.get(await link(store, person="ana@example.com"))
    assert page.status == 200
    assert "4000" in page.text
    assert "Please pay Maria." not in page.text
    (form,) = page.forms
    answer = await client.submit(form, "Approve")

    assert answer.status == 200
    assert "Approved. The call runs once." in answer.text
    assert await until_answered(store) == ANSWER
    assert bank.paid == ["4000 to Maria"]
    assert (await messages_of(store)).tool("call_1").decisions[0].by == "ana@example.com"


async def test_opening_a_link_does_not_decide_the_call(client: Client, store: MemoryStore) -> None:
    address = await link(store)
    for query in ("", "&action=approve", "&action=reject"):
        assert (await client.get(address + query)).status == 200
        await client.request("HEAD", address + query)
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_link_can_be_used_for_one_decision(client: Client, store: MemoryStore, bank: Bank) -> None:
    address = await link(store, person="ana@example.com")
    (form,) = (await client.get(address)).forms
    await client.submit(form, "Approve")
    again = await client.submit(form, "Reject")

    assert again.status == 410
    assert "ana@example.com" in again.text
    assert (await client.get(address)).status == 410
    await until_answered(store)
    assert bank.paid == ["4000 to Maria"]


async def test_link_rejects_the_call_with_a_reason(client: Client, store: MemoryStore, bank: Bank) -> None:
    (form,) = (await client.get(await link(store))).forms
    await client.submit(form, "Reject", **{"Reason, for the model optional": "not this month"})

    await until_answered(store)
    status = (await messages_of(store)).tool("call_1").status
    assert isinstance(status, Rejected)
    assert status.reason == "not this month"
    assert bank.paid == []


async def test_link_with_edits_shows_a_form_for_the_arguments(client: Client, store: MemoryStore, bank: Bank) -> None:
    (form,) = (await client.get(await link(store, edits=True))).forms
    wrong = await client.submit(form, "Approve", cents="-1")
    assert wrong.status == 422
    assert "greater than 0" in wrong.text
    assert (await client.submit(form, "Approve", cents="many")).status == 422
    (form,) = wrong.forms
    await client.submit(form, "Approve", cents="35")

    await until_answered(store)
    assert bank.paid == ["35 to Maria"]


async def test_reject_only_link_refuses_approval(client: Client, store: MemoryStore) -> None:
    (form,) = (await client.get(await link(store, allow=["reject"]))).forms
    assert set(form.fields) == {"token", "text"}
    form.buttons["Approve"] = ("action", "approve")

    answer = await client.submit(form, "Approve")
    assert answer.status == 403
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_link_for_another_person_returns_403(inbox: Inbox, store: MemoryStore) -> None:
    address = await link(store, person="ana@example.com")

    assert (await Client(inbox, "ben@example.com").get(address)).status == 403
    assert (await Client(inbox, "ana@example.com").get(address)).status == 200


async def test_invalid_or_expired_link_does_not_decide_the_call(client: Client, store: MemoryStore) -> None:
    address = await link(store)
    (form,) = (await client.get(address)).forms
    for token in ("", "nonsense", form.fields["token"][:-2] + "xx"):
        assert (await client.get(f"/link?token={token}")).status == 403
        form.fields["token"] = token
        assert (await client.submit(form, "Approve")).status == 403
    other = ApprovalKeys("k1", {"k1": b"x" * 32}, may_decide=None)
    forged = other.bind("chat-17", await messages_of(store), ["call_1"])
    assert (await client.get(f"/link?token={forged}")).status == 403
    late = ApprovalKeys("k1", {"k1": b"s" * 32}, may_decide=None, now=_past)
    old = late.bind("chat-17", await messages_of(store), ["call_1"], expires_in=timedelta(hours=1))
    assert "expired" in (await client.get(f"/link?token={old}")).text
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


def _past() -> datetime:
    return later(days=-1)


async def test_link_to_a_deleted_conversation_returns_404(client: Client, store: MemoryStore) -> None:
    address = await link(store)
    (form,) = (await client.get(address)).forms
    await store.delete("chat-17")

    assert (await client.get(address)).status == 404
    assert (await client.submit(form, "Approve")).status == 404


async def test_cross_site_link_form_is_rejected(client: Client, store: MemoryStore) -> None:
    (form,) = (await client.get(await link(store))).forms
    client.site = "cross-site"

    assert (await client.submit(form, "Approve")).status == 403


async def test_link_returns_404_if_the_inbox_has_no_approval_keys(store: MemoryStore) -> None:
    assert (await Client(Inbox(store, authenticate=by_header, may_decide=anyone)).get(await link(store))).status == 404


@pytest.mark.parametrize("action", ["fail", "retry", "complete"])
async def test_link_returns_400_for_other_actions(client: Client, store: MemoryStore, action: str) -> None:
    (form,) = (await client.get(await link(store))).forms
    form.buttons["Other"] = ("action", action)
    form.fields |= {"fail": {"text": "it failed"}, "complete": {"result": "done"}}.get(action, {})

    assert (await client.submit(form, "Other")).status == 400
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_submitting_a_link_raises_if_the_inbox_is_not_open(store: MemoryStore, bank: Bank) -> None:
    client = Client(
        Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone, approvals=KEYS), person=None
    )
    (form,) = (await client.get(await link(store))).forms

    with pytest.raises(UsageError, match="the inbox is not open"):
        await client.submit(form, "Approve")
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_link_shows_nothing_to_a_person_who_may_not_decide(store: MemoryStore, bank: Bank) -> None:
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=only_ana, approvals=KEYS) as inbox:
        page = await Client(inbox, "ben@example.com").get(await link(store))
        assert page.status == 403
        assert page.forms == []
        assert (await Client(inbox, "ana@example.com").get(await link(store))).forms
