"""Conversations in which the user can speak at any time, even while the model responds."""

from chat_realtime.errors import TalkEndedError
from chat_realtime.events import ResponseInterrupted, TalkCancelled, TalkEvent
from chat_realtime.handles import TalkInput, TalkOutput
from chat_realtime.talk import Talk, converse

__all__ = [
    "ResponseInterrupted",
    "Talk",
    "TalkCancelled",
    "TalkEndedError",
    "TalkEvent",
    "TalkInput",
    "TalkOutput",
    "converse",
]
