"""The items of a response as they grow, and which of them an event belongs to.

An event says it by the place of its item, else by its id; servers that say neither speak of the last item. Ids are the
weaker word: some servers give an item another one in each event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from chat_core.wire.shapes import Json

CALLS: Final = ("function_call", "custom_tool_call", "mcp_approval_request")
"""The items that ask for something to be done here."""

Place = tuple[str, int]
"""A list of an item, and a place in it: of the pieces that grow."""


@final
class Growing:
    """An item as it grows: what the server says that it is, and the pieces that came by themselves."""

    __slots__ = ("annotations", "call", "done", "index", "item", "pieces", "shown")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.item: Json = {}
        self.pieces: dict[Place, list[str]] = {}
        self.annotations: dict[int, list[Any]] = {}
        self.call: int | None = None  # which of the calls of the answer it is
        self.shown = False  # whether a listener has been given what comes in one piece
        self.done = False

    def built(self) -> Json:
        """The item, with what came in pieces wherever the server did not say the whole again."""
        item = dict(self.item)
        kind = item.setdefault("type", self._kind())
        if kind == "message" and (not item.get("content") or (self.pieces and not self.done)):
            item["content"] = self._content()
        elif kind == "reasoning":
            for name, piece in (("summary", "summary_text"), ("content", "reasoning_text")):
                if not item.get(name) and (texts := self._texts(name)):
                    item[name] = [{"type": piece, "text": text} for text in texts]
        elif kind != "mcp_approval_request":  # what a listener is shown of it is more than its arguments
            name = "input" if kind == "custom_tool_call" else "arguments"
            if (not item.get(name) or not self.done) and (grown := self.pieces.get(("arguments", 0))):
                item[name] = "".join(grown)
        return item

    def is_like(self, item: Json) -> bool:
        """Whether it may be that item."""
        kind = item.get("type")
        return (self.item.get("type") or (self._kind() if self.pieces else kind)) == kind

    def _kind(self) -> str:
        """What kind of item its pieces belong to, where the server never said it."""
        lists = {name for name, _ in self.pieces}
        if lists & {"summary", "content"}:
            return "reasoning"
        return "function_call" if "arguments" in lists else "message"

    def _content(self) -> list[Json]:
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

    def _texts(self, name: str) -> list[str]:
        places = sorted(place for place in self.pieces if place[0] == name)
        return ["".join(self.pieces[place]) for place in places]


@final
class Items:
    """The items of one response, in the order in which they began."""

    __slots__ = ("_by_id", "_by_index", "found")

    def __init__(self) -> None:
        self.found: list[Growing] = []
        self._by_index: dict[int, Growing] = {}
        self._by_id: dict[str, Growing] = {}

    def at(self, event: Json) -> Growing:
        """The item that a piece belongs to; one that nobody began begins with it."""
        index: Any = event.get("output_index")
        if index.__class__ is int:
            found = self._by_index.get(index)
        else:
            found = self._by_id.get(id_) if isinstance(id_ := event.get("item_id"), str) else None
            if found is None and self.found:
                found = self.found[-1]
        return found if found is not None else self._new(event, None)

    def begun(self, event: Json, item: Json) -> Growing:
        """The item that begins: always a new one."""
        growing = self._new(event, item.get("id"))
        growing.item = item
        return growing

    def ended(self, event: Json, item: Json) -> Growing:
        """The item that ends, as it is now known."""
        growing = self._ending(event, item)
        if growing is None:
            growing = self._new(event, item.get("id"))
        growing.item = item
        growing.done = True
        return growing

    def _ending(self, event: Json, item: Json) -> Growing | None:
        index = event.get("output_index")
        if isinstance(index, int):
            return self._by_index.get(index)
        id_ = item.get("id")
        if isinstance(id_, str) and id_ in self._by_id:
            return self._by_id[id_]
        return next((one for one in self.found if not one.done and one.is_like(item)), None)

    def _new(self, event: Json, id_: object) -> Growing:
        index = event.get("output_index")
        growing = Growing(index if isinstance(index, int) else None)
        self.found.append(growing)
        if growing.index is not None:
            self._by_index[growing.index] = growing
        for name in (id_, event.get("item_id")):
            if isinstance(name, str) and name:
                self._by_id[name] = growing
        return growing

    def in_order(self) -> list[Growing]:
        """The items as they stand in the response."""
        if all(growing.index is not None for growing in self.found):
            return sorted(self.found, key=lambda growing: growing.index or 0)
        return list(self.found)

    def listed(self, output: Sequence[Json]) -> list[Growing]:
        """All items at the end: as the response lists them, and those that it leaves out."""
        unsaid = list(self.found)
        known: dict[int, Growing] = {}
        # The better a way to know an item again, the earlier it is tried for all of them.
        for find in (self._by_name, self._by_place, self._by_kind):
            for position in range(len(output)):
                if position not in known and (growing := find(position, output, unsaid)) is not None:
                    unsaid.remove(growing)
                    known[position] = growing
        ended: list[Growing] = []
        for position, item in enumerate(output):
            growing = known.get(position) or Growing(position)
            growing.item = item
            growing.done = True
            ended.append(growing)
        # Some servers end with a response that lists nothing, or not everything.
        left = [
            growing
            for position, growing in enumerate(self.in_order())
            if growing in unsaid and (not output or _place(growing, position) >= len(output))
        ]
        return ended + left

    def _by_name(self, position: int, output: Sequence[Json], unsaid: Sequence[Growing]) -> Growing | None:
        """The item of the same id."""
        id_ = output[position].get("id")
        growing = self._by_id.get(id_) if isinstance(id_, str) and id_ else None
        return growing if growing in unsaid and growing is not None and growing.is_like(output[position]) else None

    def _by_place(self, position: int, output: Sequence[Json], unsaid: Sequence[Growing]) -> Growing | None:
        """The item of the same kind in the same place."""
        growing = self._by_index.get(position)
        return growing if growing in unsaid and growing is not None and growing.is_like(output[position]) else None

    def _by_kind(self, position: int, output: Sequence[Json], unsaid: Sequence[Growing]) -> Growing | None:
        """The first item of the same kind whose own place is that of none like it."""
        item = output[position]
        return next((one for one in unsaid if one.is_like(item) and not self._fits(one, output)), None)

    def _fits(self, growing: Growing, output: Sequence[Json]) -> bool:
        """Whether the response lists an item of its kind in the place of one that was heard of."""
        place = growing.index
        if place is None or not 0 <= place < len(output) or self._by_index.get(place) is not growing:
            return False
        return growing.is_like(output[place])


def _place(growing: Growing, position: int) -> int:
    return position if growing.index is None else growing.index
