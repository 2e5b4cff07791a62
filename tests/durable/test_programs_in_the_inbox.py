"""The inbox shows a call inside a program of code mode together with the program."""

from __future__ import annotations

import html

import httpx
import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.approvals import Principal
from chat_core.testing import ScriptedProvider
from chat_inbox import Inbox
from chat_pipeline import code_tool
from chat_store import MemoryStore
from starlette.requests import Request

pytestmark = pytest.mark.anyio
PROGRAM = 'total = sum([300, 400])\nreceipt = await pay(total, "<b>shop</b>")\nreceipt'


async def sign_in(_request: Request) -> Principal:
    return Principal("ana")


async def test_the_page_of_a_call_inside_a_program_shows_the_call_its_arguments_and_the_program() -> None:
    tools = ToolCollection()
    paid: list[int] = []

    @tools.tool
    def pay(cents: int, to: str) -> str:
        paid.append(cents)
        return f"paid {to}"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    model = ScriptedProvider(FunctionCall("run_code", {"program": PROGRAM}, id="run"), "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(code_tool(scope)).build()
    store = MemoryStore()
    await store.create(Messages.from_user("Buy."), id="c")
    async with store.open("c") as conversation:
        assert isinstance(await chat.complete(conversation), Paused)

    inbox = Inbox(store, authenticate=sign_in, may_decide=lambda _principal, _wait: True)
    transport = httpx.ASGITransport(app=inbox, client=("127.0.0.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        listed, page = (await client.get("/")).text, (await client.get("/conversations/c")).text

    assert "pay" in listed
    for line in PROGRAM.splitlines():
        assert html.escape(line) in page.replace("&#34;", "&quot;")
    assert "run_code" in page
    assert "<b>shop</b>" not in page
    assert "700" in page
    assert paid == []

    async with store.open("c") as conversation:
        conversation.messages.tool("run", "call_1").approve(by="ana")
        assert isinstance(await chat.complete(conversation), ChatResponse)
    assert paid == [700]
