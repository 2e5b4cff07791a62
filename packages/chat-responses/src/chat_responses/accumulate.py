"""Collector for the items of a streamed response, which finds the item that each event belongs to.

An event names its item by `output_index`. Without an index, the item is found by `item_id`. If the id is missing or
unknown, a delta belongs to the last item. The index has priority because some servers send a different id for the same
item in each event (observed in recorded traffic).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, final

from chat_core.wire.shapes import Json, WrongShapeError

from chat_responses.actions import ACTION_TYPES

CALLS: Final = ("function_call", "custom_tool_call")
"""Types of items that are tool calls with streamed arguments. Not a set, because a received type may be unhashable."""

WHOLE: Final = ("mcp_approval_request", *ACTION_TYPES)
"""Types of items that are tool calls without streamed arguments."""

MAX_TEXTS: Final = 1000
"""Maximum number of texts in an item, because the time to compare them grows quadratically."""

TextKey = tuple[str, int]
"""Key of one partly received text in an item: the name of the list with the text, and the index in that list."""


def list_index(event: Json, name: str) -> int:
    """Return the index of a text in its list, as `event` reports it.

    Args:
        event: an event about the text.
        name: field with the index. If the field is missing, the index is 0.

    Raises:
        WrongShapeError: the index is not an integer.
    """
    index = event.get(name)
    if index is None:
        return 0
    if isinstance(index, int):
        return index
    raise WrongShapeError(name, "an integer")


@final
class PartialItem:
    """A response item that is being received: the fields that the server sent, and the texts from deltas."""

    __slots__ = ("annotations", "call", "done", "ended", "index", "item", "pieces", "shown")

    def __init__(self, index: int | None) -> None:
        self.index: int | None = index
        self.item: Json = {}
        self.pieces: dict[TextKey, list[str]] = {}
        self.ended: set[TextKey] = set()  # texts whose end was received
        self.annotations: dict[int, list[Any]] = {}
        self.call: int | None = None  # index among the calls of the response
        self.shown: bool = False  # whether the single delta of an image or approval request was emitted
        self.done: bool = False

    def to_dict(self) -> Json:
        """Return the item as a JSON object. Texts that the server did not repeat in the item are taken from deltas."""
        item = dict(self.item)
        kind = item.setdefault("type", self._implied_type())
        if kind == "message" and (not item.get("content") or (self.pieces and not self.done)):
            item["content"] = self._message_content()
        elif kind == "reasoning":
            for name, piece in (("summary", "summary_text"), ("content", "reasoning_text")):
                if not item.get(name) and (texts := self.joined_texts(name)):
                    item[name] = [{"type": piece, "text": text} for text in texts]
        elif kind not in WHOLE:  # the deltas of these kinds contain other text than the item
            name = "input" if kind == "custom_tool_call" else "arguments"
            if (not item.get(name) or not self.done) and (grown := self.pieces.get(("arguments", 0))):
                item[name] = "".join(grown)
        return item

    def pieces_of(self, place: TextKey) -> list[str]:
        """Return the received pieces of the text at `place`. The caller may append to the list.

        Raises:
            WrongShapeError: the item has more than `MAX_TEXTS` texts.
        """
        pieces = self.pieces.get(place)
        if pieces is None:
            if len(self.pieces) >= MAX_TEXTS:
                raise WrongShapeError(place[0], f"a list of at most {MAX_TEXTS} texts")
            pieces = self.pieces[place] = []
        return pieces

    def kind(self) -> object:
        """Return the type of the item, or the type that the received deltas imply, or `None` if nothing is known."""
        return self.item.get("type") or (self._implied_type() if self.pieces else None)

    def _implied_type(self) -> str:
        """Return the type that the received deltas imply, for an item without a type field."""
        lists = {name for name, _ in self.pieces}
        if lists & {"summary", "content"}:
            return "reasoning"
        return "function_call" if "arguments" in lists else "message"

    def _message_content(self) -> list[Json]:
        content: list[Json] = []
        for name, index in sorted(self.pieces, key=lambda place: place[1]):
            text = "".join(self.pieces[name, index])
            if name == "text":
                piece: Json = {"type": "output_text", "text": text}
                if notes := self.annotations.get(index):
                    piece["annotations"] = notes
                content.append(piece)
            else:
                content.append({"type": "refusal", "refusal": text})
        return content

    def joined_texts(self, name: str) -> list[str]:
        """Return the texts received for the list field `name`, such as "content", ordered by index."""
        return ["".join(self.pieces[place]) for place in self.places(name)]

    def places(self, name: str) -> list[TextKey]:
        """Return the keys of the texts received for the list field `name`, such as "content", ordered by index."""
        return sorted(place for place in self.pieces if place[0] == name)

    def end_text(self, place: TextKey, text: str) -> TextKey:
        """Mark a text as ended, and return the key of its deltas.

        Some servers number a text differently in its deltas and in the event at its end. The deltas are then found by
        their content.

        Args:
            place: the key of the text in the event at its end.
            text: the whole text.

        Returns:
            `place` if it has deltas. Otherwise the key of the last text in the same list, if the end of that text was
            not received and `text` begins with its deltas. Otherwise `place`.
        """
        if place not in self.pieces and (last := next(reversed(self.pieces), None)) is not None:
            fits = last[0] == place[0] and last not in self.ended
            if fits and received_length(self.pieces[last], text) is not None:
                place = last
        self.ended.add(place)
        return place


def received_length(pieces: Iterable[str], text: str) -> int | None:
    """Return the total length of `pieces` if `text` begins with the joined pieces, otherwise `None`.

    The time depends on the length of `text` only, so that a server cannot make a short event expensive.
    """
    length = 0
    for piece in pieces:
        if not text.startswith(piece, length):
            return None
        length += len(piece)
    return length


@final
class PartialItems:
    """The items of one response, in the order in which they started."""

    __slots__ = ("_by_id", "_by_index", "_unfinished", "found")

    def __init__(self) -> None:
        self.found: list[PartialItem] = []
        self._by_index: dict[int, PartialItem] = {}
        self._by_id: dict[str, PartialItem] = {}
        self._unfinished: dict[str, deque[PartialItem]] = {}  # the items by type; finished items may be included

    def at(self, event: Json) -> PartialItem:
        """Return the item that the delta `event` belongs to. If the server did not announce the item, create it."""
        index: Any = event.get("output_index")
        if index.__class__ is int:
            found = self._by_index.get(index)
        else:
            found = self._by_id.get(id_) if isinstance(id_ := event.get("item_id"), str) else None
            if found is None and self.found:
                found = self.found[-1]
        return found if found is not None else self._create(event, None)

    def begin(self, event: Json, item: Json) -> PartialItem:
        """Add and return the item in an `output_item.added` event.

        Args:
            event: the event, whose `output_index` and `item_id` identify the item in later events.
            item: the item in the event.

        Returns:
            A new item, even if another item has the same id.
        """
        growing = self._create(event, item.get("id"))
        growing.item = item
        kind = item.get("type")
        if isinstance(kind, str):
            self._unfinished.setdefault(kind, deque()).append(growing)
        return growing

    def finish(self, event: Json, item: Json) -> PartialItem:
        """Replace the fields of a finished item with the fields in its `output_item.done` event.

        Args:
            event: the event, whose `output_index` identifies the item.
            item: the finished item.

        Returns:
            The finished item, which is new if the server did not announce it.
        """
        growing = self._find_unfinished(event, item)
        if growing is None:
            growing = self._create(event, item.get("id"))
        growing.item = item
        growing.done = True
        return growing

    def _find_unfinished(self, event: Json, item: Json) -> PartialItem | None:
        """Return the item that an `output_item.done` event finishes, or `None` if the item is new.

        The item is found by its index, or else by its id. If the event has neither, the result is the first unfinished
        item that was announced with the same type. Otherwise it is the last item, if that is unfinished and its type is
        the same or unknown.
        """
        index = event.get("output_index")
        if isinstance(index, int):
            return self._by_index.get(index)
        id_ = item.get("id")
        if isinstance(id_, str) and id_ in self._by_id:
            return self._by_id[id_]
        kind = item.get("type")
        announced = self._unfinished.get(kind) if isinstance(kind, str) else None
        while announced:
            if not announced[0].done:
                return announced[0]
            announced.popleft()
        last = self.found[-1] if self.found else None
        return last if last is not None and not last.done and last.kind() in (None, kind) else None

    def _create(self, event: Json, id_: object) -> PartialItem:
        """Create a partial item, register it under the index and the ids in `event`, and return it."""
        index = event.get("output_index")
        growing = PartialItem(index if isinstance(index, int) else None)
        self.found.append(growing)
        if growing.index is not None:
            self._by_index[growing.index] = growing
        for name in (id_, event.get("item_id")):
            if isinstance(name, str) and name:
                self._by_id[name] = growing
        return growing

    def in_order(self) -> list[PartialItem]:
        """Return the items sorted by index or, if an index is unknown, in the order in which they started."""
        if all(growing.index is not None for growing in self.found):
            return sorted(self.found, key=lambda growing: growing.index or 0)
        return list(self.found)

    def final_items(self, output: Sequence[Json]) -> list[PartialItem]:
        """Return all items at the end of the response: items listed in `output`, then received items that it omits."""
        matched = _Matching(self.found, output)
        # The most reliable match is tried first for all items.
        for position, item in enumerate(output):
            id_ = item.get("id")
            matched.match(position, self._by_id.get(id_) if isinstance(id_, str) and id_ else None)
        for position in range(len(output)):
            matched.match(position, self._by_index.get(position))
        matched.match_by_type(self._by_index)
        ended: list[PartialItem] = []
        for position, item in enumerate(output):
            growing = matched.known.get(position) or PartialItem(position)
            growing.item = item
            growing.done = True
            ended.append(growing)
        # Some servers end with a response that lists no items, or only some.
        omitted = [
            growing
            for position, growing in enumerate(self.in_order())
            if growing in matched.unmatched and (not output or _output_index(growing, position) >= len(output))
        ]
        return ended + omitted


@final
class _Matching:
    """Matcher that assigns received items to the items that the final response lists, in linear time.

    Attributes:
        unmatched: received items that are not assigned, in order.
        known: assigned received items, by their position in the response's list.
    """

    __slots__ = ("_kinds", "_output", "known", "unmatched")

    def __init__(self, found: Sequence[PartialItem], output: Sequence[Json]) -> None:
        self._output = output
        self._kinds = {growing: growing.kind() for growing in found}
        self.unmatched = dict.fromkeys(found)
        self.known: dict[int, PartialItem] = {}

    def match(self, position: int, growing: PartialItem | None) -> None:
        """Assign a received item to a position in the list if both are unassigned and their types agree."""
        if growing in self.unmatched and position not in self.known and self._has_matching_type(growing, position):
            del self.unmatched[growing]
            self.known[position] = growing

    def match_by_type(self, by_index: Mapping[int, PartialItem]) -> None:
        """Match each unmatched position of the response with the first unmatched item of the same type.

        Args:
            by_index: the received items by index. Items that the response lists at their own index are skipped.
        """
        queues: dict[str, deque[PartialItem]] = {}
        for growing in self.unmatched:
            place = growing.index
            listed = place is not None and 0 <= place < len(self._output) and by_index.get(place) is growing
            if not (listed and place is not None and self._has_matching_type(growing, place)):
                queues.setdefault(str(self._kinds[growing]), deque()).append(growing)
        for position, item in enumerate(self._output):
            queue = queues.get(str(item.get("type")))
            if position not in self.known and queue:
                self.match(position, queue.popleft())

    def _has_matching_type(self, growing: PartialItem, position: int) -> bool:
        kind = self._kinds[growing]
        return kind is None or kind == self._output[position].get("type")


def _output_index(growing: PartialItem, position: int) -> int:
    """Return the index that the server reported for an item, or `position` if it reported none."""
    return position if growing.index is None else growing.index
