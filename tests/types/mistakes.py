"""Frequent mistakes, then correct programs that a checker rejects. `messages/` has the messages of each checker."""

from __future__ import annotations

from typing import Never, NoReturn, assert_type, overload

from chat_core import (
    ChatBuilder,
    ChatResponse,
    Done,
    Execute,
    FunctionCall,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    StreamEvent,
    StreamingChat,
)

from world import Risk, ask_if_high, complete_only, full, hi, pays, plain, risky


async def forgotten_pause() -> None:
    chat = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    answer = await chat.complete(hi())
    print(answer.text)


def build_without_a_model() -> None:
    ChatBuilder().build()


def embeddings_on_a_model_without_them() -> None:
    ChatBuilder().with_model(complete_only).with_embeddings()


def tools_without_a_scope() -> None:
    ChatBuilder().with_model(pays).with_scoped_tools(risky)


def event_of_a_parameter(event: StreamEvent) -> None:
    if isinstance(event, Done):
        assert_type(event.response, ChatResponse)


def overloaded_policy() -> None:
    @overload
    def decide(call: FunctionCall, meta: Risk) -> Execute | RequireApproval: ...
    @overload
    def decide(call: FunctionCall, meta: None) -> Execute: ...
    def decide(call: FunctionCall, meta: Risk | None) -> Execute | RequireApproval:
        return Execute() if meta is None else ask_if_high(call, meta)

    chat = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(plain, decide)).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])


def policy_that_always_raises() -> None:
    def decide(call: FunctionCall, meta: None) -> NoReturn:
        raise ValueError(call, meta)

    chat = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(plain, decide)).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])


def action_from_a_dictionary(risk: str) -> None:
    actions = {"low": Reject("no"), "high": RequireApproval()}
    chat = ChatBuilder().with_model(full).with_interrupted(actions[risk]).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
