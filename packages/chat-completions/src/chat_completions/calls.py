"""The calls of one answer, and which of them a piece belongs to.

A piece says it by its index. Servers that give none, or the same one to every call, leave it to the ids, the names and
the arguments: whole arguments are followed by no more of the same call, and begun ones by nothing else.
"""

from __future__ import annotations

from typing import final

from chat_core.json import loads
from chat_core.messages import FunctionCall, Opaque, Tool
from chat_core.wire.shapes import Json, is_object


@final
class Call:
    """A call as it grows."""

    __slots__ = ("arguments", "further", "id", "kind", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []
        self.kind = ""
        self.further: Json = {}

    def grow(self, id: str, name: str, text: str, kind: str) -> None:  # noqa: A002 - the field's own name
        """Take what a piece adds. A name that is said again is no more of it; one that goes on is."""
        self.id = self.id or id or None
        if not self.name or name.startswith(self.name):
            self.name = name or self.name
        elif not self.arguments:
            self.name += name
        self.kind = self.kind or kind
        if text:
            self.arguments.append(text)

    def ended(self) -> bool:
        """Whether its arguments are a whole JSON object."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            return is_object(loads("".join(self.arguments)))
        except ValueError:
            return False

    def tool(self, provider: str) -> Tool:
        """The call, pending."""
        data = self.further if self.kind in {"", "function"} else self.further | {"type": self.kind}
        opaque = Opaque(provider, data) if data else None
        return Tool(FunctionCall.parse(self.name, "".join(self.arguments), opaque=opaque), call_id=self.id)


@final
class Calls:
    """The calls of one answer, in the order in which they began."""

    __slots__ = ("_by_index", "_whole", "found")

    def __init__(self, *, whole: bool) -> None:
        self.found: list[Call] = []
        self._whole = whole
        self._by_index: dict[str, Call] = {}

    def place(self, index: object, id: str, name: str, text: str) -> Call | None:  # noqa: A002 - the field's own name
        """The call that a piece belongs to, a new one where it begins one; `None` where it only says a call again."""
        place = str(index) if isinstance(index, (int, str)) else None
        known: Call | None = None
        if not self._whole:
            known = self._unnumbered(id, name, text) if place is None else self._by_index.get(place)
        if known is not None and name:
            if _says_again(known, id, name, text):
                return None
            if _begins_another(known, id, text):
                known = None
        if known is None:
            if not (id or name or text):
                return None  # an empty place says nothing
            known = Call()
            self.found.append(known)
            if place is not None:
                self._by_index[place] = known
        return known

    def _unnumbered(self, id_: str, name: str, text: str) -> Call | None:
        """The call of a piece without an index."""
        last = self.found[-1] if self.found else None
        if id_ and (same := next((call for call in self.found if call.id == id_), None)) is not None:
            return same
        if not name:
            return last  # an id that nobody knows and no name: some servers give each piece an id of its own
        if id_ or last is None or last.name != name or not last.arguments or not text or last.ended():
            return None
        return last


def _says_again(call: Call, id_: str, name: str, text: str) -> bool:
    """Whether a piece repeats a whole call, as some servers do at the end."""
    same = name == call.name and (not id_ or not call.id or id_ == call.id)
    return same and bool(text) and text == "".join(call.arguments) and call.ended()


def _begins_another(call: Call, id_: str, text: str) -> bool:
    """Whether a piece with a name begins another call under an index that is taken."""
    if id_ and call.id:
        return id_ != call.id
    return text.lstrip().startswith("{") and call.ended()
