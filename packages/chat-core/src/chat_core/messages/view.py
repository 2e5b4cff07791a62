"""View of a conversation: the turns that a model receives.

The history keeps every turn. A `Summary` or a `Rewind` in a user turn written by the engine changes only the view.
Providers encode a view; everything else reads the history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

from chat_core import model_texts
from chat_core.errors import UsageError
from chat_core.messages.content import Part, Role, Turn
from chat_core.messages.parts import Rewind, Summary
from chat_core.messages.status import Completed, Failed
from chat_core.messages.tool import Tool

if TYPE_CHECKING:
    from chat_core.messages._timeline import Timeline

RESULT_CHARACTERS: Final = 2_000
"""Default number of characters that are sent of an elided tool result."""
_HEAD_SHARE: Final = 0.65
"""Share of the head in an elided result."""


@final
class View:
    """The turns of a conversation that a model receives, from `Messages.view()`.

    A context policy returns `View(offset, elided=ids)`, without turns, to choose what the requests of a run contain.

    Attributes:
        offset: index in the history of the first turn that is sent. Of the turns before it, only system turns are sent,
            a summary of them if there is one, and the last message of the user if no later one exists.
        elided: ids of tool calls whose results are sent shortened.
        result_characters: maximum number of characters of a shortened result.
        cause: error because of which a policy chose this view instead of a summary. Observers receive it.
        turns: turns to send, oldest first, each with its role. A summary is the text that a model receives. Read only.
        timeline: index of the history, of a view from `Messages.view()`.
    """

    __slots__ = ("_encoded_prefixes", "cause", "elided", "offset", "result_characters", "timeline", "turns")

    def __init__(
        self,
        offset: int = 0,
        *,
        elided: Collection[str] = (),
        result_characters: int = RESULT_CHARACTERS,
        cause: Exception | None = None,
        turns: Sequence[tuple[Role, Turn]] = (),
        timeline: Timeline | None = None,
    ) -> None:
        self.offset: int = offset
        self.elided: frozenset[str] = frozenset(elided)
        self.result_characters: int = result_characters
        self.cause: Exception | None = cause
        self.turns: Sequence[tuple[Role, Turn]] = turns
        self.timeline: Timeline | None = timeline
        self._encoded_prefixes: dict[Hashable, tuple[bytes, int]] = {}

    def __repr__(self) -> str:
        elided = f", elided={sorted(self.elided)}" if self.elided else ""
        return f"View({self.offset}{elided}, turns={len(self.turns)})"

    def encoded(self, key: Hashable, encoders: Mapping[Role, Callable[[Turn], bytes]]) -> bytes:
        """Return the encodings of all turns, joined by commas.

        The leading turns whose tools are all resolved cannot change. Their joined encoding is cached.

        Args:
            key: identifies the codec and its configuration: everything but the turns that the encoding depends on.
            encoders: encoder of a turn for each role.
        """
        turns = self.turns
        joined, count = self._encoded_prefixes.get(key, (b"", 0))
        if settled := Turn.settled_from(turns, count, key, encoders):
            joined = b",".join([joined, *settled] if count else settled)
            count += len(settled)
            self._encoded_prefixes[key] = joined, count
        if count == len(turns):
            return joined
        unsettled = [turn.encoded(key, encoders[role]) for role, turn in turns[count:]]
        return b",".join([joined, *unsettled] if count else unsettled)

    # --- For context policies -----------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """Estimated number of tokens of the turns."""
        return self._index.tokens(self)

    def boundaries(self, *, summarized: bool = False) -> Sequence[int]:
        """Return the offsets at which a shorter view may begin, lowest first.

        They are before a message of the user, and between the completed steps that follow the last one. A view with a
        summary may also begin between the completed steps of earlier messages.

        Args:
            summarized: whether a new summary will cover the turns before the offset.
        """
        return self._index.boundaries_after(self.offset, summarized=summarized)

    def tokens_from(self, offset: int) -> int:
        """Return the estimated number of tokens of the view that begins at `offset`, without elided results."""
        return self._index.tokens_from(offset)

    def tokens_of(self, chosen: View) -> int:
        """Return the estimated number of tokens of a view that a policy chooses, `View(offset, elided=ids)`."""
        return self._index.tokens_of(chosen)

    def count_before(self, offset: int) -> int:
        """Return the number of turns before `offset`, without those that a rewind left out."""
        return self._index.count_before(offset)

    @property
    def last_offset(self) -> int:
        """Offset of the view that the last response was requested with."""
        turn, _ = self._index.turns_after_response()
        return 0 if turn is None else turn.view_offset

    def turns_before(self, offset: int) -> Sequence[tuple[Role, Turn]]:
        """Return the turns of this view that leave it if it begins at `offset`, with the current summary as text."""
        return self._index.turns_before(self, offset)

    def tools_from(self, offset: int) -> list[Tool]:
        """Return the tool calls of the view that begins at `offset`, oldest first."""
        return self._index.tools_from(offset)

    def summary(self, text: str, offset: int) -> Summary:
        """Return a summary of the turns before `offset`, one of `boundaries(summarized=True)`.

        Args:
            text: the summary.
            offset: index in the history of the first turn that is not covered.

        Raises:
            UsageError: the view cannot begin at `offset`.
        """
        return self._index.summary(text, offset)

    @property
    def ignored(self) -> Sequence[Summary | Rewind]:
        """Summaries and rewinds without effect, because the history before them is not the one they were made for."""
        return self._index.ignored

    @property
    def _index(self) -> Timeline:
        if self.timeline is None:
            msg = "View() has no turns: take a view of a conversation by messages.view()"
            raise UsageError(msg)
        return self.timeline


def elide_results(turn: Turn, elided: Collection[str], characters: int) -> Turn:
    """Return a turn with shortened results; the same turn if no result is shortened.

    Args:
        turn: a turn of the history, which is not changed.
        elided: ids of the calls whose results are shortened.
        characters: maximum number of characters of a shortened result. The files of a result are kept.
    """
    if not any(tool.id in elided and is_long(tool, characters) for tool in turn.tools):
        return turn
    parts: list[Part] = [
        _elide_result(part, characters)
        if isinstance(part, Tool) and part.id in elided and is_long(part, characters)
        else part
        for part in turn.parts
    ]
    copy = Turn(
        parts,
        finish_reason=turn.finish_reason,
        metadata=turn.metadata,
        created_at=turn.created_at,
        by=turn.by,
        extra=turn.extra,
    )
    copy.view_offset = turn.view_offset
    return copy


def is_long(tool: Tool, characters: int) -> bool:
    """Return whether a result can be shortened.

    Args:
        tool: the tool call.
        characters: maximum number of characters of a shortened result.
    """
    return isinstance(tool.status, (Completed, Failed)) and len(tool.result_text()) > characters


def _elide_result(tool: Tool, characters: int) -> Tool:
    text = tool.result_text()
    # The note about an edited call is part of the text, and the copy must not repeat it.
    notice = len(model_texts.elided("", len(text), ""))
    kept = max(characters - notice, 0)
    head = int(kept * _HEAD_SHARE)
    tail = kept - head
    shortened = model_texts.elided(text[:head], len(text) - kept, text[len(text) - tail :])
    status = tool.status
    copy = tool.with_status(Completed(shortened, status.files) if isinstance(status, Completed) else Failed(shortened))
    copy.edited = None
    return copy
