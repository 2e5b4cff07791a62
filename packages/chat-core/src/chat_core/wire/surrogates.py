"""A buffer that joins surrogate pairs which a server split between two events.

Servers that count in UTF-16 may end a piece of text between the two halves of a surrogate pair. JSON can escape a lone
surrogate, but UTF-8 cannot encode it. This module buffers the first half until the second half arrives.
"""

from __future__ import annotations

from typing import Final, final

from chat_core.wire.shapes import is_list, is_object

Path = tuple[int | str, ...]

MAX_DEPTH: Final = 32
"""Maximum nesting depth of the strings that are processed in an event."""

INDEXES: Final = ("index", "output_index", "content_index", "summary_index")
"""Fields of an event that identify the part of the response that its strings belong to."""


@final
class SurrogateBuffer:
    """A buffer for the first halves of surrogate pairs in a stream, until their second halves arrive."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[Path, str] = {}

    def feed(self, event: object) -> object:
        """Return an event with split surrogate pairs joined.

        High surrogates at the end of a string are buffered, and prepended to the next string of the same field. Fields
        of events that differ in one of `INDEXES` are different fields.
        """
        part = str([event.get(name) for name in INDEXES]) if is_object(event) else ""
        return self._join_halves(event, (part,), hold=True)

    def _join_halves(self, value: object, path: Path, *, hold: bool) -> object:
        if isinstance(value, str):
            return self._join_text(value, path, hold=hold)
        if len(path) > MAX_DEPTH + 1:  # the first item is no level
            return value
        if is_object(value):
            # No second half follows after the finish reason.
            hold = hold and not (value.get("finish_reason") or value.get("finishReason"))
            return {key: self._join_halves(item, (*path, key), hold=hold) for key, item in value.items()}
        if is_list(value):
            return [self._join_halves(item, (*path, index), hold=hold) for index, item in enumerate(value)]
        return value

    def _join_text(self, text: str, path: Path, *, hold: bool) -> str:
        text = self.held.pop(path, "") + text
        if hold and "\ud800" <= text[-1:] <= "\udbff":
            self.held[path] = text[-1]
            text = text[:-1]
        # Join pairs to characters. A lone surrogate stays unchanged.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
