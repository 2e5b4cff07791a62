"""Decoder for the parts of a response, which become the parts of a turn.

In a stream, adjacent pieces of text, of thinking or of raw audio are joined. A part with a signature is never joined,
because the API requires signatures unchanged on the same parts in later requests.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import File, Opaque, Part, ProviderPart, Reasoning, Text
from chat_core.provider import Delta
from chat_core.wire.shapes import Json, WrongShapeError, mapping, require_object, require_text

from chat_gemini.calls import Call

SIGNATURE: Final = "thoughtSignature"

DESCRIPTIVE_FIELDS: Final = frozenset({"thought", SIGNATURE})
"""Fields of a part that describe its content and can occur with any kind of content."""

RAW_AUDIO: Final = ("audio/l16", "audio/l24", "audio/pcm")
"""Mime types of audio without a header, whose pieces can be concatenated."""


@final
class ServerRuns:
    """The calls that the server itself ran (`mcpServers`). The response contains their results.

    A result is matched to its call by id. A result without an id belongs to the first call of the same function that
    has no result yet.
    """

    __slots__ = ("_unanswered", "calls")

    def __init__(self) -> None:
        self.calls: set[Call] = set()
        self._unanswered: dict[tuple[str, str], deque[Call]] = {}

    def add_call(self, field: str, value: str, call: Call) -> None:
        """Add a call under its name or its id.

        Args:
            field: `name` or `id`.
            value: the name or the id.
            call: the call.
        """
        self._unanswered.setdefault((field, value), deque()).append(call)

    def add_result(self, result: Mapping[str, Any]) -> None:
        """Match a result to its call."""
        field = "id" if result.get("id") else "name"
        calls = self._unanswered.get((field, str(result.get(field))), deque())
        while calls and calls[0] in self.calls:
            calls.popleft()
        if calls:
            self.calls.add(calls.popleft())


@final
class Answer:
    """A collector for the parts of one response. Pieces of text are joined when the part is complete.

    A call that the server ran has no deltas if its result is in the same chunk. With `holds_calls`, its result may also
    follow in a later chunk: the deltas of calls are held back until other content or the end of the response follows.
    A call of `output_tool` becomes a text with its arguments. Other texts are then no part of the output: they become
    provider parts, and have no deltas. Their deltas are held back until the end of the response.
    """

    __slots__ = (
        "_audio", "_held", "_held_texts", "_holds_calls", "_indexes", "_items", "_open_call", "_output_tool",
        "_provider", "_server_runs", "_text_type", "_whole_body", "calls", "texts",
    )  # fmt: skip

    def __init__(
        self, provider: str, *, whole: bool, holds_calls: bool = False, output_tool: str | None = None
    ) -> None:
        self._provider = provider
        self._output_tool = output_tool
        self._whole_body = whole
        self._holds_calls = holds_calls
        self._items: list[Part | Call] = []
        self.texts: list[str] = []  # pieces of the unfinished text
        self._text_type: type[Text | Reasoning] | None = None  # type of the unfinished text
        self._audio: tuple[str, list[bytes]] | None = None  # type and pieces of unfinished audio
        self._open_call: Call | None = None
        self.calls: list[Call] = []
        self._held: list[tuple[Call, str, bool]] = []  # call, text of its delta, whether the delta is its first
        self._held_texts: list[str] = []
        self._indexes: dict[Call, int] = {}
        self._server_runs = ServerRuns()

    @property
    def has_open_text(self) -> bool:
        """Whether the unfinished part is a text, so that the next piece of text may be appended to `texts`."""
        return self._text_type is Text and self._output_tool is None

    def read(self, parts: list[Any], out: list[Delta]) -> None:
        """Add the `parts` of one chunk of the response, and append the resulting deltas to `out`.

        Raises:
            WrongShapeError: a known field has the wrong type.
        """
        try:
            for index, item in enumerate(parts):
                if item is not None:
                    path = f"parts[{index}]"
                    self._read_part(require_object(item, path), path, out)
        finally:
            if not self._holds_calls:
                self.release_calls(out)

    def _read_part(self, part: Json, path: str, out: list[Delta]) -> None:
        if self._held and not _continues_calls(part):
            self.release_calls(out)
        if len(part) > 1:
            part = self._split_text(part, path, out)
        for key, value in part.items():
            if value is not None and (handle := PART_HANDLERS.get(key)) is not None:
                handle(self, value, part, path, out)
                break
        else:
            self._add_provider_part(part)

    @property
    def has_held_deltas(self) -> bool:
        """Whether deltas of calls or texts are held back."""
        return bool(self._held or self._held_texts)

    def release_deltas(self, out: list[Delta]) -> None:
        """Append the deltas that were held back to `out` at the end of the response."""
        if not self._has_output:
            out += [TextDelta(text) for text in self._held_texts]
        self._held_texts.clear()
        self.release_calls(out)

    def release_calls(self, out: list[Delta]) -> None:
        """Append the deltas that were held back to `out`, except those of calls that the server ran."""
        for call, text, first in self._held:
            if call not in self._server_runs.calls:
                index = self._indexes.setdefault(call, len(self._indexes))
                out.append(ToolCallDelta(text, index, call.name if first else None, call.id if first else None))
        self._held.clear()

    def _split_text(self, part: Json, path: str, out: list[Delta]) -> Json:
        """Return `part` without null fields.

        Some gateways send text and other content in one part. The text is then added first, and the returned part
        has no text.
        """
        if None in part.values():
            part = {key: value for key, value in part.items() if value is not None}
        if "text" not in part or part.keys().isdisjoint(NON_TEXT_FIELDS):
            return part
        if part["text"]:
            self.text(part["text"], {key: part[key] for key in ("text", "thought") if key in part}, path, out)
        return {key: value for key, value in part.items() if key != "text"}

    def parts(self) -> list[Part]:
        """Return the message parts received so far, in order."""
        items = [*self._items]
        unfinished = self._unfinished_part()
        if unfinished is not None:
            items.append(unfinished)
        ran_on_server = self._server_runs.calls
        parts = [self._call_part(item, item in ran_on_server) if isinstance(item, Call) else item for item in items]
        if not self._has_output:
            return parts
        return [
            self._text_beside_output(part) if part is item else part for part, item in zip(parts, items, strict=True)
        ]

    @property
    def _has_output(self) -> bool:
        """Whether the response contains structured output, as a call of the output tool."""
        return self._output_tool is not None and any(call.name == self._output_tool for call in self.calls)

    def _text_beside_output(self, part: Part) -> Part:
        """Return a text as a provider part, which is sent back to the model, and any other part unchanged."""
        if not isinstance(part, Text):
            return part
        data = mapping(part.opaque.data if part.opaque is not None else None)
        wire: Json = {"text": part.text, **mapping(data.get("part"))}
        if SIGNATURE in data:
            wire[SIGNATURE] = data[SIGNATURE]
        return ProviderPart(self._provider, "text", wire)

    def _call_part(self, call: Call, ran_on_server: bool) -> Part:  # noqa: FBT001 - private
        """Return the call as a tool call to run, or as a `ProviderPart` if the server already ran it."""
        if call.name == self._output_tool:
            return Text(call.text)
        return (
            ProviderPart(self._provider, "functionCall", call.wire_part())
            if ran_on_server
            else call.tool(self._provider)
        )

    # --- The unfinished part ------------------------------------------------------------------------------------------

    def _unfinished_part(self) -> Part | None:
        if self._audio is not None:
            mime, pieces = self._audio
            return File(mime, data=b"".join(pieces))
        if not self.texts:
            return None
        text = "".join(self.texts)
        return Text(text) if self._text_type is Text else Reasoning(text, opaque=Opaque(self._provider, {}))

    def _finish_part(self) -> None:
        unfinished = self._unfinished_part()
        if unfinished is not None:
            self._items.append(unfinished)
        self.texts.clear()  # the decoder holds a reference to this list
        self._text_type = self._audio = None

    # --- A single part ---------------------------------------------------------------------------------------

    def text(self, value: object, part: Json, path: str, out: list[Delta]) -> None:
        """Add the text or thinking in `value`, a field of `part`, and append deltas to `out`. `path` is for errors."""
        text = require_text(value, f"{path}.text")
        kind = Reasoning if part.get("thought") else Text
        if text and kind is Text and self._output_tool is not None:
            self._held_texts.append(text)
        elif text:
            out.append(TextDelta(text) if kind is Text else ReasoningDelta(text))
        if part.get(SIGNATURE) or part.keys() - DESCRIPTIVE_FIELDS - {"text"}:
            self._finish_part()
            self._items.append(self._create_part(kind, text, part, path))
        elif text:
            if self._whole_body or self._text_type is not kind:
                self._finish_part()
                self._text_type = kind
            self.texts.append(text)

    def _create_part(self, kind: type[Text | Reasoning], text: str, part: Json, path: str) -> Part:
        data = self._opaque_data(part, "text", path)
        if kind is Text:
            return Text(text, Opaque(self._provider, data))
        return Reasoning(text, data.pop(SIGNATURE, None), Opaque(self._provider, data))

    def _opaque_data(self, part: Json, kind: str, path: str) -> Json:
        """Return the opaque data to store for `part`: its signature, and its fields except the content in `kind`."""
        data: Json = {}
        if signature := part.get(SIGNATURE):
            data[SIGNATURE] = require_text(signature, f"{path}.{SIGNATURE}")
        if extra_fields := {key: value for key, value in part.items() if key not in DESCRIPTIVE_FIELDS and key != kind}:
            data["part"] = extra_fields
        return data

    def call(self, value: object, part: Json, path: str, out: list[Delta]) -> None:
        """Add a function call, or a piece of a streamed call, from `value`, the `functionCall` field of `part`.

        The arguments of the output tool are appended to `out`. The deltas of other calls are held back. `path` is the
        path of the part for errors.
        """
        path = f"{path}.functionCall"
        entry = require_object(value, path)
        name = require_text(entry.get("name") or "", f"{path}.name")
        call = self._open_call
        first = call is None or (bool(name) and (call.id is None or call.id != entry.get("id")))
        if first:
            if not name:
                known = self.calls[-1].id if self.calls else None
                if entry.get("args") or entry.get("partialArgs") or entry.get("id") not in (None, "", known):
                    raise WrongShapeError(f"{path}.name", "a text")  # noqa: EM102 - a path
                return  # the last call has already ended
            self._finish_part()
            call = Call(name, None)
            self.calls.append(call)
            self._items.append(call)
            self._server_runs.add_call("name", name, call)
        assert call is not None  # noqa: S101 - for the type checkers
        known_id = call.id
        call.add(entry, path)
        if call.id is not None and call.id != known_id:
            self._server_runs.add_call("id", call.id, call)
        call.opaque_fields |= self._opaque_data(part, "functionCall", path)
        if extra_fields := {key: item for key, item in entry.items() if key not in CALL_FIELDS and item is not None}:
            call.opaque_fields["call"] = extra_fields
        self._open_call = call if call.open else None
        text = "" if call.open else call.text
        if call.name == self._output_tool:
            out += [TextDelta(text)] if text else []
        elif first or text:
            self._held.append((call, text, first))

    def inline(self, value: object, part: Json, path: str, out: list[Delta]) -> None:
        """Add a generated file from `value`, the `inlineData` field of `part`, and append its delta to `out`.

        `path` is the path of the part for errors.
        """
        blob = require_object(value, f"{path}.inlineData")
        if part.get("thought"):
            self._add_provider_part(part)  # an image of the model's thinking is not part of the answer
            return
        data = _decode_base64(
            require_text(blob.get("data") or "", f"{path}.inlineData.data"), f"{path}.inlineData.data"
        )
        mime = require_text(blob.get("mimeType") or "application/octet-stream", f"{path}.inlineData.mimeType")
        opaque_data = self._opaque_data(part, "inlineData", path) | _extra_blob_fields(blob)
        if not opaque_data and not self._whole_body and mime.lower().startswith(RAW_AUDIO):
            if self._audio is None or self._audio[0] != mime:
                self._finish_part()
                self._audio = mime, []
            self._audio[1].append(data)
            out.append(FilePart(File(mime, data=data)))
            return
        name = blob.get("displayName")
        file = File(
            mime,
            data=data,
            name=name if isinstance(name, str) else None,
            opaque=Opaque(self._provider, opaque_data) if opaque_data else None,
        )
        self._add_file(file, out)

    def linked(self, value: object, part: Json, path: str, out: list[Delta]) -> None:
        """Add a generated file from `value`, the `fileData` field of `part`, and append its delta to `out`.

        `path` is the path of the part for errors.
        """
        where = require_object(value, f"{path}.fileData")
        mime = require_text(where.get("mimeType") or "application/octet-stream", f"{path}.fileData.mimeType")
        url = require_text(where.get("fileUri"), f"{path}.fileData.fileUri")
        opaque_data = self._opaque_data(part, "fileData", path) | _extra_blob_fields(where)
        self._add_file(File(mime, url=url, opaque=Opaque(self._provider, opaque_data) if opaque_data else None), out)

    def _add_file(self, file: File, out: list[Delta]) -> None:
        self._finish_part()
        self._items.append(file)
        out.append(FilePart(file))

    def _add_provider_part(self, part: Json) -> None:
        """Add a part of any other type, such as executed code or a call to a server-side tool."""
        kind = next((key for key, value in part.items() if key not in DESCRIPTIVE_FIELDS and value is not None), None)
        if kind is None and part.get(SIGNATURE):
            kind = SIGNATURE
        if kind is not None:
            self._finish_part()
            self._items.append(ProviderPart(self._provider, kind, part))
        if kind == "functionResponse":
            self._server_runs.add_result(mapping(part["functionResponse"]))


Handler: TypeAlias = Callable[[Answer, Any, Json, str, list[Delta]], None]

PART_HANDLERS: Final[Mapping[str, Handler]] = {
    "text": Answer.text,
    "functionCall": Answer.call,
    "inlineData": Answer.inline,
    "fileData": Answer.linked,
}
"""Handlers by the name of the field with the part's content. A part with none of these becomes a `ProviderPart`."""

