"""Text of unfinished responses, which other processes can display while the model is still generating it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast, final

from chat_core.json import dump_bytes, loads

DELTA_COLUMNS: Final = ("kind", "name", "fence", "step", "start", "pieces")
"""The columns that `delta_to_columns()` returns."""
READER_SECONDS: Final = 10.0
"""Seconds for which a store remembers that the deltas of a conversation were read."""


@final
@dataclass(frozen=True, slots=True)
class ResponseDelta:
    """Text that a worker has received from a model, for a response that is not stored as a turn yet.

    Attributes:
        conversation: the id of the conversation.
        kind: the kind of the job that the worker has taken.
        key: the key of the job.
        fence: the fence of the job, as `take_job()` returned it.
        step: a number that the application assigns to the response. Deltas with a new number replace the earlier ones.
        start: the number of earlier pieces of the response.
        pieces: the texts.
        position: the position among all deltas of the store, for `deltas()`. `write_deltas()` ignores it.
    """

    conversation: str
    kind: str
    key: str
    fence: int
    step: int
    start: int
    pieces: Sequence[str]
    position: int = 0

    @property
    def response(self) -> tuple[str, str, int, int]:
        """Identifier of the response: deltas with different values belong to different texts."""
        return self.kind, self.key, self.fence, self.step


def delta_to_columns(delta: ResponseDelta) -> tuple[object, ...]:
    """Return the values of `DELTA_COLUMNS` of a delta."""
    return (*delta.response, delta.start, dump_bytes(list(delta.pieces)))


def delta_from_columns(columns: Sequence[object]) -> ResponseDelta:
    """Parse a delta from the columns of its row.

    Args:
        columns: the position, the id of the conversation, and the columns of `delta_to_columns()`.
    """
    position, conversation, kind, key, fence, step, start, pieces = columns
    return ResponseDelta(
        cast("str", conversation),
        cast("str", kind),
        cast("str", key),
        cast("int", fence),
        cast("int", step),
        cast("int", start),
        cast("list[str]", loads(cast("bytes", pieces))),
        cast("int", position),
    )
