"""Illegal: talks with a model that cannot stream, and input that users cannot send."""

from __future__ import annotations

from typing import Never

from chat_realtime import Talk, converse
from chat_realtime.sessions import OpenAIRealtime, RealtimeSession, connect

from chat_core import ChatBuilder, ChatResponse, ScopedCollection

from fakes import FakeComplete, FakeEmbed
from world import ask_if_high, full, hi, pays, risky

realtime = OpenAIRealtime(api_key="sk-1234567890")
streaming = ChatBuilder().with_model(full).build()
waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()


def p120_a_talk_over_a_chat_that_cannot_stream() -> None:  # R: UsageError: .*can stream
    converse(ChatBuilder().with_model(FakeComplete()).build(), hi())  # E: StreamingChat


def p121_a_talk_over_a_chat_that_embeds() -> None:  # R: UsageError: .*can stream
    converse(ChatBuilder().with_model(FakeEmbed()).with_embeddings().build(), hi())  # E: StreamingChat


def p122_a_talk_over_a_model() -> None:  # R: UsageError: .*can stream
    converse(full, hi())  # E: StreamingChat


def p123_a_talk_with_a_text() -> None:  # R: UsageError: .*needs Messages
    converse(streaming, "hi")  # E: Messages


def p124_tools_are_finished_or_cancelled() -> None:  # R: UsageError: running_tools must be
    converse(streaming, hi(), running_tools="kill")  # E: kill|Literal


async def p125_a_number_is_no_message() -> None:
    async with converse(streaming, hi()) as talk:
        await talk.send(5)  # E: .


def p126_a_talk_that_may_pause_is_no_talk_that_never_does() -> Talk[ChatResponse, Never]:
    return converse(waits, hi())  # E: .


async def p127_the_input_side_has_no_events() -> None:
    async with converse(streaming, hi()) as talk:
        spoken, _ = talk.split()
        async for _event in spoken:  # E: .
            pass


async def p128_the_output_side_accepts_no_input() -> None:
    async with converse(streaming, hi()) as talk:
        _, heard = talk.split()
        await heard.send("hi")  # E: send


def p227_a_session_with_a_text() -> None:  # R: UsageError: .*needs Messages or a Conversation
    connect(realtime, waits, "hi")  # E: Messages


def p228_a_session_that_may_pause_is_no_session_that_never_does() -> RealtimeSession[Never]:
    return connect(realtime, waits, hi())  # E: .


async def p229_audio_is_bytes() -> None:
    async with connect(realtime, waits, hi()) as session:
        await session.send_audio("speech")  # E: bytes|Buffer
