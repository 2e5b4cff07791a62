"""A response of the model, and the part of it that reached the user."""

from __future__ import annotations

from typing import final

from chat_core import TextDelta

from chat_realtime.sessions.events import AudioDelta, ResponseEnded, TranscriptDelta
from chat_realtime.sessions.playback import Playback


@final
class Speech:
    """One response of the model, spoken or written.

    Args:
        playback: position up to which the user has heard the audio of the session.

    Attributes:
        ended: how the response ended, or `None` while the server sends it.
        was_cut: whether the response was interrupted before the user had received all of it.
    """

    __slots__ = ("_heard", "_items", "_playback", "_received", "_start", "_taken", "_texts", "ended", "was_cut")

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self._items: dict[str, int] = {}
        self._texts: list[str] = []
        self._taken: list[str] = []
        self._received = 0
        self._start: int | None = None
        self._heard: int | None = None
        self.ended: ResponseEnded | None = None
        self.was_cut: bool = False

    def receive(self, event: AudioDelta | TranscriptDelta | TextDelta) -> None:
        """Add an event that the server sent."""
        if isinstance(event, AudioDelta):
            self._items[event.item] = self._items.get(event.item, 0) + len(event.data)
            self._received += len(event.data)
        else:
            self._texts.append(event.text)

    def take(self, event: AudioDelta | TranscriptDelta | TextDelta) -> None:
        """Count an event that the application has received."""
        if isinstance(event, AudioDelta):
            if self._start is None:
                self._start = self._playback.delivered
            self._playback.deliver(len(event.data))
        elif isinstance(event, TextDelta):
            self._taken.append(event.text)

    @property
    def is_spoken(self) -> bool:
        """Whether the response has audio."""
        return self._received > 0

    @property
    def is_settled(self) -> bool:
        """Whether it is known how much of the response the user has received."""
        if self.was_cut:
            return self.ended is not None
        return self.ended is not None and self._heard_now() >= self._received

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the user will have heard the response, or `None` if that is unknown."""
        return None if self._start is None else self._playback.seconds_until(self._start + self._received)

    def _heard_now(self) -> int:
        if self._heard is not None:
            return self._heard
        return 0 if self._start is None else max(0, min(self._playback.heard - self._start, self._received))

    def cut(self) -> dict[str, int]:
        """End the response at the position up to which the user has heard it.

        Returns:
            The number of heard bytes of each message that the user has not heard completely.
        """
        self.was_cut = True
        self._heard = self._heard_now()
        left, result = self._heard, dict[str, int]()
        for item, size in self._items.items():
            heard = min(left, size)
            left -= heard
            if heard < size or self.ended is None:
                result[item] = heard
        return result

    def full_text(self) -> str:
        """Return the text that the server sent."""
        return "".join(self._texts)

    def text(self) -> str:
        """Return the text that the user received. Speech that was cut ends between two words.

        Servers do not report which audio belongs to which word, so the text ends in proportion to the audio.
        """
        whole = self.full_text()
        if not self.was_cut:
            return whole
        if not self.is_spoken:
            return "".join(self._taken)
        heard = self._heard_now()
        if heard >= self._received and self.ended is not None and self.ended.status == "completed":
            return whole
        end = len(whole) * heard // self._received
        return whole[: whole.rfind(" ", 0, end + 1) + 1].rstrip() if end < len(whole) else whole
