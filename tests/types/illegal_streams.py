"""Illegal: a chat that can pause, served over an API without pauses."""

from __future__ import annotations

from chat_streams import AGUI
from chat_streams.openai import CompletionsEncoder, CompletionsRequest

from chat_core import ChatBuilder, ClientTools, ScopedCollection
from chat_core.approvals import Principal, owner_may_decide

from world import ask_if_high, complete_only, hi, pays, risky

request = CompletionsRequest("m", hi())


async def x70_approvals_behind_chat_completions() -> None:
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    CompletionsEncoder(waits, request)  # E: Paused


async def x71_functions_of_the_client_behind_chat_completions() -> None:  # R: ClientInputError: This model may wait
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ClientTools()).build()
    CompletionsEncoder(waits, request)  # E: Paused


def x72_a_front_end_without_a_rule_about_decisions() -> None:  # R: TypeError: .*may_decide
    AGUI()  # E: may_decide


async def x73_a_front_end_of_a_chat_that_cannot_stream() -> None:  # R: AttributeError: .*stream
    async def send(_data: bytes) -> None: ...

    agent = AGUI(may_decide=owner_may_decide)
    request = agent.read('{"threadId": "t", "runId": "r", "messages": []}')
    chat = ChatBuilder().with_model(complete_only).build()
    await agent.run(request, hi(), chat=chat, principal=Principal("ana"), send=send)  # E: StreamingChat


async def x74_a_front_end_of_nobody() -> None:  # R: TypeError: .*principal
    async def send(_data: bytes) -> None: ...

    agent = AGUI(may_decide=owner_may_decide)
    request = agent.read('{"threadId": "t", "runId": "r", "messages": []}')
    chat = ChatBuilder().with_model(pays).build()
    await agent.run(request, hi(), chat=chat, send=send)  # E: principal
