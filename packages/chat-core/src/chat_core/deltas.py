"""Deltas: the events that a provider decodes from a streamed response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from chat_core.messages import File


@final
@dataclass(slots=True)
class TextDelta:
    """Next piece of the text of the response."""

    text: str


@final
@dataclass(slots=True)
class ReasoningDelta:
    """Next piece of the model's reasoning."""

    text: str


@final
@dataclass(slots=True)
class ToolCallDelta:
    """Next piece of the arguments of a tool call.

    Attributes:
        arguments: piece of the arguments' JSON text.
        index: number of the tool call in the response, from 0.
        name: name of the tool, possibly only in the first delta of a call.
        call_id: the provider's id of the call, possibly only in the first delta.
    """

    arguments: str
    index: int = 0
    name: str | None = None
    call_id: str | None = None


@final
@dataclass(slots=True)
class FilePart:
    """File in the response."""

    file: File
