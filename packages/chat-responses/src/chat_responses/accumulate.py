"""Items of a response while it is streamed, and the mapping of events to items.

An event names its item by `output_index`, otherwise by `item_id`. An event with neither belongs to the last item. The
index has priority because some servers send a different id for the same item in each event (observed in recorded
traffic).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from chat_core.wire.shapes import Json, WrongShapeError

CALLS: Final = ("function_call", "custom_tool_call", "mcp_approval_request")
"""Types of the items that request an action of the client."""

TextKey = tuple[str, int]
"""Key of one growing text of an item: the name of its list, and its index in that list."""


def list_index(event: Json, name: str) -> int:
    """Return the index of a text in its list.

    Args:
        event: an event about the text.
        name: field with the index. Default: 0.

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
    """Item that is being received: the fields that the server sent, and the text of its deltas."""

    __slots__ = ("annotations", "call", "done", "index", "item", "pieces", "shown")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.item: Json = {}
        self.pieces: dict[TextKey, list[str]] = {}
        self.annotations: dict[int, list[Any]] = {}
        self.call: int | None = None  # index among the calls of the response
        self.shown = False  # whether the delta of an item without text deltas was emitted
        self.done = False

    def built(self) -> Json:
        """Return the item. Texts that the server did not repeat in the item are taken from the deltas."""
        item = dict(self.item)
        kind = item.setdefault("type", self._implied_type())
        if kind == "message" and (not item.get("content") or (self.pieces and not self.done)):
            item["content"] = self._message_content()
        elif kind == "reasoning":
            for name, piece in (("summary", "summary_text"), ("content", "reasoning_text")):
                if not item.get(name) and (texts := self.joined_texts(name)):
                    item[name] = [{"type": piece, "text": text} for text in texts]
        elif kind != "mcp_approval_request":  # its emitted delta holds more than the arguments
            name = "input" if kind == "custom_tool_call" else "arguments"
            if (not item.get(name) or not self.done) and (grown := self.pieces.get(("arguments", 0))):
                item[name] = "".join(grown)
        return item

    def is_like(self, item: Json) -> bool:
        """Return whether `item` has the same type, or a type that is possible for the received deltas."""
        kind = item.get("type")
        return (self.item.get("type") or (self._implied_type() if self.pieces else kind)) == kind

    def _implied_type(self) -> str:
        """Return the item type that the received deltas imply, for an item without a type."""
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
        """Return the received texts of a list, ordered by index."""
        places = sorted(place for place in self.pieces if place[0] == name)
        return ["".join(self.pieces[place]) for place in places]

    def first_index(self, name: str) -> int:
        """Return the lowest index of the received texts of a list. Default: 0."""
        return min((index for list_name, index in self.pieces if list_name == name), default=0)

    def place_of(self, place: TextKey, text: str) -> TextKey:
        """Return the place of the deltas of a text.

        Args:
            place: the place that the event at the end of the text names.
            text: the whole text.

        Returns:
            `place`, unless it has no deltas and the only text of that list is the beginning of `text`. Some servers
            count the indexes of deltas otherwise than those of ends.
        """
        if place in self.pieces:
            return place
        others = [other for other in self.pieces if other[0] == place[0]]
        return others[0] if len(others) == 1 and text.startswith("".join(self.pieces[others[0]])) else place


