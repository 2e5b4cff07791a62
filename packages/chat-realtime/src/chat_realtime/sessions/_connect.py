"""`connect()`, which opens a session with a native realtime API."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from chat_core import Chat, ChatOptions, Conversation, Messages, Paused, UsageError
from chat_core.arguments import argument_error, require_callable, require_number, require_type, require_whole
from typing_extensions import TypeVar

from chat_realtime.sessions._settings import SessionLimits, SessionTarget
from chat_realtime.sessions.protocol import RealtimeModel
from chat_realtime.sessions.session import RealtimeSession

PauseT = TypeVar("PauseT", bound=Paused)


def connect(
    model: RealtimeModel,
    chat: Chat[Any, PauseT],
    messages: Messages | Conversation,
    *,
    options: ChatOptions | None = None,
    inject: Mapping[Any, object] | None = None,
    owner: str | None = None,
    transcript_seconds: float = 3.0,
    max_buffered_bytes: int = 16 * 1024 * 1024,
    max_waiting_turns: int = 64,
    max_reconnects: int = 3,
    clock: Callable[[], float] = time.monotonic,
) -> RealtimeSession[PauseT]:
    """Return a session with a realtime model. Use the session with `async with`.

    The session uses the instructions, the tools and the policies of `chat`. The model of `chat` is not called.

    Args:
        model: the realtime model, such as `OpenAIRealtime` or `GeminiLive`.
        chat: the chat whose instructions, tools and policies are used.
        messages: the conversation. The server receives it at the start, and the session appends to it.
        options: options of the session, merged over those of the chat. Only instructions and `max_tokens` are used.
        inject: values by type, for `Injected` parameters of tools.
        owner: the user who owns the conversation. Only for plain `Messages`.
        transcript_seconds: how long tool calls wait for the transcript of the user's message before them.
        max_buffered_bytes: limit on the events that the application has not read, in bytes of audio and text. Above the
            limit, the session stops reading from the server.
        max_waiting_turns: maximum number of turns that are not recorded yet. Above the limit, the session stops
            reading from the server.
        max_reconnects: maximum number of reconnects without a response in between, for sessions that can be resumed.
        clock: returns a monotonic time in seconds, for the estimate of the audio that the user has heard.

    Raises:
        UsageError: an argument is wrong.
    """
    if not isinstance(messages, (Messages, Conversation)):
        msg = f"connect() needs Messages or a Conversation, not {messages!r}"
        raise UsageError(msg)
    if not hasattr(model, "output_format"):
        raise argument_error("model", "a realtime model, such as OpenAIRealtime(...)", model)
    require_type("chat", chat, Chat, "a chat")
    require_callable("clock", clock, "a function that returns seconds")
    for name, value in (("max_buffered_bytes", max_buffered_bytes), ("max_waiting_turns", max_waiting_turns)):
        require_whole(name, value, 1)
    require_number("transcript_seconds", transcript_seconds)
    require_number("max_reconnects", max_reconnects)
    if transcript_seconds < 0 or max_reconnects < 0:
        msg = f"transcript_seconds and max_reconnects must not be negative: {transcript_seconds!r}, {max_reconnects!r}"
        raise UsageError(msg)
    limits = SessionLimits(transcript_seconds, max_buffered_bytes, max_waiting_turns, max_reconnects)
    return RealtimeSession(model, SessionTarget(chat, messages, options, inject, owner), limits, clock)
