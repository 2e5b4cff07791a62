"""From the parts of a turn to the messages of the wire.

What only this provider understands travels in `Opaque` data that carries its name:

- on a `Text` or a `File`, `part` holds further fields of the content part (`{"part": {"cache_control": …}}`);
- on a `File`, `file_id` names an uploaded file and `detail` how closely an image is looked at; `image` and `audio` hold
  what the model itself sent;
- on a `Reasoning`, `field` names the field that it came in, `details` is its structured form and `chunk` that of a
  content part, with its `pieces` where more than text is in them;
- a `ProviderPart` of kind `refusal`, `annotations` or `audio` is that field of the message, one of kind `message` holds
  further fields of it, and one of kind `part` is a whole content part.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NoReturn

from chat_core.json import dumps
from chat_core.messages import (
    File,
    Part,
    ProviderPart,
    Reasoning,
    Role,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.wire.parts import owned, unsupported_part
from chat_core.wire.shapes import Json, is_list, mapping

from chat_completions.answer import THOUGHTS
from chat_completions.options import Dialect

AUDIO_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
"""The formats that `input_audio` names, by mime type; another one is named by what follows the slash."""


def plain_message(role: Role, turn: Turn, dialect: Dialect) -> Json:
    """The message of a turn that no model said."""
    message: Json = {"role": dialect.system_role if role == "system" else "user"}
    parts: list[Json] = []
    for part in turn.parts:
        if isinstance(part, ProviderPart):
            if part.provider == dialect.provider and part.kind == "message":
                message |= part.data
            elif part.provider == dialect.provider and part.kind == "part":
                parts.append(dict(part.data))
        else:
            parts.append(content_part(part, dialect))
    message["content"] = _content(parts)
    return message


def _content(parts: list[Json]) -> object:
    """Content as the wire wants it: a single text as a string, which every server takes, else a list of parts."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts


def content_part(part: Part, dialect: Dialect) -> Json:
    """A part that stands in the content of a message.

    Raises:
        UnsupportedPartError: it does not.
    """
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} | _further(owned(part.opaque, dialect.provider))
    if isinstance(part, Structured):
        return {"type": "text", "text": dumps(part.value)}
    if isinstance(part, File):
        return file_part(part, dialect)
    return _refuse(part, dialect)


def _further(data: Mapping[str, object]) -> Json:
    return dict(mapping(data.get("part")))


def file_part(file: File, dialect: Dialect) -> Json:
    """A file as a content part.

    Raises:
        UnsupportedPartError: the wire cannot carry it.
    """
    data = owned(file.opaque, dialect.provider)
    further = _further(data)
    if "file_id" in data:
        return {"type": "file", "file": {"file_id": data["file_id"]}} | further
    kind = file.kind if file.kind in {"image", "audio", "video"} else "document"
    if dialect.files is not None and kind not in dialect.files:
        taken = f"files of the kind {' and '.join(dialect.files)} alone" if dialect.files else "no files"
        _refuse(file, dialect, f"it takes {taken}; say in words what is in it, or ask another")
    if file.data is None and file.url is None:
        _refuse(file, dialect, "it is known to another provider alone; attach its bytes")
    if file.kind == "image":
        image: Json = {"url": _url(file)}
        if "detail" in data:
            image["detail"] = data["detail"]
        return {"type": "image_url", "image_url": image} | further
    if file.kind == "audio":
        if file.data is None:
            _refuse(file, dialect, "audio travels as bytes, not as a URL; fetch it first")
        name = AUDIO_FORMATS.get(file.mime) or file.mime.partition("/")[2]
        audio = {"data": base64.b64encode(file.data).decode(), "format": name}
        return {"type": "input_audio", "input_audio": audio} | further
    if file.kind == "video":
        return {"type": "video_url", "video_url": {"url": _url(file)}} | further
    return {"type": "file", "file": {"filename": file.name or _name(file), "file_data": _url(file)}} | further


def _url(file: File) -> str:
    """Where a file is: its own URL, or one that holds its bytes."""
    if file.data is None:
        return file.url or ""
    return f"data:{file.mime};base64,{base64.b64encode(file.data).decode()}"


def _name(file: File) -> str:
    """A name for a file that has none: servers refuse a file without one."""
    if file.url is not None and (last := file.url.partition("?")[0].rpartition("/")[2]):
        return last
    return f"file.{file.mime.partition('/')[2].partition('+')[0].partition(';')[0] or 'bin'}"


def model_messages(turn: Turn, dialect: Dialect) -> list[Json]:
    """The messages of a model's turn: its own, then one for each result of its tools, in the order of emission."""
    message = _Assistant(dialect)
    for part in turn.parts:
        message.add(part)
    ids = wire_ids(turn, dialect)
    messages = [message.build(ids)]
    files: list[Json] = []
    for tool, call_id in zip(turn.tools, ids, strict=True):
        messages.append({"role": "tool", "tool_call_id": call_id, "content": tool.result_text()})
        files += [file_part(file, dialect) for file in tool.result_files]
    if files:
        # A tool's message holds text alone on this wire, so what tools return beside it follows their results.
        messages.append({"role": "user", "content": files})
    return messages


LONGEST_ID: Final = 40
"""OpenAI refuses longer ids of calls. A server that gives longer ones takes them back."""

