"""The indexable turns of a conversation: those of users and models, without texts added by this library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from chat_core.messages import Messages
from chat_core.model_texts import quote_data


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """The text of one turn.

    Attributes:
        index: the index of the turn in the conversation.
        speaker: the role of the turn.
        text: text of the turn.
        said_at: time of the turn.
    """

    index: int
    speaker: Literal["user", "model"]
    text: str
    said_at: datetime


def read_turns(messages: Messages) -> list[TranscriptTurn]:
    """Return the turns of users and models, in order.

    Turns written by the engine or the application, system turns, turns that were removed by a rewind and parts other
    than text are left out.
    """
    live = {id(turn) for _, turn in messages.live_turns}
    found: list[TranscriptTurn] = []
    for index, (role, turn) in enumerate(messages.turns):
        text = turn.text.replace("\0", "").encode("utf-8", "replace").decode().strip()
        if role in {"user", "model"} and turn.by is None and id(turn) in live and text:
            found.append(TranscriptTurn(index, "user" if role == "user" else "model", text, turn.created_at))
    return found


def split_turns(turns: Sequence[TranscriptTurn], characters: int) -> Iterator[list[TranscriptTurn]]:
    """Split turns into chunks of at most `characters` of text. A longer turn is a chunk of its own.

    Args:
        turns: the turns to split, in order.
        characters: the maximum number of characters in a chunk.
    """
    chunk: list[TranscriptTurn] = []
    size = 0
    for turn in turns:
        if chunk and size + len(turn.text) > characters:
            yield chunk
            chunk, size = [], 0
        chunk.append(turn)
        size += len(turn.text)
    if chunk:
        yield chunk


def write_transcript(turns: Sequence[TranscriptTurn]) -> str:
    """Serialize turns as lines of JSON. A text therefore cannot imitate another turn or the end of the transcript.

    Invisible characters, bidirectional control characters and markup characters are escaped.
    """
    lines = [
        {"turn": turn.index, "speaker": turn.speaker, "time": turn.said_at.isoformat(), "text": turn.text}
        for turn in turns
    ]
    return "\n".join(map(quote_data, lines))