@final
class PartialItems:
    """Items of one response, in the order in which they started."""

    __slots__ = ("_by_id", "_by_index", "found")

    def __init__(self) -> None:
        self.found: list[PartialItem] = []
        self._by_index: dict[int, PartialItem] = {}
        self._by_id: dict[str, PartialItem] = {}

    def at(self, event: Json) -> PartialItem:
        """Return the item that a delta belongs to. Create one if the server did not announce it."""
        index: Any = event.get("output_index")
        if index.__class__ is int:
            found = self._by_index.get(index)
        else:
            found = self._by_id.get(id_) if isinstance(id_ := event.get("item_id"), str) else None
            if found is None and self.found:
                found = self.found[-1]
        return found if found is not None else self._create(event, None)

    def begun(self, event: Json, item: Json) -> PartialItem:
        """Add the item of an `output_item.added` event.

        Args:
            event: the event, whose `output_index` and `item_id` identify the item in later events.
            item: the item as the event has it.

        Returns:
            A new item, even if another one has the same id.
        """
        growing = self._create(event, item.get("id"))
        growing.item = item
        return growing

    def ended(self, event: Json, item: Json) -> PartialItem:
        """Replace the fields of a finished item with those of its `output_item.done` event.

        Args:
            event: the event, whose `output_index` identifies the item.
            item: the finished item.

        Returns:
            The item, which is new if the server did not announce it.
        """
        growing = self._find_unfinished(event, item)
        if growing is None:
            growing = self._create(event, item.get("id"))
        growing.item = item
        growing.done = True
        return growing

    def _find_unfinished(self, event: Json, item: Json) -> PartialItem | None:
        """Return the item that an `output_item.done` event finishes.

        The item is found by index or id. Without both, it is the first unfinished item of the same type.
        """
        index = event.get("output_index")
        if isinstance(index, int):
            return self._by_index.get(index)
        id_ = item.get("id")
        if isinstance(id_, str) and id_ in self._by_id:
            return self._by_id[id_]
        return next((candidate for candidate in self.found if not candidate.done and candidate.is_like(item)), None)

    def _create(self, event: Json, id_: object) -> PartialItem:
        """Create an item and index it by the ids and the index of the event."""
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
        """Return the items by index if all indexes are known, otherwise in the order in which they started."""
        if all(growing.index is not None for growing in self.found):
            return sorted(self.found, key=lambda growing: growing.index or 0)
        return list(self.found)

    def listed(self, output: Sequence[Json]) -> list[PartialItem]:
        """Return all items at the end: those that the response lists, then those that it omits."""
        unmatched = list(self.found)
        known: dict[int, PartialItem] = {}
        # The most reliable match is tried first for all items.
        for find in (self._match_by_id, self._match_by_index, self._match_by_type):
            for position in range(len(output)):
                if position not in known and (growing := find(position, output, unmatched)) is not None:
                    unmatched.remove(growing)
                    known[position] = growing
        ended: list[PartialItem] = []
        for position, item in enumerate(output):
            growing = known.get(position) or PartialItem(position)
            growing.item = item
            growing.done = True
            ended.append(growing)
        # Some servers end with a response that lists no items, or only some.
        omitted = [
            growing
            for position, growing in enumerate(self.in_order())
            if growing in unmatched and (not output or _output_index(growing, position) >= len(output))
        ]
        return ended + omitted

    def _match_by_id(
        self, position: int, output: Sequence[Json], unmatched: Sequence[PartialItem]
    ) -> PartialItem | None:
        """Return the unmatched item with the same id and type."""
        id_ = output[position].get("id")
        growing = self._by_id.get(id_) if isinstance(id_, str) and id_ else None
        return growing if growing in unmatched and growing is not None and growing.is_like(output[position]) else None

    def _match_by_index(
        self, position: int, output: Sequence[Json], unmatched: Sequence[PartialItem]
    ) -> PartialItem | None:
        """Return the unmatched item with the same index and type."""
        growing = self._by_index.get(position)
        return growing if growing in unmatched and growing is not None and growing.is_like(output[position]) else None

    def _match_by_type(
        self, position: int, output: Sequence[Json], unmatched: Sequence[PartialItem]
    ) -> PartialItem | None:
        """Return the first unmatched item of the same type that does not belong to another listed item."""
        item = output[position]
        return next(
            (
                candidate
                for candidate in unmatched
                if candidate.is_like(item) and not self._is_listed_at_index(candidate, output)
            ),
            None,
        )

    def _is_listed_at_index(self, growing: PartialItem, output: Sequence[Json]) -> bool:
        """Return whether the response lists an item of the same type at the index of this one."""
        place = growing.index
        if place is None or not 0 <= place < len(output) or self._by_index.get(place) is not growing:
            return False
        return growing.is_like(output[place])


def _output_index(growing: PartialItem, position: int) -> int:
    """Return the index of an item in the response. Default: its position among the received items."""
    return position if growing.index is None else growing.index
