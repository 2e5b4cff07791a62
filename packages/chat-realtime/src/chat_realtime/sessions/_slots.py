"""Ordered slots for the turns of a session that are not yet part of its conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, final

from chat_core import Tool, Turn

from chat_realtime.sessions._speech import Speech


@final
class InputSlot:
    """A user message. A spoken message waits for its transcript.

    Attributes:
        item: the server's ID of the message.
        text: the text, or `None` if there is no transcript.
        is_ready: whether `text` is final.
    """

    __slots__ = ("is_ready", "item", "text")

    def __init__(self, item: str, text: str | None = None, *, is_ready: bool = False) -> None:
        self.item: str = item
        self.text: str | None = text
        self.is_ready: bool = is_ready


@final
class SpeechSlot:
    """A response. It waits until the user has heard the response or interrupted it.

    Attributes:
        speech: the response.
    """

    __slots__ = ("speech",)

    def __init__(self, speech: Speech) -> None:
        self.speech: Speech = speech

    @property
    def is_ready(self) -> bool:
        """Whether it is known how much the user has heard."""
        return self.speech.is_settled


@final
class CallsSlot:
    """The tool calls of a response.

    Attributes:
        turn: the turn with the calls.
    """

    __slots__ = ("turn",)

    is_ready: bool = True

    def __init__(self, turn: Turn) -> None:
        self.turn: Turn = turn

    @property
    def tools(self) -> list[Tool]:
        """The calls."""
        return self.turn.tools


@final
class ResumeSlot:
    """A request to continue after decisions about waiting calls."""

    __slots__ = ()

    is_ready: bool = True


Slot: TypeAlias = InputSlot | SpeechSlot | CallsSlot | ResumeSlot


@final
class Slots:
    """The slots of a session, oldest first."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: list[Slot] = []

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def add(self, slot: Slot) -> None:
        """Append a slot."""
        self._slots.append(slot)

    def remove(self, slot: Slot) -> None:
        """Remove a slot that was returned by `next_ready()`."""
        self._slots.remove(slot)

    def find_input(self, item: str) -> InputSlot | None:
        """Return the slot of a user message that has no text yet, or `None`."""
        found = [slot for slot in self._slots if isinstance(slot, InputSlot) and slot.item == item]
        return next((slot for slot in found if not slot.is_ready), None)

    def next_ready(self) -> Slot | None:
        """Return the slot to record next, or `None` if all slots must wait.

        Tool calls, and the user messages before them, do not wait until the user has heard earlier speech.
        """
        has_work = any(isinstance(slot, (CallsSlot, ResumeSlot)) for slot in self._slots)
        for slot in self._slots:
            if slot.is_ready:
                return slot
            if not has_work or not isinstance(slot, SpeechSlot):
                return None
        return None

    @property
    def awaited_input(self) -> InputSlot | None:
        """The user message whose missing transcript delays tool calls, or `None`."""
        has_work = any(isinstance(slot, CallsSlot) for slot in self._slots)
        inputs = [slot for slot in self._slots if isinstance(slot, InputSlot) and not slot.is_ready]
        return inputs[0] if has_work and inputs else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until a response counts as heard if no other event occurs, or `None`."""
        waiting = [slot.speech for slot in self._slots if isinstance(slot, SpeechSlot) and not slot.is_ready]
        return waiting[0].seconds_left if waiting and waiting[0].ended is not None else None
