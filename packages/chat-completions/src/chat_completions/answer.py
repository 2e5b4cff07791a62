"""The message of one response, assembled from deltas and converted to parts. A table maps fields to handlers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.json import dumps
from chat_core.messages import File, Opaque, Part, ProviderPart, Reasoning, Text
from chat_core.provider import Delta
from chat_core.wire.shapes import Json, WrongShapeError, is_list, is_object, require_list, require_object, require_text

from chat_completions.calls import Call, Calls

Piece: TypeAlias = Mapping[str, Any]
"""The decoded JSON of a message or a delta."""


@final
class Answer:
    """A collector of the message of one response. Text fragments are joined once at the end."""

    __slots__ = (
        "_audio",
        "_before",
        "_calls",
        "_chunk",
        "_details",
        "_field",
        "_files",
        "_message",
        "_notes",
        "_others",
        "_pieces",
        "_provider",
        "_refusal",
        "_sound",
        "_sources",
        "_thoughts",
        "_uncut",
        "_whole",
        "calls",
        "texts",
    )

    def __init__(self, provider: str, *, whole: bool) -> None:
        self._provider = provider
        self._whole = whole
        self.texts: list[str] = []
        self._calls = Calls(whole=whole)
        self.calls: list[Call] = self._calls.found
        self._thoughts: list[str] = []
        self._field: str | None = None  # of the reasoning
        self._chunk: Json | None = None  # of the reasoning, where it came as a part of the content
        self._pieces: list[Json] = []  # of which such a part is made
        self._details: list[Json] = []
        self._before: list[Part] = []  # what was closed by reasoning that began anew
        self._refusal: list[str] = []
        self._files: list[Part] = []
        self._others: list[Part] = []
        self._notes: list[Any] = []
        self._audio: Json = {}
        self._sound: list[bytes] = []
        self._uncut = ""
        self._sources: Json = {}
        self._message: Json = {}

    @property
    def refused(self) -> bool:
        """Whether the model refused."""
        return bool(self._refusal)

    def read(self, piece: Piece, out: list[Delta]) -> None:
        """Read a message or a delta.

        Args:
            piece: The message or delta.
            out: The list to which the resulting events are appended.

        Raises:
            WrongShapeError: A known field has the wrong type.
        """
        for key, value in piece.items():
            # Ignore null and empty fields, whatever their type.
            if value and (handle := FIELDS.get(key)) is not None:
                handle(self, value, piece, out)
            elif value and key in RETURNED:
                self._message[key] = value
            elif value and key in SOURCES:
                known = self._sources.get(key)
                self._sources[key] = [*known, *value] if is_list(known) and is_list(value) else value

    def parts(self) -> list[Part]:
        """Return the parts of the turn: reasoning, text, other parts, and tool calls."""
        parts = [*self._before]
        self._close_words(parts)
        parts += self._files
        parts += self._others
        if self._audio:
            self._close_audio(parts)
        if self._refusal:
            parts.append(ProviderPart(self._provider, "refusal", {"refusal": "".join(self._refusal)}))
        if self._notes:
            parts.append(ProviderPart(self._provider, "annotations", {"annotations": list(self._notes)}))
        parts += [ProviderPart(self._provider, key, {key: value}) for key, value in self._sources.items()]
        if self._message:
            parts.append(ProviderPart(self._provider, "message", dict(self._message)))
        parts += [call.tool(self._provider) for call in self.calls if call.name]
        return parts

    # --- Words ---------------------------------------------------------------------------------------

    def _close_words(self, parts: list[Part]) -> None:
        if self._thoughts or self._details:
            data: Json = {}
            if self._chunk is not None:
                data["chunk"] = self._chunk
                # Keep fields beside the text, such as a signature, because they are sent back.
                if any(piece.keys() - PLAIN or piece.get("type") != "text" for piece in self._pieces):
                    last = self._pieces[0] | {"text": "".join(self._thoughts)}
                    data["pieces"] = [dict(piece) for piece in self._pieces] if self._whole else [last]
            elif self._field is not None:
                data["field"] = self._field
            if self._details:
                data["details"] = [dict(detail) for detail in self._details]
            parts.append(Reasoning("".join(self._thoughts), opaque=Opaque(self._provider, data)))
        if self.texts:
            parts.append(Text("".join(self.texts)))

    def content(self, value: object, _piece: Piece, out: list[Delta]) -> None:
        """Read the content, which is a string or a list of parts."""
        if isinstance(value, str):
            self.texts.append(value)
            out.append(TextDelta(value))
        elif is_list(value):
            for index, part in enumerate(value):
                if not is_object(part):
                    raise WrongShapeError(f"content[{index}]", "an object")  # noqa: EM102 - a path
                self._content_part(part, f"content[{index}]", out)
        else:
            raise WrongShapeError("content", "a text or a list")

    def _content_part(self, part: Json, path: str, out: list[Delta]) -> None:
        kind = part.get("type")
        if kind == "text" or kind is None:
            if text := require_text(part.get("text") or "", f"{path}.text"):
                self.texts.append(text)
                out.append(TextDelta(text))
        elif isinstance(kind, str) and kind in THOUGHTS:
            self._thinking(part, THOUGHTS[kind], path, out)
        elif kind == "refusal":
            self.refusal(part.get("refusal") or "", part, out)
        elif kind == "image_url":
            self.images([part], part, out)
        else:
            self._others.append(ProviderPart(self._provider, "part", part))

    def _thinking(self, part: Json, key: str, path: str, out: list[Delta]) -> None:
        if self.texts:
            self._close_words(self._before)
            self._thoughts, self._chunk, self._pieces, self._details = [], None, [], []
            self.texts.clear()  # the decoder holds a reference to this list
        value = part.get(key) or ""
        pieces = value if is_list(value) else [{"type": "text", "text": value}]
        self._chunk = (self._chunk or {}) | {name: item for name, item in part.items() if name != key}
        for item in pieces:
            piece = require_object(item, f"{path}.{key}")
            text = require_text(piece.get("text") or "", f"{path}.{key}")
            if self._pieces and not self._whole:
                self._pieces[0] |= {name: item for name, item in piece.items() if item}
            else:
                self._pieces.append(dict(piece))
            self._think(text, out)

    def _think(self, text: str, out: list[Delta]) -> None:
        if text:
            self._thoughts.append(text)
            out.append(ReasoningDelta(text))

    def reasoning_content(self, value: object, _piece: Piece, out: list[Delta]) -> None:
        """Read the reasoning text in `reasoning_content`."""
        self._plain("reasoning_content", value, out)

    def reasoning(self, value: object, _piece: Piece, out: list[Delta]) -> None:
        """Read the reasoning text in `reasoning`. If a server sends several fields, the first one is used."""
        self._plain("reasoning", value, out)

    def reasoning_text(self, value: object, _piece: Piece, out: list[Delta]) -> None:
        """Read the reasoning text in `reasoning_text`."""
        self._plain("reasoning_text", value, out)

    def _plain(self, field: str, value: object, out: list[Delta]) -> None:
        text = require_text(value, field)
        if self._field is None:
            self._field = field
        if field == self._field:
            self._think(text, out)

    def reasoning_details(self, value: object, piece: Piece, out: list[Delta]) -> None:
        """Read structured reasoning with its signatures. Fragments of one detail are joined."""
        for index, item in enumerate(require_list(value, "reasoning_details")):
            detail = require_object(item, f"reasoning_details[{index}]")
            self._detail(detail)
            if not any(piece.get(name) for name in REASONING):
                self._think(require_text(detail.get("text") or detail.get("summary") or "", "reasoning_details"), out)

    def _detail(self, detail: Json) -> None:
        last = self._details[-1] if self._details and not self._whole else None
        if (
            last is None
            or any(last.get(key) != detail.get(key) for key in ("type", "index"))
            or _other_id(last, detail)
        ):
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            known = last.get(key)
            if key in GROWING and isinstance(known, str) and isinstance(value, str):
                last[key] = known + value
            elif value is not None:
                last[key] = value

    def refusal(self, value: object, _piece: Piece, _out: list[Delta]) -> None:
        """Read the text of a refusal."""
        self._refusal.append(require_text(value, "refusal"))

    # --- Calls ---------------------------------------------------------------------------------------

    def tool_calls(self, value: object, _piece: Piece, out: list[Delta]) -> None:
        """Read tool calls or fragments of them."""
        for position, item in enumerate(require_list(value, "tool_calls")):
            path = f"tool_calls[{position}]"
            entry = require_object(item, path)
            # Some servers send both forms of a call, one of them empty.
            kind = require_text(entry.get("type") or "", f"{path}.type")
            custom = entry.get("custom") if kind == "custom" or not entry.get("function") else None
            function = require_object(custom or entry.get("function") or {}, f"{path}.function")
            if custom or kind == "custom":
                kind = "custom" if custom else ""
            self._take_call(entry, function, path, kind, out)

    def function_call(self, value: object, _piece: Piece, out: list[Delta]) -> None:
        """Read the single call of the older `function_call` field."""
        function = require_object(value, "function_call")
        if function.get("name") or function.get("arguments"):
            self._take_call({"index": "function_call"}, function, "function_call", "", out)

    def _take_call(self, entry: Json, function: Json, path: str, kind: str, out: list[Delta]) -> None:
        name = require_text(function.get("name") or "", f"{path}.function.name")
        id_ = require_text(entry.get("id") or "", f"{path}.id")
        text = _arguments(function.get("input") if kind == "custom" else function.get("arguments"))
        call = self._calls.place(entry.get("index"), id_, name, text)
        if call is None:
            return
        first = not call.name
        call.grow(id_, name, text, kind)
        for key, item in entry.items():
            if key not in CALL_FIELDS and item is not None:
                call.extra_fields[key] = item
        if text or (first and name):
            out.append(ToolCallDelta(text, call.index, name if first else None, call.id if first else None))

    # --- The rest --------------------------------------------------------------------------------------

    def images(self, value: object, _piece: Piece, out: list[Delta]) -> None:
        """Read generated images."""
        for index, item in enumerate(require_list(value, "images")):
            image = require_object(item, f"images[{index}]")
            where = image.get("image_url")
            if not isinstance(where, str):
                where = require_object(where, f"images[{index}].image_url").get("url")
            url = require_text(where, f"images[{index}].image_url.url")
            kept = {key: item for key, item in image.items() if key not in {"image_url", "type"}}
            file = _file(url, Opaque(self._provider, {"image": kept}), f"images[{index}].image_url.url")
            self._files.append(file)
            out.append(FilePart(file))

    def audio(self, value: object, _piece: Piece, out: list[Delta]) -> None:
        """Read audio output with its transcript, which is the text of the response."""
        audio = require_object(value, "audio")
        if not any(audio.values()):
            return
        if data := require_text(audio.get("data") or "", "audio.data"):
            # Some servers encode each fragment as base64; others split one base64 text at any position.
            data = self._uncut + data
            end = len(data) if data.endswith("=") else len(data) // 4 * 4
            self._uncut = data[end:]
            self._sound.append(_base64(data[:end], "audio.data"))
        for key, item in audio.items():
            if item and key not in {"data", "transcript"}:
                self._audio[key] = item
        if text := require_text(audio.get("transcript") or "", "audio.transcript"):
            self._audio["transcript"] = self._audio.get("transcript", "") + text
            out.append(TextDelta(text))

    def _close_audio(self, parts: list[Part]) -> None:
        known = {key: value for key, value in self._audio.items() if key != "transcript"}
        if transcript := self._audio.get("transcript"):
            parts.append(Text(transcript, Opaque(self._provider, {"transcript_of": known.get("id", "")})))
        sound = b"".join(self._sound)
        parts.append(File(_sound_mime(sound), data=sound, opaque=Opaque(self._provider, {"audio": known})))

    def annotations(self, value: object, _piece: Piece, _out: list[Delta]) -> None:
        """Read annotations, such as citations and parsed files."""
        self._notes += require_list(value, "annotations")

    def executed_tools(self, value: object, _piece: Piece, _out: list[Delta]) -> None:
        """Read tools that the server ran. Each is reported when it starts, and replaced when it ends."""
        for item in require_list(value, "executed_tools"):
            index = item.get("index") if is_object(item) else None
            same = [
                part
                for part in self._others
                if isinstance(part, ProviderPart) and part.kind == "executed_tool" and part.data.get("index") == index
            ]
            for part in same if index is not None else []:
                self._others.remove(part)
            self._others.append(ProviderPart(self._provider, "executed_tool", require_object(item, "executed_tools")))


Handler: TypeAlias = Callable[[Answer, Any, Piece, list[Delta]], None]

FIELDS: Final[Mapping[str, Handler]] = {
    "content": Answer.content,
    "reasoning_content": Answer.reasoning_content,
    "reasoning": Answer.reasoning,
    "reasoning_text": Answer.reasoning_text,
    "reasoning_details": Answer.reasoning_details,
    "refusal": Answer.refusal,
    "tool_calls": Answer.tool_calls,
    "function_call": Answer.function_call,
    "images": Answer.images,
    "audio": Answer.audio,
    "annotations": Answer.annotations,
    "executed_tools": Answer.executed_tools,
}
"""The handlers of known message fields."""

REASONING: Final = ("reasoning", "reasoning_content", "reasoning_text")
"""The message fields that contain reasoning as plain text."""

THOUGHTS: Final[Mapping[str, str]] = {"thinking": "thinking", "reasoning": "summary"}
"""The types of content parts that contain reasoning, and the key of their text."""

PLAIN: Final = frozenset({"type", "text"})

RETURNED: Final = frozenset({"extra_content", "reasoning_opaque"})
"""The message fields that must be sent back unchanged."""

SOURCES: Final = frozenset({"citations", "search_results", "context"})
"""The message fields with sources of a response. They are not sent back."""

GROWING: Final = frozenset({"text", "summary", "data"})
"""The fields of a reasoning detail whose fragments are concatenated."""

CALL_FIELDS: Final = frozenset({"id", "index", "type", "function", "custom"})


def _arguments(value: object) -> str:
    """Return arguments as JSON text. Some servers send an object instead of text."""
    if isinstance(value, str):
        return value
    if not value:
        return ""  # null, or an empty list for an empty object
    if is_object(value):
        return dumps(value)
    raise WrongShapeError("tool_calls.function.arguments", "a text")


def _other_id(one: Piece, other: Piece) -> bool:
    return bool(one.get("id") and other.get("id") and one["id"] != other["id"])


def _base64(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WrongShapeError(path, "base64") from None


def _file(url: str, opaque: Opaque, path: str) -> File:
    """Return a file for a URL or for the content of a data URL."""
    if not url.startswith("data:"):
        return File("image/*", url=url, opaque=opaque)
    head, _, data = url[5:].partition(",")
    mime, *flags = head.split(";")
    if "base64" not in flags:
        raise WrongShapeError(path, "a data URL in base64")
    return File(mime or "application/octet-stream", data=_base64(data, path), opaque=opaque)


SOUNDS: Final = ((b"RIFF", "audio/wav"), (b"ID3", "audio/mpeg"), (b"\xff\xfb", "audio/mpeg"), (b"fLaC", "audio/flac"))


def _sound_mime(data: bytes) -> str:
    """Return the MIME type of audio by its signature. Without a known signature, the data is raw PCM."""
    if data.startswith(b"OggS"):
        return "audio/ogg"
    return next((mime for mark, mime in SOUNDS if data.startswith(mark)), "audio/pcm")
