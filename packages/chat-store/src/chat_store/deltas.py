"""Text of responses that are not stored yet, which other processes can show while a model writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, final

from chat_core.json import dump_bytes, loads


@final
@dataclass(frozen=True, slots=True)
class ResponseDelta:
    """Pieces of text of a response that a worker receives from a model and that is not stored as a turn yet.

    Attributes:
        conversation: the id of the conversation.
        kind: the kind of the job that the worker has taken.
        key: the key of the job.
        fence: the fence of the job, as `take_job()` returned it.
        step: a number that the application gives to the response. Deltas of another number replace the earlier ones.
        start: the number of pieces of the response before these.
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
        """The attempt to write a response: deltas with another value belong to another text."""
        return self.kind, self.key, self.fence, self.step


def delta_to_columns(delta: ResponseDelta) -> tuple[object, ...]:
    """Return the columns `kind`, `name`, `fence`, `step`, `start` and `pieces` of a delta."""
    return (*delta.response, delta.start, dump_bytes(list(delta.pieces)))


def delta_from_columns(columns: Sequence[object]) -> ResponseDelta:
    """Return the delta of a row.

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
