"""Decoder for the tool calls of one response, which assigns streamed fragments to calls.

A fragment is normally assigned by its index. If a server sends no index, or the same index for every call, fragments
are assigned by id, name and arguments: complete JSON arguments end a call, and incomplete arguments continue in the
next fragment. Some servers repeat the calls at the end of a stream. A call with the id, the name and the arguments of
an earlier call of the stream is such a repetition, and does not run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Final, final

from chat_core.json import loads
from chat_core.messages import FunctionCall, Opaque, Tool
from chat_core.wire.shapes import Json, WrongShapeError, is_object

FUNCTION_CALL: Final = "function_call"
"""The index of the call in the older message field of this name."""
_STRUCTURE: Final = re.compile(r'["\\\\{}\[\]]')


@final
class _Nesting:
    """A scanner that tracks the nesting depth of JSON received in fragments, each of which is scanned once."""

    __slots__ = ("_depth", "_escaped", "_in_string", "_objects")

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False  # whether the next fragment starts with an escaped character
        self._in_string = False
        self._objects = 0  # objects that are not inside another value

    def feed(self, text: str) -> None:
        """Scan the next fragment of the JSON text and update the nesting depth."""
        escaped = 0 if self._escaped else -1
        for match in _STRUCTURE.finditer(text):
            index, character = match.start(), match[0]
            if index == escaped:
                continue
            if character == '"':
                self._in_string = not self._in_string
            elif self._in_string:
                escaped = index + 1 if character == "\\" else escaped
            elif character in "{[":
                self._objects += self._depth == 0 and character == "{"
                self._depth += 1
            else:
                self._depth -= 1
        self._escaped = bool(text) and escaped == len(text)

    @property
    def closed(self) -> bool:
        """Whether the scanned text is exactly one complete JSON object."""
        return self._objects == 1 and self._depth == 0 and not self._in_string


@final
class Call:
    """A tool call that is assembled from streamed fragments.

    Attributes:
        index: the position among the calls of the response.
        id: the call id.
        name: the name of the tool.
        arguments: the fragments of the arguments.
        kind: the type of the call; empty if none was sent.
        extra_fields: other fields of the call, which are sent back.
    """

    __slots__ = (
        "_canonical",
        "_length",
        "_nesting",
        "_scanned",
        "arguments",
        "extra_fields",
        "id",
        "index",
        "kind",
        "name",
    )

    def __init__(self, index: int) -> None:
        self.index: int = index
        self.id: str | None = None
        self.name: str = ""
        self.arguments: list[str] = []
        self.kind: str = ""
        self.extra_fields: Json = {}
        self._canonical: str | None = None
        self._length = 0
        self._nesting: _Nesting | None = None
        self._scanned = 0

    def add_fragment(self, id: str, name: str, text: str, kind: str) -> None:
        """Add a fragment to the call. A repeated name is ignored, and the rest of a split name is appended.

        Args:
            id: the call id, or an empty string.
            name: the name or a part of it, or an empty string.
            text: the next piece of the arguments' JSON text.
            kind: the type of the call, or an empty string.
        """
        self.id = self.id or id or None
        if not self.name or name.startswith(self.name):
            self.name = name or self.name
        elif not self.arguments:
            self.name += name
        self.kind = self.kind or kind
        if text:
            self.arguments.append(text)
            self._canonical = None
            self._length += len(text)

    def has_complete_arguments(self) -> bool:
        """Return whether the arguments received so far are a complete JSON object.

        Repeated checks scan each fragment only once.
        """
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        if self._nesting is None:
            self._nesting = _Nesting()
        for text in self.arguments[self._scanned :]:
            self._nesting.feed(text)
        self._scanned = len(self.arguments)
        return self._nesting.closed

    def has_incomplete_arguments(self) -> bool:
        """Return whether a part of the arguments was received, but not all of them."""
        return bool(self.arguments) and not self.has_complete_arguments()

    def has_arguments(self, text: str) -> bool:
        """Return whether the arguments received so far equal `text`, as text or as JSON."""
        if len(text) == self._length and text == "".join(self.arguments):
            return True
        return text.lstrip().startswith("{") and _canonical_json(text) == self.canonical_arguments()

    def canonical_arguments(self) -> str:
        """Return the arguments as JSON with sorted keys and without optional whitespace. No arguments are `{}`."""
        if self._canonical is None:
            self._canonical = _canonical_json("".join(self.arguments))
        return self._canonical

    def tool(self, provider: str) -> Tool:
        """Return the call as a pending `Tool` part. `provider` is recorded as the owner of its opaque data."""
        data = self.extra_fields if self.kind in {"", "function"} else self.extra_fields | {"type": self.kind}
        opaque, text = Opaque(provider, data) if data else None, "".join(self.arguments)
        if self.kind == "custom":
            # The text is not JSON. The tool receives it as the argument `input`.
            return Tool(FunctionCall(self.name, {"input": text}, raw=text, opaque=opaque), call_id=self.id)
        return Tool(FunctionCall.parse(self.name, text, opaque=opaque), call_id=self.id)


@final
class Calls:
    """The tool calls of one response, in the order in which their first fragments were received."""

    __slots__ = ("_by_id", "_by_index", "_restarted", "_whole", "found")

    def __init__(self, *, whole: bool) -> None:
        self.found: list[Call] = []
        self._whole = whole
        self._by_id: dict[str, Call] = {}
        self._by_index: dict[str, Call] = {}
        self._restarted: Call | None = None  # the complete call whose id and name the previous fragment repeated

    def distinct(self) -> list[Call]:
        """Return the calls without repeated calls.

        Complete responses repeat no calls in `tool_calls`. Some servers send a call in `function_call`, too.
        """
        found = self.found
        if len(found) > 1 and (older := self._by_index.get(FUNCTION_CALL)) is not None:
            others = [call for call in found if call is not older]
            text = older.canonical_arguments()
            if any(call.name == older.name and call.canonical_arguments() == text for call in others):
                found = others
        counts = Counter([call.id for call in found if call.id])
        if self._whole or len(counts) == sum(counts.values()):
            return found
        first: dict[tuple[object, ...], Call] = {}
        for call in found:
            shared = counts[call.id or ""] > 1
            first.setdefault((call.id, call.name, call.canonical_arguments()) if shared else (call,), call)
        return list(first.values())

    def place(self, index: object, id: str, name: str, text: str) -> Call | None:
        """Return the existing or new call that a fragment belongs to, or None if the fragment adds nothing.

        Args:
            index: the index of the call, if the server sends one.
            id: the call id, or an empty string.
            name: the name, or an empty string.
            text: the arguments in the fragment.
        """
        place = str(index) if isinstance(index, (int, str)) else None
        known: Call | None = None
        if not self._whole:
            known = self._find_call_without_index(id, name, text) if place is None else self._by_index.get(place)
        restarted = self._restarted
        if name or text:
            self._restarted = None
        repeats: Call | None = None
        if name:
            if self._repeats(place, known, id, name, text):
                return None
            if known is not None and id and not text:
                self._restarted = self._find_restarted(known)
            if known is not None and _begins_another(known, id, text, indexed=place is not None):
                known = None
        elif known is not None and known is restarted and text.lstrip().startswith("{"):
            known, repeats = None, restarted
        if known is None and (id or name or text):
            known = self._start(place, repeats)
        if known is not None and id and known.id is None and not self._whole:
            self._by_id[id] = known
        return known

    def _start(self, place: str | None, repeats: Call | None) -> Call:
        """Return a new call. `repeats` is the call whose id and name the previous fragment repeated, if any."""
        call = Call(len(self.found))
        if repeats is not None:
            call.id, call.name = repeats.id, repeats.name
            self._by_id[call.id or ""] = call
        self.found.append(call)
        if place is not None:
            self._by_index[place] = call
        return call

    def _repeats(self, place: str | None, known: Call | None, id_: str, name: str, text: str) -> bool:
        """Return whether a fragment repeats a complete call. Further fragments with its index then belong to that call.

        `known` is the call that the fragment would continue.
        """
        for call in (self._by_id.get(id_), known):
            if call is not None and _repeats_call(call, id_, name, text):
                if place is not None:
                    self._by_index.setdefault(place, call)
                return True
        return False

    def _find_restarted(self, call: Call) -> Call | None:
        """Return `call`, whose id and name were repeated, or None if the next fragment cannot repeat its arguments."""
        if self.found[-1].has_incomplete_arguments():
            return None  # the next fragment continues the last call
        return call if call.has_complete_arguments() else None

    def _find_call_without_index(self, id_: str, name: str, text: str) -> Call | None:
        """Return the existing call that a fragment without an index belongs to, or None if it starts a new call."""
        last = self.found[-1] if self.found else None
        if id_ and (same := self._by_id.get(id_)) is not None:
            return same
        if not name:
            return self._restarted or last  # an unknown id without a name: some servers give each fragment a new id
        if id_ or last is None or last.name != name or not last.arguments or not text or last.has_complete_arguments():
            return None
        return last


def _repeats_call(call: Call, id_: str, name: str, text: str) -> bool:
    """Return whether a fragment only repeats a complete call, as some servers do at the end of a stream."""
    if name != call.name or (id_ and call.id and id_ != call.id):
        return False
    return bool(text) and call.has_complete_arguments() and call.has_arguments(text)


def _canonical_json(text: str) -> str:
    try:
        return json.dumps(loads(text if text.strip() else "{}"), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text


def _begins_another(call: Call, id_: str, text: str, *, indexed: bool) -> bool:
    """Return whether a fragment with a name starts another call that reuses the index or, without one, the id."""
    if indexed and id_ and call.id:
        return id_ != call.id
    return text.lstrip().startswith("{") and call.has_complete_arguments()


def wrong_call(kind: object, function: object, name: object, position: int | None) -> WrongShapeError:
    """Return the error that names the first field of a call that has the wrong type.

    Args:
        kind: the type of the call.
        function: name and arguments of the call.
        name: the name of the tool, if `function` is an object.
        position: position in `tool_calls`; `None` for the field `function_call`.
    """
    path = "function_call" if position is None else f"tool_calls[{position}]"
    if not isinstance(kind, str):
        return WrongShapeError(f"{path}.type", "a string")
    if not is_object(function):
        return WrongShapeError(f"{path}.function", "an object")
    return WrongShapeError(f"{path}.id" if isinstance(name, str) else f"{path}.function.name", "a string")
