"""Legal: calls without a model, middlewares, models by name and single questions."""

from __future__ import annotations

from typing import Never, assert_type

from typing_extensions import override

from chat_core import (
    Abilities,
    Action,
    ChatBuilder,
    ChatProvider,
    ChatResponse,
    FunctionCall,
    Middleware,
    Paused,
    ProviderRequest,
    ReadyChatBuilder,
    ScopedCollection,
    Send,
    StreamingChat,
    StructuredResponse,
    TokenCount,
    Tool,
    Turn,
    ask,
    model,
)

from fakes import FakeFull
from world import City, ask_if_high, city, full, hi, plain, risky


class Quiet(Middleware):
    @override
    async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
        assert_type(request.attempt.number, int)
        return await send(request)


async def l301_a_call_returns_a_tool_or_the_pause_of_the_chat() -> None:
    runs = ChatBuilder().with_model(full).with_tools(plain).build()
    waits = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    assert_type(await runs.call("clock", {}, hi()), Tool)
    assert_type(await waits.call("pay", {"amount": 5}, hi(), id="order-7"), Tool | Paused)
    assert_type(await waits.decide(FunctionCall("pay", {"amount": 5})), Action[Paused])


def l302_a_middleware_changes_no_type() -> None:
    ready = ChatBuilder().with_middleware(Quiet()).with_model(full).with_middleware(Quiet())
    assert_type(ready, ReadyChatBuilder[FakeFull, ChatResponse, Never])


async def l303_one_question() -> None:
    assert_type(await ask(full, "Where?"), ChatResponse)
    assert_type(await ask(city, "Where?", output=City), StructuredResponse[City])


async def l304_a_model_by_name_streams_and_describes_itself() -> None:
    found = model("claude:claude-sonnet-4-5", api_key="k")
    assert_type(found, ChatProvider)
    assert_type(found.metadata.abilities, Abilities)
    assert_type(found.metadata.abilities.context_window, int | None)
    chat = ChatBuilder().with_model(found).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])
    assert_type(await ChatBuilder().with_model(full).build().count_tokens(hi()), TokenCount)
