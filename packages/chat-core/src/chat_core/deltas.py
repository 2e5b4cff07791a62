"""Deltas, which are the events that a provider decodes from a streamed response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from chat_core.event_json import JsonEvent
from chat_core.messages import File


@final
@dataclass(slots=True)
class TextDelta(JsonEvent):
    """Next piece of the text of the response."""

    text: str


@final
@dataclass(slots=True)
class ReasoningDelta(JsonEvent):
    """Next piece of the model's reasoning."""

    text: str


@final
@dataclass(slots=True)
class ToolCallDelta(JsonEvent):
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
class FilePart(JsonEvent):
    """File in the response."""

    file: File


@final
@dataclass(slots=True)
class StructuredPart(JsonEvent):
    """JSON value in the response, which the provider returned as a value instead of text."""

    value: object
