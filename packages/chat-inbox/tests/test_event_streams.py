"""Server-sent event streams: resuming, missed events and followers."""

from __future__ import annotations

import pytest
from chat_core.events import TextDelta
from chat_core.messages import Messages
from chat_inbox import Inbox
from chat_inbox.background_runs import BackgroundRuns
from chat_inbox.event_response import OpenStreams
from chat_inbox.event_streams import EventStreams
from chat_inbox.store_watcher import StoreWatcher
from chat_store import MemoryStore
from inbox_helpers import Bank, Client, anyone, by_header, until
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

pytestmark = pytest.mark.anyio


class Served:
    """ASGI application that streams one channel."""

    def __init__(self, store: MemoryStore) -> None:
        self.runs = BackgroundRuns(store, lambda _: None)
        self.streams = EventStreams(StoreWatcher(store, self.runs), "boot", OpenStreams())
        self.channel = self.runs.channel("chat-17")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await self.streams.respond(request, self.channel, "chat-17")(scope, receive, send)


async def test_reconnecting_client_receives_missed_events(store: MemoryStore) -> None:
    served = Served(store)
    served.channel.begin_run(Messages.from_user("hello"))
    position = served.streams.format_position(served.channel)
    for text in ("one ", "two ", "three"):
        served.channel.handle_event(TextDelta(text))

    async with Client(served).follow(f"/?after={position}") as events:
        first = await until(events, "text")
        second = await until(events, "text")
    assert (first.data, second.data) == ({"text": "one "}, {"text": "two "})
    assert first.id == "boot-2"

    async with Client(served).follow(f"/?after={position}", last_event_id=second.id) as events:
        assert (await until(events, "text")).data == {"text": "three"}


@pytest.mark.parametrize(
    "position", ["another-2", "boot-99", "boot-0", "boot-x", "boot-٣", "nonsense", "", "boot-" + "9" * 5000]
)
async def test_unknown_position_yields_a_changed_event(store: MemoryStore, position: str) -> None:
    served = Served(store)
    served.channel.begin_run(Messages.from_user("hello"))
    served.channel.publish_change()
    served.channel.handle_event(TextDelta("more"))

    async with Client(served).follow("/", last_event_id=position or "-") as events:
        assert (await anext(events)).name == "changed"


async def test_disconnected_client_is_not_counted_as_a_follower(store: MemoryStore) -> None:
    served = Served(store)
    served.channel.begin_run(Messages.from_user("hello"))
    async with Client(served).follow("/?after=boot-0") as events:
        await anext(events)
        assert served.channel.followers == 1

    assert served.channel.followers == 0


async def test_page_loaded_before_a_change_receives_a_changed_event(store: MemoryStore, bank: Bank) -> None:
    cursor = (await store.changes()).cursor
    async with Inbox(store, authenticate=by_header, may_decide=anyone) as inbox:
        async with MemoryStore(beside=store).open("chat-17") as elsewhere:
            elsewhere.messages.tool("call_1").approve()
        async with Client(inbox).follow(f"/api/conversations/chat-17/stream?cursor={cursor}") as events:
            assert (await anext(events)).name == "changed"


async def test_changed_event_for_an_outdated_page_is_not_sent_to_other_followers(store: MemoryStore) -> None:
    served = Served(store)
    position = served.streams.format_position(served.channel)
    async with Client(served).follow(f"/?after={position}&cursor=none") as events:
        assert (await anext(events)).name == "changed"

    assert served.channel.number == 0
