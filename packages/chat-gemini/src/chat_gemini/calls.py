"""The calls of one answer. One whose arguments are streamed grows, piece by piece.

A piece of streamed arguments says where in them it belongs, by a path like `$.items[0].name`, and what stands there;
texts come in pieces of their own. The first piece of a call has its name, and every one but the last says that another
one follows.
"""

from __future__ import annotations

import re
from typing import Any, Final, final

from chat_core.json import dumps
from chat_core.messages import FunctionCall, Opaque, Tool
from chat_core.wire.shapes import Json, WrongShapeError, is_list, is_object, require_list, require_object, require_text

STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d{1,6})\]|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]")

VALUES: Final = ("stringValue", "numberValue", "boolValue", "structValue", "listValue")
"""Where a piece holds its value."""

NULL: Final = "nullValue"
"""Null has a field of its own, which holds nothing."""

FURTHEST: Final = 1 << 16
"""No list of arguments is longer: an index above this is a mistake."""


@final
class Begun:
    """A text that comes in pieces. They are joined when it is looked at, and not at each of them."""

    __slots__ = ("_at", "_place", "pieces")

    def __init__(self, place: Any, at: str | int, text: str) -> None:  # noqa: ANN401 - JSON
        self._place = place
        self._at = at
        self.pieces = [text]

    def settle(self) -> None:
        """Put the text where it belongs."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
            self._place[self._at] = self.pieces[0]


@final
class Call:
    """A call as it grows."""

    __slots__ = ("arguments", "begun", "further", "id", "name", "open")

    def __init__(self, name: str, id: str | None) -> None:  # noqa: A002 - the field's own name
        self.name = name
        self.id = id
        self.arguments: Json = {}
        self.further: Json = {}
        self.open = False
        self.begun: dict[str, Begun] = {}

    def grow(self, call: Json, path: str) -> None:
        """Take one piece.

        Raises:
            WrongShapeError: it has one.
        """
        self.id = self.id or require_text(call.get("id") or "", f"{path}.id") or None
        self.arguments |= require_object(call.get("args") or {}, f"{path}.args")
        for index, piece in enumerate(require_list(call.get("partialArgs") or [], f"{path}.partialArgs")):
            where = f"{path}.partialArgs[{index}]"
            self._put(require_object(piece, where), where)
        self.open = call.get("willContinue") is True

    def _put(self, piece: Json, where: str) -> None:
        path = require_text(piece.get("jsonPath"), f"{where}.jsonPath")
        steps = _steps(path, f"{where}.jsonPath")
        value: Any = next((piece[name] for name in VALUES if piece.get(name) is not None), None)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        goes_on = piece.get("willContinue") is True
        begun = self.begun.get(path)
        if begun is not None and (isinstance(value, str) or not piece.keys() & {*VALUES, NULL}):
            begun.pieces.append(value if isinstance(value, str) else "")
            if not goes_on:
                self.begun.pop(path).settle()
            return
        self.begun.pop(path, None)
        place = _set(self.arguments, steps, value, f"{where}.jsonPath")
        if goes_on and isinstance(value, str):
            self.begun[path] = Begun(place, steps[-1], value)

    def settle(self) -> None:
        """Put the texts that grow where they belong, as far as they have come."""
        for begun in self.begun.values():
            begun.settle()

    @property
    def text(self) -> str:
        """The arguments, as text."""
        self.settle()
        return dumps(self.arguments)

    def tool(self, provider: str) -> Tool:
        """The call, pending. One that was cut says so, and cannot run."""
        self.settle()
        opaque = Opaque(provider, self.further) if self.further else None
        if self.open:
            problem = "the arguments were cut: the server said that more of them would follow"
            return Tool(FunctionCall(self.name, raw=self.text, problem=problem, opaque=opaque), call_id=self.id)
        return Tool(FunctionCall(self.name, self.arguments, opaque=opaque), call_id=self.id)


def _steps(path: str, where: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and (step := STEP.match(path, position)):
        position = step.end()
        steps.append(int(step["index"]) if step["index"] is not None else step["name"] or step["quoted"] or "")
    if not steps or position != len(path) or any(isinstance(step, int) and step > FURTHEST for step in steps):
        raise WrongShapeError(where, "a path like $.name[0]")
    return steps


def _set(place: Any, steps: list[str | int], value: object, where: str) -> Any:  # noqa: ANN401 - JSON
    """Put a value where a path leads, making what is missing on the way; what holds it is returned."""
    inside: Any = place
    for position, step in enumerate(steps):
        last = position == len(steps) - 1
        fits = is_list(place) if isinstance(step, int) else is_object(place)
        if not fits:
            raise WrongShapeError(where, "a path into what came before")
        inside = place
        if isinstance(step, int):
            inside.extend([None] * (step + 1 - len(inside)))
        else:
            inside.setdefault(step, None)
        if last:
            inside[step] = value
        elif inside[step] is None:
            inside[step] = [] if isinstance(steps[position + 1], int) else {}
        place = inside[step]
    return inside
