"""Legal: talks over any chat whose model can stream."""

from __future__ import annotations

from typing import Never, assert_type

from chat_realtime import (
    ResponseInterrupted,
    Talk,
    TalkCancelled,
    TalkEvent,
    TalkInput,
    TalkOutput,
    converse,
)
from chat_realtime.sessions import OpenAIRealtime, RealtimeSession, SessionEvent, connect

from chat_core import ChatBuilder, ChatResponse, Done, File, Paused, ScopedCollection, StructuredResponse, TextDelta

from world import City, ask_if_high, city, full, hi, pays, refuse_if_high, risky


async def l120_a_talk_of_a_chat_that_never_pauses() -> None:
    refuses = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, refuse_if_high)).build()
    assert_type(converse(refuses, hi()), Talk[ChatResponse, Never])
    async with converse(ChatBuilder().with_model(full).build(), hi()) as talk:
        assert_type(talk, Talk[ChatResponse, Never])
        talk.end()
        async for event in talk:
            assert_type(event, TalkEvent[ChatResponse, Never])


async def l121_a_talk_of_a_chat_that_may_pause() -> None:
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    async with converse(waits, hi(), running_tools="cancel", max_queued=1, max_interruptions=1) as talk:
        assert_type(talk, Talk[ChatResponse, Paused])
        async for event in talk:
            match event:
                case Paused():
                    talk.cancel()
                case Done(response):
                    assert_type(response, ChatResponse)
                    talk.cancel()
                case ResponseInterrupted(text):
                    assert_type(text, str)
                case TalkCancelled():
                    break
                case _:
                    pass


async def l122_a_talk_with_structured_output() -> None:
    structured = ChatBuilder().with_model(city).with_structured_output(City).build()
    async with converse(structured, hi()) as talk:
        assert_type(talk, Talk[StructuredResponse[City], Never])
        talk.end()
        async for event in talk:
            assert_type(event, TalkEvent[StructuredResponse[City], Never])


async def l123_the_handles_of_a_talk() -> None:
    async with converse(ChatBuilder().with_model(full).build(), hi()) as talk:
        spoken, heard = talk.split()
        assert_type(spoken, TalkInput)
        assert_type(heard, TalkOutput[ChatResponse, Never])
        await spoken.send("a text", File.from_bytes(b"%PDF-"))
        spoken.end()
        async for event in heard:
            assert_type(event, TalkEvent[ChatResponse, Never])
            if isinstance(event, TextDelta):
                assert_type(event.text, str)


async def l125_a_talk_is_covariant() -> None:
    async with converse(ChatBuilder().with_model(full).build(), hi()) as talk:
        wider: Talk[object, Paused] = talk
        wider.cancel()


async def l227_a_session_has_the_pauses_of_its_chat() -> None:
    model = OpenAIRealtime(api_key="sk-1234567890")
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    refuses = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, refuse_if_high)).build()
    assert_type(connect(model, waits, hi()), RealtimeSession[Paused])
    assert_type(connect(model, refuses, hi()), RealtimeSession[Never])


async def read_a_session_that_never_pauses(session: RealtimeSession[Never]) -> None:
    await session.send_audio(b"")
    async for event in session:
        assert_type(event, SessionEvent[Never])
