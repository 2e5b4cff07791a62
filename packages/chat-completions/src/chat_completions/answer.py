"""Decoder that joins the deltas of one response message and converts the message to parts.

A table maps the fields of a message to the methods that read them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias, final

from chat_core.errors import UsageError
from chat_core.events import FilePart, ReasoningDelta, StructuredPart, TextDelta, ToolCallDelta
from chat_core.json import dumps
from chat_core.messages import File, Opaque, Part, ProviderPart, Reasoning, Structured, Text
from chat_core.provider import Delta
from chat_core.wire.shapes import Json, WrongShapeError, is_list, is_object, require_list, require_object, require_text

from chat_completions.calls import FUNCTION_CALL, Call, Calls, wrong_call

MessageFields: TypeAlias = Mapping[str, Any]
"""The fields of a response message or of one of its deltas."""
Handler: TypeAlias = Callable[[Any, Any, MessageFields, list[Delta]], None]
"""A method that reads one field.

The arguments are the `Answer`, the value of the field, all fields of the message or delta, and the list to which events
are appended.
"""


@final
class Answer:
    """A collector for the message of one response. Fragments are joined when the parts are built.

    Attributes:
        texts: the text fragments received so far.
        calls: the tool calls, in order of their first fragments.
    """

    __slots__ = (
        "_annotations",
        "_audio",
        "_audio_data",
        "_base64_rest",
        "_calls",
        "_closed_parts",
        "_detail_fragments",
        "_files",
        "_other_parts",
        "_provider",
        "_reasoning_details",
        "_reasoning_field",
        "_reasoning_part",
        "_reasoning_pieces",
        "_reasoning_texts",
        "_refusal",
        "_returned_fields",
        "_sources",
        "_thinking_blocks",
        "_transcript",
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
        self._reasoning_texts: list[str] = []
        self._reasoning_field: str | None = None  # the message field of the reasoning
        self._reasoning_part: Json | None = None  # the content part of the reasoning, without its text
        self._reasoning_pieces: list[Json] = []  # the text pieces of that part
        self._reasoning_details: list[Json] = []
        self._detail_fragments: dict[str, list[str]] = {}  # texts of the last detail
        self._thinking_blocks: list[tuple[Json, list[str]]] = []  # each with the pieces of its text
        self._closed_parts: list[Part] = []  # reasoning and text that precede further reasoning
        self._refusal: list[str] = []
        self._files: list[Part] = []
        self._other_parts: dict[object, Part] = {}
        self._annotations: list[Any] = []
        self._audio: Json = {}
        self._audio_data: list[bytes] = []
        self._base64_rest = ""  # an incomplete group of four characters
        self._transcript: list[str] = []
        self._sources: Json = {}
        self._returned_fields: Json = {}

    @property
    def refused(self) -> bool:
        """Whether the response contains a refusal by the model."""
        return bool(self._refusal)

    def read(self, piece: MessageFields, out: list[Delta]) -> None:
        """Add the fields of a complete message or of a delta.

        Args:
            piece: the message or delta.
            out: the list to which the resulting events are appended.

        Raises:
            WrongShapeError: a known field has the wrong type.
        """
        for key, value in piece.items():
            # Null and empty fields of any type are ignored.
            if value and (handle := self._HANDLERS.get(key)) is not None:
                handle(self, value, piece, out)
            elif value and key in RETURNED_FIELDS:
                self._returned_fields[key] = value
            elif value and key in SOURCE_FIELDS:
                self._add_sources(key, value)

    def _add_sources(self, key: str, value: object) -> None:
        known = self._sources.get(key)
        if is_list(known) and is_list(value):
            known.extend(value)
        else:
            self._sources[key] = list(value) if is_list(value) else value

    def parts(self) -> list[Part]:
        """Return the message as parts of a turn: reasoning, text, files, other parts, and tool calls."""
        parts = [*self._closed_parts]
        self._append_text_parts(parts)
        parts += self._files
        parts += self._other_parts.values()
        if self._audio or self._transcript:
            self._append_audio_parts(parts)
        if self._refusal:
            parts.append(ProviderPart(self._provider, "refusal", {"refusal": "".join(self._refusal)}))
        if self._annotations:
            parts.append(ProviderPart(self._provider, "annotations", {"annotations": list(self._annotations)}))
        parts += [
            ProviderPart(self._provider, key, {key: list(value) if is_list(value) else value})
            for key, value in self._sources.items()
        ]
        if self._returned_fields:
            parts.append(ProviderPart(self._provider, "message", dict(self._returned_fields)))
        parts += [call.tool(self._provider) for call in self._calls.distinct() if call.name]
        return parts

    def message_fields(self) -> Json:
        """Return the text, calls, reasoning and refusal as a message of a response body, for the metadata."""
        fields: Json = {
            "content": "".join(self.texts),
            "tool_calls": [
                {"id": call.id, "function": {"name": call.name, "arguments": "".join(call.arguments)}}
                for call in self.calls
            ],
        }
        if self._reasoning_texts:
            fields["reasoning"] = "".join(self._reasoning_texts)
        if self._refusal:
            fields["refusal"] = "".join(self._refusal)
        return fields

    # --- Text and reasoning ---------------------------------------------------------------------------------------

    def _append_text_parts(self, parts: list[Part]) -> None:
        if self._reasoning_texts or self._reasoning_details or self._thinking_blocks:
            data: Json = {}
            if self._reasoning_part is not None:
                data["chunk"] = self._reasoning_part
                # Fields other than the text, such as a signature, are sent back.
                if any(piece.keys() - TEXT_KEYS or piece.get("type") != "text" for piece in self._reasoning_pieces):
                    last = self._reasoning_pieces[0] | {"text": "".join(self._reasoning_texts)}
                    data["pieces"] = [dict(piece) for piece in self._reasoning_pieces] if self._whole else [last]
            elif self._reasoning_field is not None:
                data["field"] = self._reasoning_field
            if self._reasoning_details:
                self._join_detail_fragments()
                data["details"] = [dict(detail) for detail in self._reasoning_details]
            if self._thinking_blocks:
                data["blocks"] = [
                    {**block, "thinking": "".join(texts)} if texts else dict(block)
                    for block, texts in self._thinking_blocks
                ]
            parts.append(Reasoning("".join(self._reasoning_texts), opaque=Opaque(self._provider, data)))
        if self.texts:
            parts.append(Text("".join(self.texts)))

    def _read_content(self, value: object, _piece: MessageFields, out: list[Delta]) -> None:
        """Add the `content` field: a string, a list of content parts, or the JSON object of a structured response."""
        if isinstance(value, str):
            self.texts.append(value)
            out.append(TextDelta(value))
        elif is_list(value):
            for index, part in enumerate(value):
                if not is_object(part):
                    raise WrongShapeError(f"content[{index}]", "an object")  # noqa: EM102 - a path
                self._read_content_part(part, f"content[{index}]", out)
        elif is_object(value):
            try:
                self._other_parts[object()] = Structured(value)
            except UsageError as error:
                raise WrongShapeError("content", "JSON with finite numbers") from error
            out.append(StructuredPart(value))
        else:
            raise WrongShapeError("content", "a string, a list or an object")

    def _read_content_part(self, part: Json, path: str, out: list[Delta]) -> None:
        kind = part.get("type")
        if kind == "text" or kind is None:
            if text := require_text(part.get("text") or "", f"{path}.text"):
                self.texts.append(text)
                out.append(TextDelta(text))
        elif isinstance(kind, str) and kind in REASONING_PARTS:
            self._read_reasoning_part(part, REASONING_PARTS[kind], path, out)
        elif kind == "refusal":
            self._read_refusal(part.get("refusal") or "", part, out)
        elif kind == "image_url":
            self._read_images([part], part, out)
        else:
            self._other_parts[object()] = ProviderPart(self._provider, "part", part)

    def _read_reasoning_part(self, part: Json, key: str, path: str, out: list[Delta]) -> None:
        if self.texts:
            self._append_text_parts(self._closed_parts)
            self._reasoning_texts, self._reasoning_part, self._reasoning_pieces = [], None, []
            self._reasoning_details, self._detail_fragments, self._thinking_blocks = [], {}, []
            self.texts.clear()  # the decoder holds a reference to this list
        value = part.get(key) or ""
        pieces = value if is_list(value) else [{"type": "text", "text": value}]
        self._reasoning_part = (self._reasoning_part or {}) | {name: item for name, item in part.items() if name != key}
        for item in pieces:
            piece = require_object(item, f"{path}.{key}")
            text = require_text(piece.get("text") or "", f"{path}.{key}")
            if self._reasoning_pieces and not self._whole:
                self._reasoning_pieces[0] |= {name: item for name, item in piece.items() if item}
            else:
                self._reasoning_pieces.append(dict(piece))
            self._add_reasoning(text, out)

    def _add_reasoning(self, text: str, out: list[Delta]) -> None:
        if text:
            self._reasoning_texts.append(text)
            out.append(ReasoningDelta(text))

    def _read_reasoning_content(self, value: object, _piece: MessageFields, out: list[Delta]) -> None:
        """Add the reasoning text in the field `reasoning_content`."""
        self._read_reasoning_field("reasoning_content", value, out)

    def _read_reasoning(self, value: object, _piece: MessageFields, out: list[Delta]) -> None:
        """Add the reasoning text in the field `reasoning`, unless another reasoning field was received first."""
        self._read_reasoning_field("reasoning", value, out)

    def _read_reasoning_text(self, value: object, _piece: MessageFields, out: list[Delta]) -> None:
        """Add the reasoning text in the field `reasoning_text`."""
        self._read_reasoning_field("reasoning_text", value, out)

    def _read_reasoning_field(self, field: str, value: object, out: list[Delta]) -> None:
        text = require_text(value, field)
        if self._reasoning_field is None:
            self._reasoning_field = field
        if field == self._reasoning_field:
            self._add_reasoning(text, out)

    def _read_reasoning_details(self, value: object, piece: MessageFields, out: list[Delta]) -> None:
        """Add the structured reasoning in `reasoning_details`, with signatures. Fragments of one detail are joined."""
        for index, item in enumerate(require_list(value, "reasoning_details")):
            detail = require_object(item, f"reasoning_details[{index}]")
            self._add_detail(detail)
            if not any(piece.get(name) for name in REASONING_FIELDS):
                self._add_reasoning(
                    require_text(detail.get("text") or detail.get("summary") or "", "reasoning_details"), out
                )

    def _add_detail(self, detail: Json) -> None:
        last = self._reasoning_details[-1] if self._reasoning_details and not self._whole else None
        if (
            last is None
            or any(last.get(key) != detail.get(key) for key in ("type", "index"))
            or _has_other_id(last, detail)
        ):
            self._join_detail_fragments()
            self._detail_fragments = {}
            self._reasoning_details.append(dict(detail))
            return
        for key, value in detail.items():
            known = last.get(key)
            if key in CONCATENATED_FIELDS and isinstance(known, str) and isinstance(value, str):
                self._detail_fragments.setdefault(key, [known]).append(value)
            elif value is not None:
                last[key] = value
                self._detail_fragments.pop(key, None)

    def _join_detail_fragments(self) -> None:
        for key, fragments in self._detail_fragments.items():
            self._reasoning_details[-1][key] = text = "".join(fragments)
            fragments[:] = [text]

    def _read_thinking_blocks(self, value: object, piece: MessageFields, out: list[Delta]) -> None:
        """Add the blocks in `thinking_blocks`, with signatures. The pieces of a block of a stream are joined."""
        for index, item in enumerate(require_list(value, "thinking_blocks")):
            block = require_object(item, f"thinking_blocks[{index}]")
            text = require_text(block.get("thinking") or "", "thinking_blocks")
            last, texts = self._thinking_blocks[-1] if self._thinking_blocks and not self._whole else ({}, [])
            if last.get("type") == block.get("type") == "thinking" and not last.get("signature"):
                last |= {name: field for name, field in block.items() if field}
                texts.append(text)
            else:
                self._thinking_blocks.append((dict(block), [text] if text else []))
            if self._reasoning_part is None and not any(piece.get(name) for name in REASONING_FIELDS):
                self._add_reasoning(text, out)

    def _read_refusal(self, value: object, _piece: MessageFields, _out: list[Delta]) -> None:
        """Add a fragment of refusal text."""
        self._refusal.append(require_text(value, "refusal"))

    # --- Calls ---------------------------------------------------------------------------------------

    def _read_tool_calls(self, value: object, _piece: MessageFields, out: list[Delta]) -> None:
        """Add the complete or partial tool calls in the field `tool_calls`."""
        for position, entry in enumerate(require_list(value, "tool_calls")):
            if not is_object(entry):
                raise WrongShapeError(f"tool_calls[{position}]", "an object")  # noqa: EM102 - a path
            # Some servers send both forms of a call, one of them empty.
            kind, function = entry.get("type") or "", entry.get("function")
            custom = entry.get("custom") if kind == "custom" or not function else None
            if custom or kind == "custom":
                kind = "custom" if custom else ""
            self._read_call(entry, custom or function or {}, kind, out, position)

    def _read_function_call(self, value: object, _piece: MessageFields, out: list[Delta]) -> None:
        """Add the single tool call in the older `function_call` field."""
        function = require_object(value, "function_call")
        if function.get("name") or function.get("arguments"):
            self._read_call({"index": FUNCTION_CALL}, function, "", out)

    def _read_call(self, entry: Json, function: Json, kind: str, out: list[Delta], position: int | None = None) -> None:
        """Add a complete call, or a fragment of one.

        Args:
            entry: the call, with its id and index.
            function: name and arguments of the call.
            kind: the type of the call, or an empty string.
            out: the list to which an event is appended.
            position: position in `tool_calls`; `None` for the field `function_call`.
        """
        id_ = entry.get("id") or ""
        name: Any = function.get("name") or "" if is_object(function) else None
        if not name.__class__ is id_.__class__ is kind.__class__ is str:
            raise wrong_call(kind, function, name, position)
        text: Any = function.get("input" if kind == "custom" else "arguments")
        if text.__class__ is not str:
            text = _arguments_text(text)
        call = self._calls.place(entry.get("index"), id_, name, text)
        if call is None:
            return
        first = not call.name
        call.add_fragment(id_, name, text, kind)
        if not CALL_KEYS.issuperset(entry):
            call.extra_fields |= {key: item for key, item in entry.items() if key not in CALL_KEYS and item is not None}
        if (text or (first and name)) and not self._whole:  # nobody reads the events of a complete response
            out.append(ToolCallDelta(text, call.index, name if first else None, call.id if first else None))

    # --- Other fields --------------------------------------------------------------------------------------

    def _read_images(self, value: object, _piece: MessageFields, out: list[Delta]) -> None:
        """Add the generated images in the field `images` as files."""
        for index, item in enumerate(require_list(value, "images")):
            image = require_object(item, f"images[{index}]")
            image_url = image.get("image_url")
            if not isinstance(image_url, str):
                image_url = require_object(image_url, f"images[{index}].image_url").get("url")
            url = require_text(image_url, f"images[{index}].image_url.url")
            extra_fields = {key: item for key, item in image.items() if key not in {"image_url", "type"}}
            file = _file_from_url(
                url, Opaque(self._provider, {"image": extra_fields}), f"images[{index}].image_url.url"
            )
            self._files.append(file)
            out.append(FilePart(file))

    def _read_audio(self, value: object, _piece: MessageFields, out: list[Delta]) -> None:
        """Add a fragment of audio output and of its transcript, which is the text of the response."""
        audio = require_object(value, "audio")
        if not any(audio.values()):
            return
        if data := require_text(audio.get("data") or "", "audio.data"):
            # Some servers encode each fragment as base64; others split one base64 text at any position.
            data = self._base64_rest + data
            end = len(data) if data.endswith("=") else len(data) // 4 * 4
            self._base64_rest = data[end:]
            self._audio_data.append(_decode_base64(data[:end], "audio.data"))
        for key, item in audio.items():
            if item and key not in {"data", "transcript"}:
                self._audio[key] = item
        if text := require_text(audio.get("transcript") or "", "audio.transcript"):
            self._transcript.append(text)
            out.append(TextDelta(text))

    def _append_audio_parts(self, parts: list[Part]) -> None:
        fields = dict(self._audio)
        if transcript := "".join(self._transcript):
            parts.append(Text(transcript, Opaque(self._provider, {"transcript_of": fields.get("id", "")})))
        data = b"".join(self._audio_data)
        parts.append(File(_audio_mime(data), data=data, opaque=Opaque(self._provider, {"audio": fields})))

    def _read_annotations(self, value: object, _piece: MessageFields, _out: list[Delta]) -> None:
        """Add annotations of the message, such as citations and parsed files."""
        self._annotations += require_list(value, "annotations")

    def _read_executed_tools(self, value: object, _piece: MessageFields, _out: list[Delta]) -> None:
        """Add tools that the server ran. A tool is reported when it starts and again when it ends."""
        for item in require_list(value, "executed_tools"):
            tool = require_object(item, "executed_tools")
            index = tool.get("index")
            key = object() if index is None else f"executed_tool {index!r}"
            self._other_parts.pop(key, None)
            self._other_parts[key] = ProviderPart(self._provider, "executed_tool", tool)

    _HANDLERS: ClassVar[Mapping[str, Handler]] = {
        "content": _read_content,
        "reasoning_content": _read_reasoning_content,
        "reasoning": _read_reasoning,
        "reasoning_text": _read_reasoning_text,
        "reasoning_details": _read_reasoning_details,
        "thinking_blocks": _read_thinking_blocks,
        "refusal": _read_refusal,
        "tool_calls": _read_tool_calls,
        "function_call": _read_function_call,
        "images": _read_images,
        "audio": _read_audio,
        "annotations": _read_annotations,
        "executed_tools": _read_executed_tools,
    }
    """The handler for each known message field."""


REASONING_FIELDS: Final = ("reasoning", "reasoning_content", "reasoning_text")
"""The message fields that contain reasoning as plain text."""

REASONING_PARTS: Final[Mapping[str, str]] = {"thinking": "thinking", "reasoning": "summary"}
"""The types of content parts that contain reasoning, each with the field that contains the text."""

TEXT_KEYS: Final = frozenset({"type", "text"})

RETURNED_FIELDS: Final = frozenset({"extra_content", "reasoning_opaque"})
"""The message fields that later requests must send back unchanged."""

SOURCE_FIELDS: Final = frozenset({"citations", "search_results", "context"})
"""The message fields that name the sources of a response. Later requests do not send them back."""

CONCATENATED_FIELDS: Final = frozenset({"text", "summary", "data"})
"""The fields of a reasoning detail whose fragments are concatenated."""

CALL_KEYS: Final = frozenset({"id", "index", "type", "function", "custom"})


def _arguments_text(value: object) -> str:
    """Return received arguments that are not a string as JSON text, because some servers send an object."""
    if not value:
        return ""  # null, or an empty list for an empty object
    if is_object(value):
        return dumps(value)
    raise WrongShapeError("tool_calls.function.arguments", "a string")


def _has_other_id(one: MessageFields, other: MessageFields) -> bool:
    return bool(one.get("id") and other.get("id") and one["id"] != other["id"])


def _decode_base64(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WrongShapeError(path, "base64") from None


def _file_from_url(url: str, opaque: Opaque, path: str) -> File:
    """Return a `File` for a received URL. A data URL is decoded into the bytes of the file."""
    if not url.startswith("data:"):
        return File("image/*", url=url, opaque=opaque)
    head, _, data = url[5:].partition(",")
    mime, *flags = head.split(";")
    if "base64" not in flags:
        raise WrongShapeError(path, "a data URL in base64")
    return File(mime or "application/octet-stream", data=_decode_base64(data, path), opaque=opaque)


AUDIO_SIGNATURES: Final = (
    (b"RIFF", "audio/wav"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
)


def _audio_mime(data: bytes) -> str:
    """Return the MIME type of audio data, based on its first bytes. Unrecognized data is treated as raw PCM."""
    if data.startswith(b"OggS"):
        return "audio/ogg"
    return next((mime for signature, mime in AUDIO_SIGNATURES if data.startswith(signature)), "audio/pcm")
