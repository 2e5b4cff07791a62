"""The position up to which the user has heard the model's speech."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from chat_realtime.sessions._audio import AudioFormat


@final
class Playback:
    """A counter of the audio that the user has heard, in bytes since the start of the session.

    Without reports from the application, audio counts as heard when the time needed to play it has passed since the
    application received it. After the first `report()`, only reports count.

    Args:
        audio: format of the audio.
        clock: returns the current time in seconds; monotonic.

    Attributes:
        delivered: bytes that the application has received, without audio that was dropped by `stop()`.
    """

    __slots__ = ("_audio", "_busy_until", "_clock", "_reported", "delivered")

    def __init__(self, audio: AudioFormat, clock: Callable[[], float]) -> None:
        self._audio = audio
        self._clock = clock
        self._busy_until = clock()
        self._reported: int | None = None
        self.delivered: int = 0

    def deliver(self, size: int) -> None:
        """Count audio that the application has received.

        Args:
            size: length of the audio in bytes.
        """
        self._busy_until = max(self._busy_until, self._clock()) + self._audio.seconds(size)
        self.delivered += size

    def report(self, seconds: float) -> None:
        """Record the duration of all audio that was played since the start of the session.

        Args:
            seconds: total duration of the played audio. A value below an earlier value has no effect.
        """
        self._reported = max(self._reported or 0, self._audio.size(seconds))

    @property
    def heard(self) -> int:
        """Bytes that the user has heard, at most `delivered`."""
        if self._reported is not None:
            return min(self.delivered, self._reported)
        return max(0, self.delivered - self._audio.size(max(0.0, self._busy_until - self._clock())))

    def seconds_until(self, position: int) -> float | None:
        """Return the seconds until the user will have heard `position` bytes, or `None` if that is unknown."""
        if self._reported is not None or position > self.delivered:
            return None
        return max(0.0, self._busy_until - self._audio.seconds(self.delivered - position) - self._clock())

    def stop(self) -> int:
        """Record that the playback was stopped, and drop the audio that was not heard.

        Return the number of heard bytes.
        """
        self.delivered = self.heard
        self._busy_until = self._clock()
        return self.delivered
