"""The limit on rounds of tool calls, and the closing answer after the last round."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import final

from chat_core import (
    MaxStepsExceededError,
    Messages,
    Middleware,
    OpenStream,
    ProviderRequest,
    ProviderStream,
)
from chat_core.messages import APPLICATION

from chat_agents._changed_stream import change_turn, refuse_calls

CALL_OVER_LIMIT = "The call did not run: the limit of tool calls for this question is reached. Answer without tools."
"""Reason that the model receives for a call after the last round."""


def count_rounds(messages: Messages) -> int:
    """Return the number of responses with tool calls since the last user message.

    Args:
        messages: the conversation. Messages written by this library do not count as user messages.
    """
    rounds = 0
    for role, turn in reversed(messages.live_turns):
        if role == "user" and turn.by is None:
            break
        rounds += role == "model" and turn.by != APPLICATION and bool(turn.tools)
    return rounds


@final
class RoundLimit(Middleware):
    """Middleware that limits rounds of tool calls. Rounds before a pause count, because they are in the history."""

    __slots__ = ("_closing_answer", "_limit")

    def __init__(self, limit: int, *, closing_answer: bool) -> None:
        """Create the middleware.

        Args:
            limit: number of responses whose tool calls may run.
            closing_answer: whether to ask for an answer without tools after the last round.
        """
        self._limit = limit
        self._closing_answer = closing_answer

    def is_reached(self, messages: Messages) -> bool:
        """Return whether a conversation has reached the limit of rounds."""
        return count_rounds(messages) >= max(self._limit, 1)

    def stream(
        self, request: ProviderRequest, open_stream: OpenStream, /
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Open the response stream. After the last round, request a response without tool calls.

        Args:
            request: the request from the engine.
            open_stream: function that opens the stream of the provider.

        Raises:
            MaxStepsExceededError: the closing answer was requested already, or is turned off.
        """
        rounds, last = count_rounds(request.messages), max(self._limit, 1)
        if rounds > last or (rounds == last and not self._closing_answer):
            msg = f"no answer after {rounds} rounds of tool calls: send another message, or raise max_tool_rounds"
            raise MaxStepsExceededError(msg)
        if rounds == last and request.tools:
            request = replace(request, options=replace(request.options, tool_choice="none"))
        stream = open_stream(request)
        return stream if rounds < self._limit else change_turn(stream, partial(refuse_calls, reason=CALL_OVER_LIMIT))
