"""Characters that a server cut in two.

Servers that count in UTF-16 end a piece of text where it suits them, and that may be between the two halves of a
surrogate pair. JSON can say half a pair, as an escape, but nothing can print or send it. The first half is held back
here until the second one comes, so that each piece, and all of them together, are text.
"""

from __future__ import annotations

from typing import Final, final

from chat_core.wire.shapes import is_list, is_object

Path = tuple[int | str, ...]

MAX_DEPTH: Final = 32
"""No text of this wire is deeper in an event."""


@final
class SurrogateBuffer:
    """The first halves of one stream that wait for their second ones, by where in an event they stood."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[Path, str] = {}

    def feed(self, event: object) -> object:
        """An event whose texts begin with what was held back, and end in front of half a character."""
        return self._join_halves(event, (), hold=True)

    def _join_halves(self, value: object, path: Path, *, hold: bool) -> object:
        if isinstance(value, str):
            return self._join_text(value, path, hold=hold)
        if len(path) > MAX_DEPTH:
            return value
        if is_object(value):
            # Behind the end of an answer, however the wire calls it, no second half comes.
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
        # A pair becomes its character; a half whose other one never came stays what it is.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
