"""Decoder for the function calls of a response, whose arguments may be streamed.

A piece of streamed arguments has a path such as `$.items[0].name` and the value at that path. A string may be split
into several pieces with the same path. The first piece of a call contains its name. Every piece except the last has
`willContinue`.
"""

from __future__ import annotations

import re
from typing import Any, Final, final

from chat_core.json import dumps
from chat_core.messages import FunctionCall, Opaque, Tool
from chat_core.wire.shapes import Json, WrongShapeError, is_list, is_object, require_list, require_object, require_text

from chat_gemini import model_texts

STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d{1,6})\]|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]")

VALUES: Final = ("stringValue", "numberValue", "boolValue", "structValue", "listValue")
"""Fields of a piece of arguments that may contain its value."""

NULL: Final = "nullValue"
"""Field of a piece of arguments whose value is null."""

MAX_STEPS: Final = 100
"""Maximum number of steps in a path. Deeper arguments could not be stored with the conversation."""

MAX_GAP: Final = 64
"""Maximum number of items that a piece may skip in a list, so that a short piece cannot fill the memory."""


@final
class PartialString:
    """A string argument that is received in pieces. `flush()` joins the pieces."""

    __slots__ = ("_container", "_key", "pieces")

    def __init__(self, container: Any, key: str | int, text: str) -> None:  # noqa: ANN401 - JSON
        self._container = container
        self._key = key
        self.pieces: list[str] = [text]

    def flush(self) -> None:
        """Join the pieces received so far and write the string into the arguments of the call."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
            self._container[self._key] = self.pieces[0]


@final
class Call:
    """A function call, complete or partly received.

    Attributes:
        name: name of the called function.
        id: the provider's id of the call, if any.
        arguments: arguments received so far.
        opaque_fields: opaque data for the call: its signature and further fields.
        open: whether more arguments follow.
        partial_strings: strings that are still being received, by path.
    """

    __slots__ = ("arguments", "id", "name", "opaque_fields", "open", "partial_strings")

    def __init__(self, name: str, id: str | None) -> None:
        self.name: str = name
        self.id = id
        self.arguments: Json = {}
        self.opaque_fields: Json = {}
        self.open: bool = False
        self.partial_strings: dict[str, PartialString] = {}

    def add(self, call: Json, path: str) -> None:
        """Add a received `functionCall` object to this call.

        Args:
            call: the object: a complete call, or a piece of a streamed call.
            path: path of the object in the response, for errors.

        Raises:
            WrongShapeError: a field has the wrong type, or the path of an argument is invalid.
        """
        self.id = self.id or require_text(call.get("id") or "", f"{path}.id") or None
        self.arguments |= require_object(call.get("args") or {}, f"{path}.args")
        for index, piece in enumerate(require_list(call.get("partialArgs") or [], f"{path}.partialArgs")):
            where = f"{path}.partialArgs[{index}]"
            self._add_piece(require_object(piece, where), where)
        self.open = call.get("willContinue") is True

    def _add_piece(self, piece: Json, where: str) -> None:
        path = require_text(piece.get("jsonPath"), f"{where}.jsonPath")
        steps = _parse_path(path, f"{where}.jsonPath")
        value: Any = next((piece[name] for name in VALUES if piece.get(name) is not None), None)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        will_continue = piece.get("willContinue") is True
        partial = self.partial_strings.get(path)
        if partial is not None and (isinstance(value, str) or not piece.keys() & {*VALUES, NULL}):
            partial.pieces.append(value if isinstance(value, str) else "")
            if not will_continue:
                self.partial_strings.pop(path).flush()
            return
        self.partial_strings.pop(path, None)
        container = _set_at_path(self.arguments, steps, value, f"{where}.jsonPath")
        if will_continue and isinstance(value, str):
            self.partial_strings[path] = PartialString(container, steps[-1], value)

    def flush(self) -> None:
        """Write all partly received strings into `arguments`."""
        for partial in self.partial_strings.values():
            partial.flush()

    @property
    def text(self) -> str:
        """The arguments received so far, as JSON text."""
        self.flush()
        return dumps(self.arguments)

    def wire_part(self) -> Json:
        """Return the call as a part in the API's format, with its signature and further fields."""
        self.flush()
        call: Json = {"name": self.name, "args": self.arguments, **self.opaque_fields.get("call", {})}
        if self.id is not None:
            call["id"] = self.id
        rest = {key: value for key, value in self.opaque_fields.items() if key not in {"call", "part"}}
        return {"functionCall": call, **self.opaque_fields.get("part", {}), **rest}

    def tool(self, provider: str) -> Tool:
        """Return the call as a pending `Tool` part. A call with missing arguments has a `problem` and cannot run."""
        self.flush()
        opaque = Opaque(provider, self.opaque_fields) if self.opaque_fields else None
        if self.open:
            problem = model_texts.ARGUMENTS_TRUNCATED
            return Tool(FunctionCall(self.name, raw=self.text, problem=problem, opaque=opaque), call_id=self.id)
        return Tool(FunctionCall(self.name, self.arguments, opaque=opaque), call_id=self.id)


def _parse_path(path: str, where: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and (step := STEP.match(path, position)):
        position = step.end()
        steps.append(int(step["index"]) if step["index"] is not None else step["name"] or step["quoted"] or "")
    if not steps or position != len(path):
        raise WrongShapeError(where, "a path like $.name[0]")
    if len(steps) > MAX_STEPS:
        raise WrongShapeError(where, f"a path of at most {MAX_STEPS} steps")
    return steps


def _set_at_path(node: Any, steps: list[str | int], value: object, where: str) -> Any:  # noqa: ANN401 - JSON
    """Set `value` at the path `steps` below `node`, and return the object or list that now contains the value.

    Missing objects and lists on the path are created.
    """
    container: Any = node
    for position, step in enumerate(steps):
        last = position == len(steps) - 1
        matches = is_list(node) if isinstance(step, int) else is_object(node)
        if not matches:
            raise WrongShapeError(where, "a path within the arguments received so far")
        container = node
        if isinstance(step, int):
            if step > len(container) + MAX_GAP:
                raise WrongShapeError(where, f"a path that skips at most {MAX_GAP} items of a list")
            container.extend([None] * (step + 1 - len(container)))
        else:
            container.setdefault(step, None)
        if last:
            container[step] = value
        elif container[step] is None:
            container[step] = [] if isinstance(steps[position + 1], int) else {}
        node = container[step]
    return container
