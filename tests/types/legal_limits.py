"""Legal: what docs/concepts/types.md advises for programs that a checker misunderstands."""

from __future__ import annotations

from typing import Never, assert_type, overload

from chat_core import (
    ChatBuilder,
    ChatResponse,
    Done,
    Execute,
    FunctionCall,
    Paused,
    ProgressEvent,
    Reject,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
)

from world import Risk, ask_if_high, full, hi, plain, true


@overload
def by_risk(call: FunctionCall, meta: None) -> Execute: ...
@overload
def by_risk(call: FunctionCall, meta: Risk) -> Execute | RequireApproval: ...
def by_risk(call: FunctionCall, meta: Risk | None) -> Execute | RequireApproval:
    return Execute() if meta is None else ask_if_high(call, meta)


def unreachable(call: FunctionCall, meta: None) -> Reject:
    raise ValueError(call, meta)


def text_of(event: ProgressEvent | Done[ChatResponse]) -> str:
    return assert_type(event.response, ChatResponse).text if isinstance(event, Done) else ""


async def l970_the_last_event_as_a_parameter() -> None:
    async with ChatBuilder().with_model(full).build().stream(hi()) as stream:
        texts = [text_of(event) async for event in stream]
    true(texts[-1] == stream.response.text)


def l971_the_overload_for_the_metadata_of_the_collection_first() -> None:
    chat = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(plain, by_risk)).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])


def l972_a_policy_that_always_raises() -> None:
    chat = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(plain, unreachable)).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])


def l973_an_action_from_an_annotated_dictionary(risk: str = "high") -> None:
    actions: dict[str, Reject | RequireApproval] = {"low": Reject("no"), "high": RequireApproval()}
    chat = ChatBuilder().with_model(full).with_interrupted(actions[risk]).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