CALL_PARTS: Final = frozenset({"functionCall", "functionResponse"})
"""Fields of parts with a call, or with the result of a call that the server ran."""

NON_TEXT_FIELDS: Final = frozenset(
    {
        "functionCall", "inlineData", "fileData", "functionResponse", "executableCode", "codeExecutionResult",
        "toolCall", "toolResponse",
    }
)  # fmt: skip
"""Fields that a part may have instead of a text."""

BLOB_FIELDS: Final = frozenset({"mimeType", "data", "fileUri"})


def _continues_calls(part: Json) -> bool:
    """Return whether a part has a call or the result of one, or nothing, so that a later part may have a result."""
    text = part.get("text")
    return not text and (text == "" or any(part.get(key) is not None for key in CALL_PARTS))


def _extra_blob_fields(blob: Json) -> Json:
    """Return the further fields of a file, such as its display name, as opaque data with the key `blob`."""
    extra_fields = {key: item for key, item in blob.items() if key not in BLOB_FIELDS and item is not None}
    return {"blob": extra_fields} if extra_fields else {}


CALL_FIELDS: Final = frozenset({"id", "name", "args", "partialArgs", "willContinue"})


def _decode_base64(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        plain = "".join(text.split()).translate(URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        raise WrongShapeError(path, "base64") from None


URL_SAFE: Final = str.maketrans("-_", "+/")
"""Translation table from URL-safe base64. JSON for protocol buffers may use either alphabet, without padding."""
