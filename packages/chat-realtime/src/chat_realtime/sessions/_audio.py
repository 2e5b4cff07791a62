"""The format of audio in a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

from chat_core import UsageError
from chat_core.arguments import require_number, require_text, require_whole

Encoding: TypeAlias = Literal["pcm16", "pcmu", "pcma"]

_BYTES: Final[dict[str, int]] = {"pcm16": 2, "pcmu": 1, "pcma": 1}


@final
@dataclass(frozen=True, slots=True)
class AudioFormat:
    """The format of audio with one channel.

    Attributes:
        encoding: `"pcm16"` for signed 16-bit samples in little-endian order, or G.711: `"pcmu"` or `"pcma"`.
        rate: samples per second.

    Raises:
        UsageError: the encoding is unknown, or the rate is not positive.
    """

    encoding: Encoding = "pcm16"
    rate: int = 24_000

    def __post_init__(self) -> None:
        require_text(encoding=self.encoding)
        require_whole("rate of AudioFormat", self.rate, 1)
        if self.encoding not in _BYTES:
            msg = f"the encoding of AudioFormat must be one of {', '.join(_BYTES)}, not {self.encoding!r}"
            raise UsageError(msg)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample."""
        return _BYTES[self.encoding]

    def seconds(self, size: int) -> float:
        """Return the duration of audio in seconds.

        Args:
            size: length of the audio in bytes.
        """
        require_whole("size", size, 0)
        return size / (self.rate * self.sample_bytes)

    def size(self, seconds: float) -> int:
        """Return the length of audio in bytes, rounded down to whole samples.

        Args:
            seconds: duration of the audio.
        """
        require_number("seconds", seconds)
        return int(seconds * self.rate) * self.sample_bytes