SHORT_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")


def wire_ids(turn: Turn, dialect: Dialect) -> list[str]:
    """The ids of a turn's calls on the wire: the provider's where it gave one that tells the calls apart, else ours.

    An id that this server would refuse is replaced by one that is made from it, always the same.
    """
    ids: list[str] = []
    own = turn.metadata is None or turn.metadata.provider in {None, dialect.provider}
    for tool in turn.tools:
        id_ = _accepted(tool.call_id or tool.id, dialect, own=own)
        ids.append(id_ if id_ not in ids else _accepted(tool.id, dialect, own=own))
    return ids


def _accepted(id_: str, dialect: Dialect, *, own: bool) -> str:
    if dialect.short_call_ids:
        return id_ if SHORT_ID.fullmatch(id_) else sha256(id_.encode(errors="surrogatepass")).hexdigest()[:9]
    if own or len(id_) <= LONGEST_ID:
        return id_
    return f"call_{sha256(id_.encode(errors='surrogatepass')).hexdigest()[:32]}"


class _Assistant:
    """Gathers the parts of a model's turn into its one message."""

    __slots__ = ("_calls", "_dialect", "_fields", "_images", "_parts")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._fields: Json = {}
        self._parts: list[Json] = []
        self._calls: list[Tool] = []
        self._images: list[object] = []

    def add(self, part: Part) -> None:
        if isinstance(part, Text):
            if "transcript_of" not in owned(part.opaque, self._dialect.provider):
                self._parts.append(content_part(part, self._dialect))
        elif isinstance(part, Tool):
            self._calls.append(part)
        elif isinstance(part, Reasoning):
            self._reasoning(part)
        elif isinstance(part, ProviderPart):
            self._own(part)
        elif isinstance(part, File):
            self._file(part)
        else:
            self._parts.append(content_part(part, self._dialect))

    def build(self, ids: Sequence[str]) -> Json:
        message: Json = {"role": "assistant"}
        # A message with calls and no text has null content; one with nothing at all is an empty text.
        empty = not self._parts and (self._calls or "refusal" in self._fields or "audio" in self._fields)
        message["content"] = None if empty and self._dialect.null_content else _content(self._parts)
        message |= self._fields
        if self._calls and self._dialect.reasoning_required:
            # A call that another model made, or that was made without a thought. An empty text would not do.
            message["reasoning_content"] = message.get("reasoning_content") or " "
        if self._images:
            message["images"] = self._images
        if self._calls:
            message["tool_calls"] = [
                _call(tool, call_id, self._dialect) for tool, call_id in zip(self._calls, ids, strict=True)
            ]
        return message

    def _reasoning(self, part: Reasoning) -> None:
        if self._dialect.reasoning_replay == "never":
            return
        data = owned(part.opaque, self._dialect.provider)
        if "chunk" in data:
            chunk, pieces = mapping(data["chunk"]), data.get("pieces") or [{"type": "text", "text": part.text}]
            self._parts.append({**chunk, THOUGHTS.get(str(chunk.get("type")), "thinking"): pieces})
            return
        field = data.get("field") or (self._dialect.reasoning_field if part.opaque is None else None)
        if isinstance(field, str):
            self._fields[field] = f"{self._fields.get(field, '')}{part.text}"
        details = data.get("details")
        if is_list(details):
            known = self._fields.get("reasoning_details")
            self._fields["reasoning_details"] = [*known, *details] if is_list(known) else details

    def _own(self, part: ProviderPart) -> None:
        if part.provider != self._dialect.provider:
            return
        if part.kind == "part":
            self._parts.append(dict(part.data))
        elif part.kind == "message":
            self._fields |= part.data
        elif part.kind == "refusal":
            self._fields["refusal"] = part.data.get("refusal")
        elif part.kind == "annotations":
            # Citations are for the reader; only what a server wants back, the parsed form of a file, is sent again.
            notes = part.data.get("annotations")
            mine = [note for note in notes if mapping(note).get("type") == "file"] if is_list(notes) else []
            if mine:
                self._fields["annotations"] = mine

    def _file(self, file: File) -> None:
        data = owned(file.opaque, self._dialect.provider)
        if "image" in data:
            self._images.append(_image(file, data))
        elif "audio" in data:
            self._fields["audio"] = {"id": mapping(data["audio"]).get("id")}
        else:
            _refuse(file, self._dialect, "a model's own message cannot hold it; give it to the user's")


def _image(file: File, data: Mapping[str, object]) -> Json:
    """An image that the model sent; its bytes are kept once, in the file."""
    return {**mapping(data["image"]), "type": "image_url", "image_url": {"url": _url(file)}}


def _call(tool: Tool, call_id: str, dialect: Dialect) -> Json:
    data = owned(tool.call.opaque, dialect.provider)
    further = {key: value for key, value in data.items() if key != "type"}
    if data.get("type") == "custom":
        return {"id": call_id, "type": "custom", "custom": {"name": tool.name, "input": tool.call.text}} | further
    kind = data.get("type", "function")
    return {"id": call_id, "type": kind, "function": {"name": tool.name, "arguments": tool.call.text}} | further


def _refuse(part: Part, dialect: Dialect, why: str = "") -> NoReturn:
    raise unsupported_part(part, f"the Chat Completions wire of {dialect.provider}", why)
