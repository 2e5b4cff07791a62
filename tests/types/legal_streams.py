"""Legal: chats behind the faces of `chat_streams`."""

from __future__ import annotations

from chat_streams.openai import CompletionsEncoder, CompletionsRequest

from chat_core import ChatBuilder, ScopedCollection

from world import hi, pays, refuse_if_high, risky


async def l70_a_chat_that_never_pauses_behind_chat_completions() -> None:
    plain = ChatBuilder().with_model(pays).build()
    refuses = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, refuse_if_high)).build()
    request = CompletionsRequest("m", hi())
    CompletionsEncoder(plain, request)
    CompletionsEncoder(refuses, request)
