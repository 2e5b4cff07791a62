"""Fixtures of an inbox with one waiting call."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from chat_inbox import Inbox
from chat_store import MemoryStore
from inbox_helpers import Bank, Client, anyone, by_header


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
async def store(bank: Bank) -> MemoryStore:
    """A store in which `call_1` of `chat-17` waits."""
    store = MemoryStore()
    await bank.ask(store)
    return store


@pytest.fixture
async def inbox(store: MemoryStore, bank: Bank) -> AsyncGenerator[Inbox]:
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone) as inbox:
        yield inbox


@pytest.fixture
def client(inbox: Inbox) -> Client:
    return Client(inbox)
