"""Legal: chats served by `chat_streams`."""

from __future__ import annotations

from chat_streams import AGUI
from chat_streams.openai import CompletionsEncoder, CompletionsRequest

from chat_core import ChatBuilder, ScopedCollection
from chat_core.approvals import Principal, owner_may_decide

from world import City, ask_if_high, city, full, hi, pays, refuse_if_high, risky


async def l70_a_chat_that_never_pauses_behind_chat_completions() -> None:
    plain = ChatBuilder().with_model(pays).build()
    refuses = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, refuse_if_high)).build()
    request = CompletionsRequest("m", hi())
    CompletionsEncoder(plain, request)
    CompletionsEncoder(refuses, request)


async def l71_any_streaming_chat_behind_agui() -> None:
    sent: list[bytes] = []

    async def send(data: bytes) -> None:
        sent.append(data)

    agent = AGUI(may_decide=owner_may_decide)
    request = agent.read('{"threadId": "t", "runId": "r", "messages": []}')
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    structured = ChatBuilder().with_model(city).with_structured_output(City).build()
    await agent.run(request, hi(), chat=ChatBuilder().with_model(full).build(), principal=Principal("ana"), send=send)
    await agent.run(request, hi(), chat=waits, principal=Principal("ana"), send=send)
    await agent.run(request, hi(), chat=structured, principal=Principal("ana"), send=send)
    assert len(sent) > len([waits, structured])
