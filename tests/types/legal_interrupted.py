"""Legal: values of stored conversations, and structured answers in a stream."""

from __future__ import annotations

from typing import Never, TypeVar, assert_type

from chat_core import (
    Chat,
    ChatBuilder,
    ChatResponse,
    Conversation,
    Done,
    FunctionCall,
    Interrupted,
    Messages,
    Paused,
    ProgressEvent,
    ReadyChatBuilder,
    Reject,
    RequireApproval,
    Schedule,
    ScopedCollection,
    StreamingChat,
    StructuredDelta,
    StructuredResponse,
    Text,
    Tool,
    ToolStatus,
    Turn,
    Withhold,
)

from fakes import FakeFull
from legal_builder import bare
from world import LATER, City, ask_if_high, city, complete_only, full, hi, pays, refuse_if_high, risky, true

AddedT = TypeVar("AddedT", bound=Paused)


def interrupted(status: ToolStatus) -> Messages:
    """Return a conversation whose process died during a payment."""
    messages = hi()
    messages.append("model", Turn([Tool(FunctionCall("pay", {"amount": 500}), call_id="call_1", status=status)]))
    return messages


async def l80_a_person_is_asked_about_interrupted_calls() -> None:
    builder = ChatBuilder().with_tools(risky).with_interrupted(RequireApproval())
    assert_type(builder, ChatBuilder[ChatResponse, Paused])
    chat = builder.with_model(pays).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
    result = await chat.complete(interrupted(Interrupted()))
    assert_type(result, ChatResponse | Paused)
    true(isinstance(result, Paused) and result.reason == "Interrupted")


async def l81_interrupted_calls_are_rejected() -> None:
    ready = ChatBuilder().with_model(pays).with_tools(risky).with_interrupted(Reject("ask again"))
    assert_type(ready, ReadyChatBuilder[FakeFull, ChatResponse, Never])
    answer = await ready.build().complete(interrupted(Interrupted()))
    assert_type(answer, ChatResponse)
    true(answer.text == "paid")
    await bare(ready.build())


async def l82_after_the_model_and_among_other_options() -> None:
    ready = ChatBuilder().with_model(complete_only).with_interrupted(Schedule(LATER)).with_retry(1)
    assert_type(ready.build(), Chat[ChatResponse, Paused])
    structured = ready.with_structured_output(City)
    assert_type(structured.build(), Chat[StructuredResponse[City], Paused])


async def l83_beside_scopes() -> None:
    never = ScopedCollection(risky, refuse_if_high)
    maybe = ScopedCollection(risky, ask_if_high)
    ready = ChatBuilder().with_model(full)
    rejects = ready.with_interrupted(Reject("no"))
    assert_type(rejects.with_scoped_tools(never).build(), StreamingChat[ChatResponse, Never])
    assert_type(rejects.with_scoped_tools(maybe).build(), StreamingChat[ChatResponse, Paused])
    asks = ready.with_scoped_tools(never).with_interrupted(RequireApproval())
    assert_type(asks.build(), StreamingChat[ChatResponse, Paused])


def careful(strict: bool) -> Reject | RequireApproval:
    return RequireApproval() if strict else Reject("no")


def guarded(action: Withhold[AddedT]) -> ChatBuilder[ChatResponse, AddedT]:
    return ChatBuilder().with_interrupted(action)


async def l84_actions_that_are_computed() -> None:
    assert_type(ChatBuilder().with_interrupted(careful(strict=True)), ChatBuilder[ChatResponse, Paused])
    declared: Withhold = RequireApproval()
    assert_type(ChatBuilder().with_interrupted(declared), ChatBuilder[ChatResponse, Paused])
    assert_type(guarded(Reject("no")), ChatBuilder[ChatResponse, Never])
    assert_type(guarded(RequireApproval()), ChatBuilder[ChatResponse, Paused])


async def l85_inside_another_chat() -> None:
    inner = ChatBuilder().with_model(full).with_interrupted(RequireApproval()).build()
    tool = inner.as_tool(name="inner", description="Answers.")
    outer = ChatBuilder().with_model(full).with_scoped_tools(tool).build()
    assert_type(outer, StreamingChat[ChatResponse, Paused])


async def resume(chat: Chat, conversation: Conversation) -> ChatResponse:
    answer = await chat.complete(conversation)
    assert_type(answer, ChatResponse)
    return answer


async def resume_or_wait(chat: StreamingChat[ChatResponse, Paused], target: Messages | Conversation) -> str:
    async with chat.stream(target) as stream:
        async for event in stream:
            assert_type(event, ProgressEvent | Done[ChatResponse] | Paused)
    result = stream.response
    assert_type(result, ChatResponse | Paused)
    return "paused" if isinstance(result, Paused) else result.text


async def l86_a_conversation_in_place_of_messages() -> None:
    chat = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    true(await resume_or_wait(chat, hi()) == "paused")
    true(resume)


async def l87_structured_answers_in_a_stream() -> None:
    chat = ChatBuilder().with_model(city).with_structured_output(City).build()
    text = ""
    async with chat.stream(hi()) as stream:
        async for event in stream:
            assert_type(event, ProgressEvent | Done[StructuredResponse[City]])
            match event:
                case StructuredDelta(delta):
                    assert_type(event.snapshot(), object)
                    text += delta
                case Done(response):
                    assert_type(response.value, City)
                    true(response.raw == text)
                case _:
                    pass
    assert_type(stream.response, StructuredResponse[City])
    true(stream.response.value == City("Utrecht"))


async def l88_a_structured_answer_keeps_its_turn() -> None:
    answer = await ChatBuilder().with_model(city).with_structured_output(City).build().complete(hi())
    assert_type(answer.turn, Turn)
    true(answer.turn.parts == (Text(answer.raw),))
