"""Legal: chats whose calls wait for a result from outside."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from chat_core import (
    ChatBuilder,
    ChatResponse,
    Defer,
    Execute,
    FunctionCall,
    Paused,
    Reject,
    ScopedCollection,
    StreamingChat,
)

from world import Risk, hi, pays, refuse_if_high, risky, true


def defer_if_high(call: FunctionCall, risk: Risk) -> Execute | Defer | Reject:
    return Defer(expires_in=timedelta(hours=1)) if risk.high else Execute()


async def l132_a_policy_that_defers_may_pause() -> None:
    chat = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, defer_if_high)).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
    outcome = await chat.complete(hi())
    assert_type(outcome, ChatResponse | Paused)
    if isinstance(outcome, Paused):
        true(outcome.waiting[0].kind == "result")


def l133_a_fallback_that_defers_may_pause() -> None:
    scope = ScopedCollection(risky, refuse_if_high, fallback=Defer())
    assert_type(scope, ScopedCollection[Risk, Paused])
    assert_type(ChatBuilder().with_scoped_tools(scope), ChatBuilder[ChatResponse, Paused])


def l134_an_interrupted_call_may_wait_for_its_result() -> None:
    assert_type(ChatBuilder().with_interrupted(Defer()), ChatBuilder[ChatResponse, Paused])
