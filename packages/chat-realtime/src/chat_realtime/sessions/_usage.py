"""Token usage by modality."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final


@final
@dataclass(frozen=True, slots=True)
class ModalityUsage:
    """Token counts by modality, as the server reported them. Missing counts are 0. Two counts can be added with `+`.

    Attributes:
        input_text: input tokens of text.
        input_audio: input tokens of audio.
        input_image: input tokens of images and video.
        output_text: output tokens of text.
        output_audio: output tokens of audio.
        cached_text: part of `input_text` that was read from a cache.
        cached_audio: part of `input_audio` that was read from a cache.
        cached_image: part of `input_image` that was read from a cache.
    """

    input_text: int = 0
    input_audio: int = 0
    input_image: int = 0
    output_text: int = 0
    output_audio: int = 0
    cached_text: int = 0
    cached_audio: int = 0
    cached_image: int = 0

    def __add__(self, other: ModalityUsage, /) -> ModalityUsage:
        return ModalityUsage(*[getattr(self, item.name) + getattr(other, item.name) for item in fields(self)])

    def to_dict(self) -> dict[str, int]:
        """Return the counts that are not 0, by field name."""
        return {item.name: count for item in fields(self) if (count := getattr(self, item.name))}


def count(value: object) -> int:
    """Return a reported token count, or 0 if the value is not a count.

    Args:
        value: a value of a JSON document.
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
