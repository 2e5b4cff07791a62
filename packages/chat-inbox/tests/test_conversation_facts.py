"""The pages show facts about a conversation that the application adds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from chat_inbox import Inbox
from chat_inbox.conversation_facts import Describe, describe_nothing, load_facts
from chat_store import MemoryStore
from inbox_helpers import Client, anyone, by_header

pytestmark = pytest.mark.anyio
FACTS = [("Workflow", "<b>pay</b>"), ("Task", "transfer"), ("Input", "x" * 301)]


def client_of(store: MemoryStore, describe: Describe) -> Client:
    return Client(Inbox(store, authenticate=by_header, may_decide=anyone, describe=describe))


async def test_the_list_and_the_page_show_the_facts(store: MemoryStore) -> None:
    asked: list[str] = []

    async def describe(conversation: str) -> Sequence[tuple[str, str]]:
        asked.append(conversation)
        return FACTS

    client = client_of(store, describe)
    listed, page = (await client.get("/")).text, (await client.get("/conversations/chat-17")).text

    assert "Workflow &lt;b&gt;pay&lt;/b&gt; · Task transfer" in listed
    assert "<h1>Workflow &lt;b&gt;pay&lt;/b&gt; · Task transfer</h1>" in page
    assert "<dt>Input</dt>" in page
    assert "show all 301 characters" in page
    assert set(asked) == {"chat-17"}


async def test_a_decision_remains_possible_if_the_facts_cannot_be_loaded(store: MemoryStore) -> None:
    async def describe(conversation: str) -> Sequence[tuple[str, str]]:
        raise OSError(conversation)

    client = client_of(store, describe)
    listed, page = await client.get("/"), await client.get("/conversations/chat-17")

    assert (listed.status, page.status) == (200, 200)
    assert "<h1>chat-17</h1>" in page.text
    assert page.forms


async def test_without_facts_the_title_is_the_id() -> None:
    facts = await load_facts(describe_nothing, "chat-17")

    assert (facts.title, facts.rows) == ("chat-17", ())
