"""Conversion of the parts of a response to the parts of a turn.

In a stream, adjacent texts are joined, and so are adjacent thoughts and raw audio. A part with a signature is never
joined, because the API requires signatures unchanged on the same parts in later requests.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, final

from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import File, Opaque, Part, ProviderPart, Reasoning, Text
from chat_core.provider import Delta
from chat_core.wire.shapes import Json, WrongShapeError, mapping, require_object, require_text

from chat_gemini.calls import Call

SIGNATURE: Final = "thoughtSignature"

BESIDE: Final = frozenset({"thought", SIGNATURE})
"""Fields of a part that describe its content."""

RAW_SOUND: Final = ("audio/l16", "audio/l24", "audio/pcm")
"""Mime types of audio without a header, whose pieces can be concatenated."""


@final
class Answer:
    """Collector of the parts of one response. Pieces of text are joined once, at the end."""

    __slots__ = ("_items", "_of", "_open", "_provider", "_sound", "_whole", "calls", "texts")

    def __init__(self, provider: str, *, whole: bool) -> None:
        self._provider = provider
        self._whole = whole
        self._items: list[Part | Call] = []
        self.texts: list[str] = []  # of the part that grows
        self._of: type[Text | Reasoning] | None = None  # what grows
        self._sound: tuple[str, list[bytes]] | None = None  # or this does
        self._open: Call | None = None
        self.calls: list[Call] = []

    @property
    def flowing(self) -> bool:
        """Whether the open part is a text, so that the next piece may be appended to `texts`."""
        return self._of is Text

    def read(self, parts: list[Any], out: list[Delta]) -> None:
        """Add the `parts` of a chunk, and append the deltas for the caller to `out`.

        Raises:
            WrongShapeError: a known field has the wrong type.
        """
        for index, item in enumerate(parts):
            if item is None:
                continue
            path = f"parts[{index}]"
            part = require_object(item, path)
            if len(part) > 1:
                part = self._plain(part, path, out)
            for key, value in part.items():
                if value is not None and (handle := KINDS.get(key)) is not None:
                    handle(self, value, part, path, out)
                    break
            else:
                self._other(part)

    def _plain(self, part: Json, path: str, out: list[Delta]) -> Json:
        """Return the part without nulls. If it also has a text, as from some gateways, add the text first."""
        if None in part.values():
            part = {key: value for key, value in part.items() if value is not None}
        if "text" not in part or part.keys().isdisjoint(OTHERS):
            return part
        if part["text"]:
            self.text(part["text"], {key: part[key] for key in ("text", "thought") if key in part}, path, out)
        return {key: value for key, value in part.items() if key != "text"}

    def parts(self) -> list[Part]:
        """Return the parts received so far, in order."""
        items = [*self._items]
        grown = self._grown()
        if grown is not None:
            items.append(grown)
        ran_on_server = _answered_calls(items)
        return [self._call_part(item, item in ran_on_server) if isinstance(item, Call) else item for item in items]

    def _call_part(self, call: Call, ran_on_server: bool) -> Part:  # noqa: FBT001 - private
        """Return the tool call, or the whole part if the server ran it."""
        return (
            ProviderPart(self._provider, "functionCall", call.wire_part())
            if ran_on_server
            else call.tool(self._provider)
        )

    # --- What grows ------------------------------------------------------------------------------------------

    def _grown(self) -> Part | None:
        if self._sound is not None:
            mime, pieces = self._sound
            return File(mime, data=b"".join(pieces))
        if not self.texts:
            return None
        text = "".join(self.texts)
        return Text(text) if self._of is Text else Reasoning(text, opaque=Opaque(self._provider, {}))

    def _close(self) -> None:
        grown = self._grown()
        if grown is not None:
            self._items.append(grown)
        self.texts.clear()  # its owner holds on to this list
        self._of = self._sound = None

    # --- One part --------------------------------------------------------------------------------------------

    def text(self, value: object, part: Json, path: str, out: list[Delta]) -> None:
        """Add text or thinking: `value` of `part` at `path`. Deltas are appended to `out`."""
        text = require_text(value, f"{path}.text")
        kind = Reasoning if part.get("thought") else Text
        if text:
            out.append(TextDelta(text) if kind is Text else ReasoningDelta(text))
        if part.get(SIGNATURE) or part.keys() - BESIDE - {"text"}:
            self._close()
            self._items.append(self._signed(kind, text, part, path))
        elif text:
            if self._whole or self._of is not kind:
                self._close()
                self._of = kind
            self.texts.append(text)

    def _signed(self, kind: type[Text | Reasoning], text: str, part: Json, path: str) -> Part:
        data = self._data(part, "text", path)
        if kind is Text:
            return Text(text, Opaque(self._provider, data))
        return Reasoning(text, data.pop(SIGNATURE, None), Opaque(self._provider, data))

    def _data(self, part: Json, kind: str, path: str) -> Json:
        """Return the opaque data of a part: its signature and further fields."""
        data: Json = {}
        if signature := part.get(SIGNATURE):
            data[SIGNATURE] = require_text(signature, f"{path}.{SIGNATURE}")
        if further := {key: value for key, value in part.items() if key not in BESIDE and key != kind}:
            data["part"] = further
        return data

    def call(self, value: object, part: Json, path: str, out: list[Delta]) -> None:
        """Add a function call, or a piece of one: `value` of `part` at `path`. Deltas are appended to `out`."""
        path = f"{path}.functionCall"
        entry = require_object(value, path)
        name = require_text(entry.get("name") or "", f"{path}.name")
        call = self._open
        first = call is None or (bool(name) and (call.id is None or call.id != entry.get("id")))
        if first:
            if not name:
                known = self.calls[-1].id if self.calls else None
                if entry.get("args") or entry.get("partialArgs") or entry.get("id") not in (None, "", known):
                    raise WrongShapeError(f"{path}.name", "a text")  # noqa: EM102 - a path
                return  # it ends what has ended
            self._close()
            call = Call(name, None)
            self.calls.append(call)
            self._items.append(call)
        assert call is not None  # noqa: S101 - for the type checkers
        call.add(entry, path)
        call.further |= self._data(part, "functionCall", path)
        if further := {key: item for key, item in entry.items() if key not in CALL_FIELDS and item is not None}:
            call.further["call"] = further
        self._open = call if call.open else None
        index = len(self.calls) - 1
        text = "" if call.open else call.text
        if first or text:
            out.append(ToolCallDelta(text, index, name if first else None, call.id if first else None))

    def inline(self, value: object, part: Json, path: str, out: list[Delta]) -> None:
        """Add a generated file: `value` of `part` at `path`. Deltas are appended to `out`."""
        blob = require_object(value, f"{path}.inlineData")
        if part.get("thought"):
            self._other(part)  # a sketch on the way to the answer is no file of it
            return
        data = _base64(require_text(blob.get("data") or "", f"{path}.inlineData.data"), f"{path}.inlineData.data")
        mime = require_text(blob.get("mimeType") or "application/octet-stream", f"{path}.inlineData.mimeType")
        further = self._data(part, "inlineData", path) | _blob(blob)
        if not further and not self._whole and mime.lower().startswith(RAW_SOUND):
            if self._sound is None or self._sound[0] != mime:
                self._close()
                self._sound = mime, []
            self._sound[1].append(data)
            out.append(FilePart(File(mime, data=data)))
            return
        name = blob.get("displayName")
        file = File(
            mime,
            data=data,
            name=name if isinstance(name, str) else None,
            opaque=Opaque(self._provider, further) if further else None,
        )
        self._add_file(file, out)

    def linked(self, value: object, part: Json, path: str, out: list[Delta]) -> None:
        """Add a generated file by its URI: `value` of `part` at `path`. Deltas are appended to `out`."""
        where = require_object(value, f"{path}.fileData")
        mime = require_text(where.get("mimeType") or "application/octet-stream", f"{path}.fileData.mimeType")
        url = require_text(where.get("fileUri"), f"{path}.fileData.fileUri")
        further = self._data(part, "fileData", path) | _blob(where)
        self._add_file(File(mime, url=url, opaque=Opaque(self._provider, further) if further else None), out)

    def _add_file(self, file: File, out: list[Delta]) -> None:
        self._close()
        self._items.append(file)
        out.append(FilePart(file))

    def _other(self, part: Json) -> None:
        """Add a part of another type, such as executed code or a call of a server-side tool."""
        kind = next((key for key, value in part.items() if key not in BESIDE and value is not None), None)
        if kind is None and part.get(SIGNATURE):
            kind = SIGNATURE
        if kind is not None:
            self._close()
            self._items.append(ProviderPart(self._provider, kind, part))


def _answered_calls(items: Iterable[Part | Call]) -> set[Call]:
    """Return the calls whose result the response contains, because the server ran them (`mcpServers`).

    A result names its call by id, or else answers the first call of that name without a result.
    """
    unanswered: dict[object, deque[Call]] = {}
    answered: set[Call] = set()
    for item in items:
        if isinstance(item, Call):
            for key in {("id", item.id), ("name", item.name)}:
                unanswered.setdefault(key, deque()).append(item)
        elif isinstance(item, ProviderPart) and item.kind == "functionResponse":
            result = mapping(item.data.get("functionResponse"))
            field = "id" if result.get("id") else "name"
            calls = unanswered.get((field, str(result.get(field))), deque())
            while calls and calls[0] in answered:
                calls.popleft()
            if calls:
                answered.add(calls.popleft())
    return answered


Handler: TypeAlias = Callable[[Answer, Any, Json, str, list[Delta]], None]

KINDS: Final[Mapping[str, Handler]] = {
    "text": Answer.text,
    "functionCall": Answer.call,
    "inlineData": Answer.inline,
    "fileData": Answer.linked,
}
"""Handlers by field of a part. A part without any of these fields becomes a `ProviderPart`."""

OTHERS: Final = frozenset(
    {
        "functionCall", "inlineData", "fileData", "functionResponse", "executableCode", "codeExecutionResult",
        "toolCall", "toolResponse",
    }
)  # fmt: skip
"""Fields that a part may have instead of a text."""

BLOB_FIELDS: Final = frozenset({"mimeType", "data", "fileUri"})


def _blob(blob: Json) -> Json:
    """Return the further fields of a file, such as its display name."""
    further = {key: item for key, item in blob.items() if key not in BLOB_FIELDS and item is not None}
    return {"blob": further} if further else {}


CALL_FIELDS: Final = frozenset({"id", "name", "args", "partialArgs", "willContinue"})


def _base64(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        plain = "".join(text.split()).translate(URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        raise WrongShapeError(path, "base64") from None


URL_SAFE: Final = str.maketrans("-_", "+/")
"""Translation of URL-safe base64: protocol buffers in JSON may use either alphabet, without padding."""
