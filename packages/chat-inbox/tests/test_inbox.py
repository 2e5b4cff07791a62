"""Inbox application: standalone and mounted, opening and closing."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest
from chat_core import Wait
from chat_core.approvals import Principal, only_role
from chat_core.errors import UsageError
from chat_core.messages import Completed, Pending
from chat_core.testing.scripted import Answer
from chat_inbox import Inbox, TokenSignIn
from chat_inbox.inbox import allow_everyone
from chat_store import MemoryStore
from inbox_helpers import ANSWER, CALL, WAIT, Bank, Client, anyone, by_header, form_for, messages_of, until_answered
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Message

pytestmark = pytest.mark.anyio


class Lifespan:
    """Server side of the ASGI lifespan protocol."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.told: list[str] = []
        self.started = anyio.Event()
        self.leave = anyio.Event()
        self.asked = 0

    async def receive(self) -> Message:
        self.asked += 1
        if self.asked == 1:
            return {"type": "lifespan.startup"}
        await self.leave.wait()
        return {"type": "lifespan.shutdown"}

    async def send(self, message: Message) -> None:
        self.told.append(message["type"])
        self.started.set()

    async def run(self) -> None:
        await self.app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self.receive, self.send)


@pytest.mark.parametrize("mounted", [False, True])
async def test_inbox_serves_requests_standalone_or_mounted(store: MemoryStore, bank: Bank, mounted: bool) -> None:
    inbox = Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone)
    app: ASGIApp = Starlette(routes=[Mount("/inbox", inbox)], lifespan=inbox.lifespan) if mounted else inbox
    root = "/inbox" if mounted else ""
    server = Lifespan(app)
    async with anyio.create_task_group() as group:
        group.start_soon(server.run)
        with anyio.fail_after(WAIT):
            await server.started.wait()
        client = Client(app)
        page = await client.get(f"{root}/conversations/chat-17")
        assert (await client.get(f"{root}/openapi.json")).json["servers"] == [{"url": root or "/"}]
        answer = await client.submit(form_for(page), "Approve")
        assert answer.headers["location"].startswith(f"{root}/conversations/chat-17?")
        assert await until_answered(store) == ANSWER
        for address in [word for word in page.text.split('"') if word.startswith(f"{root}/static/")]:
            assert (await client.get(address)).status == 200
        server.leave.set()

    assert server.told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_opening_an_inbox_twice_raises_usage_error(store: MemoryStore) -> None:
    async with Inbox(store, authenticate=by_header, may_decide=anyone) as inbox:
        with pytest.raises(UsageError, match="already open"):
            async with inbox:
                pass


async def test_closing_the_inbox_waits_for_active_runs(store: MemoryStore) -> None:
    begun = anyio.Event()

    async def say() -> None:
        begun.set()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    bank = Bank(CALL, Answer((ANSWER,), before=say))
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone, grace_seconds=WAIT) as inbox:
        client = Client(inbox)
        await client.submit(form_for(await client.get("/conversations/chat-17")), "Approve")
        with anyio.fail_after(WAIT):
            await begun.wait()

    assert (await messages_of(store))[-1].text == ANSWER


async def test_closing_the_inbox_cancels_runs_after_the_grace_period(store: MemoryStore) -> None:
    begun = anyio.Event()

    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    bank = Bank(CALL, Answer((ANSWER,), before=hang))
    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=anyone, grace_seconds=0) as inbox:
        client = Client(inbox)
        await client.submit(form_for(await client.get("/conversations/chat-17")), "Approve")
        with anyio.fail_after(WAIT):
            await begun.wait()

    assert isinstance((await messages_of(store)).tool("call_1").status, Completed)
    assert [item.conversation for item in await store.due()] == ["chat-17"]


async def test_chat_argument_can_be_a_function_of_the_conversation(store: MemoryStore, bank: Bank) -> None:
    await Bank().ask(store, "chat-18")
    async with Inbox(
        store, chat=lambda name: bank.chat if name == "chat-17" else None, authenticate=by_header, may_decide=anyone
    ) as inbox:
        client = Client(inbox)
        for name in ("chat-17", "chat-18"):
            await client.submit(form_for(await client.get(f"/conversations/{name}")), "Approve")
        await until_answered(store)

    assert [item.conversation for item in await store.due()] == ["chat-18"]


async def test_invalid_chat_and_secret_raise_usage_error(store: MemoryStore) -> None:
    with pytest.raises(UsageError, match="chat must be a chat from ChatBuilder"):
        Inbox(store, chat=cast("Any", "support"), authenticate=by_header, may_decide=anyone)
    with pytest.raises(UsageError, match="secret has 5 bytes, but needs 32"):
        Inbox(store, authenticate=by_header, may_decide=anyone, secret=b"short")


async def test_unexpected_error_returns_500_without_details(store: MemoryStore, bank: Bank) -> None:
    async def broken(_request: object) -> str | None:
        msg = "secret"
        raise RuntimeError(msg)

    inbox = Inbox(store, authenticate=broken, may_decide=anyone)
    for path in ("/", "/api/waiting"):
        sent: list[Message] = []
        client = Client(inbox)

        async def keep(message: Message, sent: list[Message] = sent) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        with pytest.raises(RuntimeError):  # Starlette raises it again for the log of the server
            await inbox(client.scope("GET", path, {}), receive, keep)
        assert sent[0]["status"] == 500
        assert b"the log of the server" in sent[1]["body"]
        assert b"secret" not in sent[1]["body"]


async def test_unknown_url_returns_404(client: Client) -> None:
    assert "There is nothing at this address." in (await client.get("/nothing")).text
    assert "does not accept this HTTP method" in (await client.request("DELETE", "/")).text


def test_allow_everyone_returns_true() -> None:
    assert allow_everyone("ana", "ben")
    assert allow_everyone("ana", None)


async def test_decision_by_a_person_who_may_not_decide_returns_403_and_changes_nothing(
    store: MemoryStore, bank: Bank
) -> None:
    def only_ben(principal: Principal, wait: Wait, /) -> bool:
        assert wait.conversation == "chat-17"
        return principal.name == "ben"

    async with Inbox(store, chat=bank.chat, authenticate=by_header, may_decide=only_ben) as inbox:
        client = Client(inbox)
        call = "/api/conversations/chat-17/calls/call_1"
        seen = (await client.get(call)).json["version"]
        refused = await client.post(f"{call}/approve", {"version": seen})
        assert refused.status == 403
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


def test_inbox_without_may_decide_raises() -> None:
    store = MemoryStore()
    with pytest.raises(TypeError, match="may_decide"):
        Inbox(store, authenticate=by_header)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] - wrong on purpose
    with pytest.raises(UsageError, match="may_decide must be a function"):
        Inbox(store, authenticate=by_header, may_decide=cast("Any", None))


def test_inbox_raises_if_authenticate_is_not_a_function() -> None:
    sign_in: Any = TokenSignIn("ana")
    with pytest.raises(UsageError, match=r"authenticate must be an async function.*TokenSignIn"):
        Inbox(MemoryStore(), authenticate=sign_in, may_decide=sign_in.may_decide)


def test_inbox_raises_for_async_rules() -> None:
    async def rule(*_args: object) -> bool:
        return False

    with pytest.raises(UsageError, match="may_decide must be a plain function"):
        Inbox(MemoryStore(), authenticate=by_header, may_decide=cast("Any", rule))
    with pytest.raises(UsageError, match="authorize must be a plain function"):
        Inbox(MemoryStore(), authenticate=by_header, may_decide=only_role("approver"), authorize=cast("Any", rule))
