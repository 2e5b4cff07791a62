"""`View`, the turns of a conversation that a model receives.

The history keeps every turn. A `Summary`, a `Rewind` or a `Recalled` in a user turn written by the engine changes only
the view. Providers encode a view; everything else reads the history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

from chat_core import model_texts
from chat_core.arguments import argument_error, require_whole
from chat_core.errors import UsageError
from chat_core.messages.content import Part, Role, Turn
from chat_core.messages.parts import Recalled, Rewind, Summary
from chat_core.messages.status import Completed, Failed
from chat_core.messages.tool import Tool

if TYPE_CHECKING:
    from chat_core.messages._timeline import Timeline

RESULT_CHARACTERS: Final = 2_000
"""Default maximum length of a shortened tool result, in characters."""
_HEAD_SHARE: Final = 0.65
"""Share of a shortened result that comes from the beginning of the text. The rest comes from its end."""


def is_view_turn(turn: Turn) -> bool:
    """Return whether the engine wrote this turn and it contains a `Summary`, a `Rewind` or a `Recalled`."""
    return turn.by == "engine" and any(isinstance(part, (Summary, Rewind, Recalled)) for part in turn.parts)


@final
class View:
    """The turns of a conversation that a model receives, from `Messages.view()`.

    A context policy returns `View(offset, elided=ids)`, without turns, to choose the turns that a run sends. An offset
    that is not a whole number of at least 0 raises `UsageError`.

    Attributes:
        offset: index in the history of the first turn that is sent. Earlier turns are not sent, except system turns and
            the last user message. If a summary of earlier turns exists, it is sent too.
        elided: ids of tool calls whose results are sent shortened.
        result_characters: maximum number of characters in a shortened result.
        cause: error that made a policy choose this view instead of a summary. Observers receive it.
        turns: turns to send, oldest first, each with its role; read-only. Summaries and recalled notes are included as
            text.
        timeline: index of the history, set if the view comes from `Messages.view()`.
    """

    __slots__ = ("_settled", "cause", "elided", "offset", "result_characters", "timeline", "turns")

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
        _require_offset(offset)
        require_whole("result_characters", result_characters, 0)
        try:
            self.elided: frozenset[str] = frozenset(elided)
        except TypeError as error:
            raise argument_error("elided", "a collection of ids of tool calls", elided) from error
        if isinstance(elided, str):
            raise argument_error("elided", "a collection of ids of tool calls", elided)
        self.offset: int = offset
        self.result_characters: int = result_characters
        self.cause: Exception | None = cause
        self.turns: Sequence[tuple[Role, Turn]] = turns
        self.timeline: Timeline | None = timeline
        self._settled: dict[Hashable, list[bytes]] = {}

    def __repr__(self) -> str:
        elided = f", elided={sorted(self.elided)}" if self.elided else ""
        return f"View({self.offset}{elided}, turns={len(self.turns)})"

    def encoded(self, key: Hashable, encoders: Mapping[Role, Callable[[Turn], bytes]]) -> bytes:
        """Return the encodings of all turns, joined by commas.

        The leading turns whose tools are all resolved cannot change. This view keeps a list of their encodings, which
        the turns cache. The joined bytes are not kept, because that would hold the encodings twice. The arguments are
        not checked, because providers call this method for each request.

        Args:
            key: cache key. It identifies the codec and the part of its configuration that affects the encoding.
            encoders: encoder of a turn for each role.
        """
        turns = self.turns
        known = self._settled.get(key, [])
        # A new list, because another thread may encode the same view at the same time.
        settled = [*known, *Turn.settled_from(turns, len(known), key, encoders)]
        self._settled[key] = settled
        unsettled = [turn.encoded(key, encoders[role]) for role, turn in turns[len(settled) :]]
        return b",".join([*settled, *unsettled] if unsettled else settled)

    # --- For context policies -----------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """Estimated number of tokens in the turns of this view."""
        return self._require_timeline.tokens(self)

    def boundaries(self, *, summarized: bool = False) -> Sequence[int]:
        """Return the offsets at which a shorter view may begin, lowest first.

        A view may begin before a user message, or between the completed steps after the last user message. A view with
        a summary may also begin between the completed steps after earlier user messages.

        Args:
            summarized: whether a new summary will cover the turns before the offset.
        """
        return self._require_timeline.boundaries_after(self.offset, summarized=summarized)

    def tokens_from(self, offset: int) -> int:
        """Return the estimated number of tokens in the view that begins at `offset`, with no results shortened."""
        _require_offset(offset)
        return self._require_timeline.tokens_from(offset)

    def tokens_of(self, chosen: View, *, summarized: bool = False) -> int:
        """Return the estimated number of tokens in a view that a policy may choose, such as `View(offset)`.

        Args:
            chosen: the view to measure.
            summarized: whether a new summary will replace the current one. Then, no summary is counted.
        """
        if not isinstance(chosen, View):
            raise argument_error("chosen", "a View, such as View(offset)", chosen)
        return self._require_timeline.tokens_of(chosen, summarized=summarized)

    def count_before(self, offset: int) -> int:
        """Return the number of turns before `offset`, not counting turns that a rewind removed."""
        _require_offset(offset)
        return self._require_timeline.count_before(offset)

    @property
    def last_offset(self) -> int:
        """Offset of the view that was sent to request the last response; 0 if there is no response."""
        turn, _ = self._require_timeline.turns_after_response()
        return 0 if turn is None else turn.view_offset

    def turns_before(self, offset: int) -> Sequence[tuple[Role, Turn]]:
        """Return the turns that this view would lose if it began at `offset`, including the current summary as text."""
        _require_offset(offset)
        return self._require_timeline.turns_before(self, offset)

    def tools_from(self, offset: int) -> list[Tool]:
        """Return the tool calls in the view that begins at `offset`, oldest first."""
        _require_offset(offset)
        return self._require_timeline.tools_from(offset)

    def summary(self, text: str, offset: int) -> Summary:
        """Create a `Summary` part that replaces the turns before `offset`.

        Args:
            text: the summary.
            offset: index in the history of the first turn that is not summarized, from `boundaries(summarized=True)`.

        Raises:
            UsageError: the view cannot begin at `offset`.
        """
        return self._require_timeline.summary(text, offset)

    @property
    def ignored(self) -> Sequence[Summary | Rewind | Recalled]:
        """Parts without effect, because they do not match the turns before them."""
        return self._require_timeline.ignored

    @property
    def _require_timeline(self) -> Timeline:
        if self.timeline is None:
            msg = "this view was created by View() and has no turns: call messages.view() instead"
            raise UsageError(msg)
        return self.timeline


def _require_offset(offset: object) -> None:
    if type(offset) is not int or offset < 0:
        raise argument_error("offset", "a whole number of at least 0, such as one of view.boundaries()", offset)


def elide_results(turn: Turn, elided: Collection[str], characters: int) -> Turn:
    """Return a copy of a turn with long tool results shortened, or the turn itself if no result is shortened.

    Args:
        turn: a turn of the history, which is not changed.
        elided: ids of the tool calls whose results are shortened.
        characters: maximum number of characters in a shortened result. The files of a result are kept.
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
    """Return whether the result of a tool call is longer than `characters`.

    Args:
        tool: the tool call.
        characters: maximum number of characters in a shortened result.
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
