"""The protocol for input that arrives while a run is active."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from chat_core.messages import Turn


@runtime_checkable
class LiveInput(Protocol):
    """Protocol for the input of a user who can speak at any time during a stream, passed to `chat.stream()`.

    `chat_realtime.converse()` implements it. Both methods are called in the event loop of the run.
    """

    def take_turns(self) -> Sequence[Turn]:
        """Remove and return the user turns that have arrived, oldest first.

        The run appends them to the conversation before it sends the next request to the model. It does not take turns
        while tool calls are unresolved.
        """
        ...

    def delivered_text(self) -> str:
        """Return the part of the current response that reached the user.

        If the stream is cancelled or closed while the model responds, this text is appended to the conversation as a
        model turn with the finish reason `"interrupted"`. The turn has no tool calls and no reasoning. An empty
        text is not appended.
        """
        ...
