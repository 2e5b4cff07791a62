"""Encoder from the parts of a turn to messages of the Chat Completions API.

Data that only this provider understands is stored in `Opaque` data with the provider's name:

- On a `Text` or a `File`, `part` contains additional fields of the content part (`{"part": {"cache_control": …}}`).
- On a `File`, `file_id` names an uploaded file, and `detail` sets the resolution at which the model reads an image.
  `image` and `audio` contain the original fields of model output.
- On a `Reasoning`, `field` names the message field of the text, `details` contains `reasoning_details`, and `blocks`
  contains the `thinking_blocks` of LiteLLM. If the text was a content part, `chunk` contains its fields, and `pieces`
  its text pieces if they have further fields.
- A `ProviderPart` of kind `refusal`, `annotations` or `audio` is that field of the message. Kind `message` contains
  other fields of the message, and kind `part` is a whole content part.
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
from chat_core.wire.parts import arguments_text, file_url, own_data, unsupported_part
from chat_core.wire.shapes import Json, is_list, mapping

from chat_completions.answer import REASONING_PARTS
from chat_completions.options import Dialect

AUDIO_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
"""The values of `input_audio.format` by MIME type. For other types the subtype is used."""


def wire_role(role: Role, dialect: Dialect) -> str:
    """Return the role in the messages of the API for the role of a turn.

    Args:
        role: the role of the turn.
        dialect: the request format of the server.
    """
    if role == "system":
        return dialect.system_role
    return "assistant" if role == "model" else "user"


def plain_message(role: Role, turn: Turn, dialect: Dialect) -> Json:
    """Encode a system or user turn as one message.

    Args:
        role: the role of the turn. The role in the message may differ.
        turn: the turn to encode.
        dialect: the request format of the server.

    Raises:
        UnsupportedPartError: the API cannot represent a part.
    """
    message: Json = {"role": wire_role(role, dialect)}
    parts: list[Json] = []
    for part in turn.parts:
        if isinstance(part, ProviderPart):
            if part.provider == dialect.provider and part.kind == "message":
                message |= part.data
            elif part.provider == dialect.provider and part.kind == "part":
                parts.append(dict(part.data))
        else:
            parts.append(content_part(part, dialect))
    message["content"] = _encode_content(parts)
    return message


def _encode_content(parts: list[Json]) -> object:
    """Return the `content` field for the given content parts.

    A single text becomes a string, which every server supports. Anything else becomes a list.
    """
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts


def content_part(part: Part, dialect: Dialect) -> Json:
    """Encode a part as a content part of a message.

    Args:
        part: a text, a file or structured output.
        dialect: the request format of the server.

    Raises:
        UnsupportedPartError: the API has no content part for `part`.
    """
    if isinstance(part, Text):
        text: Json = {"type": "text", "text": part.text}
        if part.opaque is None:
            return text
        return text | _extra_part_fields(own_data(part.opaque, dialect.provider))
    if isinstance(part, Structured):
        return {"type": "text", "text": dumps(part.value)}
    if isinstance(part, File):
        return file_part(part, dialect)
    return _raise_unsupported(part, dialect)


def _extra_part_fields(data: Mapping[str, object]) -> Json:
    return dict(mapping(data.get("part")))


def file_part(file: File, dialect: Dialect) -> Json:
    """Encode a file as a content part.

    Args:
        file: the file to encode.
        dialect: the request format of the server.

    Raises:
        UnsupportedPartError: the server does not support the kind of file, or the file has no usable data.
    """
    data = own_data(file.opaque, dialect.provider)
    extra_fields = _extra_part_fields(data)
    if "file_id" in data:
        return {"type": "file", "file": {"file_id": data["file_id"]}} | extra_fields
    kind = file.kind if file.kind in {"image", "audio", "video"} else "document"
    if dialect.files is not None and kind not in dialect.files:
        supported = f"only files of these kinds: {', '.join(dialect.files)}" if dialect.files else "no files"
        _raise_unsupported(file, dialect, f"it supports {supported}; send the content as text, or use another vendor")
    if file.data is None and file.url is None:
        _raise_unsupported(file, dialect, "it is stored with another provider; attach its bytes")
    if file.data is None and kind not in dialect.url_files:
        _raise_unsupported(
            file, dialect, "the server does not download it; attach its bytes, or call with_url_files() if it does"
        )
    if file.kind == "image":
        image: Json = {"url": file_url(file)}
        if "detail" in data:
            image["detail"] = data["detail"]
        return {"type": "image_url", "image_url": image} | extra_fields
    if file.kind == "audio" and file.data is not None:
        name = AUDIO_FORMATS.get(file.mime) or file.mime.partition("/")[2]
        audio = {"data": base64.b64encode(file.data).decode(), "format": name}
        return {"type": "input_audio", "input_audio": audio} | extra_fields
    if file.kind == "video":
        return {"type": "video_url", "video_url": {"url": file_url(file)}} | extra_fields
    return {
        "type": "file",
        "file": {"filename": file.name or _fallback_name(file), "file_data": file_url(file)},
    } | extra_fields


def _fallback_name(file: File) -> str:
    """Return a generated name for a file that has none, because servers require a file name."""
    if file.url is not None and (last := file.url.partition("?")[0].rpartition("/")[2]):
        return last
    return f"file.{file.mime.partition('/')[2].partition('+')[0].partition(';')[0] or 'bin'}"


def model_messages(turn: Turn, dialect: Dialect) -> list[Json]:
    """Encode a model turn as a message, followed by one message per tool result in the order of the calls.

    Args:
        turn: the turn, whose tool calls are all resolved.
        dialect: the request format of the server.

    Raises:
        UnsupportedPartError: the API cannot represent a part.
    """
    message = _AssistantMessage(dialect)
    for part in turn.parts:
        message.add(part)
    ids = wire_ids(turn, dialect)
    messages = [message.build(ids)]
    files: list[Json] = []
    for tool, call_id in zip(message.calls, ids, strict=True):
        messages.append({"role": "tool", "tool_call_id": call_id, "content": tool.result_text()})
        if tool.result_files:
            files += [file_part(file, dialect) for file in tool.result_files]
    if files:
        # Tool messages of this API only contain text, so files that tools return follow in a user message.
        messages.append({"role": "user", "content": files})
    return messages


MAX_ID_LENGTH: Final = 40
"""The longest call id that OpenAI accepts. A server that creates longer ids also accepts them."""

SHORT_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")


def wire_ids(turn: Turn, dialect: Dialect) -> list[str]:
    """Return the ids to send for the tool calls of a turn, in order.

    The provider's ids are sent if they are unique, otherwise `Tool.id`. An id that the server would reject is replaced
    by its hash, so that the replacement is always the same.

    Args:
        turn: the model's turn.
        dialect: the request format of the server.
    """
    ids: list[str] = []
    own = turn.metadata is None or turn.metadata.provider in {None, dialect.provider}
    for tool in turn.tools:
        id_ = _shorten_call_id(tool.call_id or tool.id, dialect, own=own)
        ids.append(id_ if id_ not in ids else _shorten_call_id(tool.id, dialect, own=own))
    return ids


def _shorten_call_id(id_: str, dialect: Dialect, *, own: bool) -> str:
    if dialect.short_call_ids:
        return id_ if SHORT_ID.fullmatch(id_) else sha256(id_.encode(errors="surrogatepass")).hexdigest()[:9]
    if own or len(id_) <= MAX_ID_LENGTH:
        return id_
    return f"call_{sha256(id_.encode(errors='surrogatepass')).hexdigest()[:32]}"


class _AssistantMessage:
    """Builder for the assistant message that represents the parts of a model turn."""

    __slots__ = ("_dialect", "_fields", "_images", "_parts", "calls")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._fields: Json = {}
        self._parts: list[Json] = []
        self._images: list[object] = []
        self.calls: list[Tool] = []

    def add(self, part: Part) -> None:
        if isinstance(part, Text):
            if "transcript_of" not in own_data(part.opaque, self._dialect.provider):
                self._parts.append(content_part(part, self._dialect))
        elif isinstance(part, Tool):
            self.calls.append(part)
        elif isinstance(part, Reasoning):
            self._add_reasoning(part)
        elif isinstance(part, ProviderPart):
            self._add_provider_part(part)
        elif isinstance(part, File):
            self._add_file(part)
        else:
            self._parts.append(content_part(part, self._dialect))

    def build(self, ids: Sequence[str]) -> Json:
        message: Json = {"role": "assistant"}
        # Content may be null only if the message has calls, a refusal or audio. Otherwise it is an empty string.
        empty = not self._parts and (self.calls or "refusal" in self._fields or "audio" in self._fields)
        message["content"] = None if empty and self._dialect.null_content else _encode_content(self._parts)
        if self._fields:
            message |= self._fields
        if self.calls and self._dialect.reasoning_required:
            # The call came from another model or without reasoning. The server rejects an empty string.
            message["reasoning_content"] = message.get("reasoning_content") or " "
        if self._images:
            message["images"] = self._images
        if self.calls:
            message["tool_calls"] = [
                _encode_call(tool, call_id, self._dialect) for tool, call_id in zip(self.calls, ids, strict=True)
            ]
        return message

    def _add_reasoning(self, part: Reasoning) -> None:
        if self._dialect.reasoning_replay == "never":
            return
        data = own_data(part.opaque, self._dialect.provider)
        if "chunk" in data:
            chunk, pieces = mapping(data["chunk"]), data.get("pieces") or [{"type": "text", "text": part.text}]
            self._parts.append({**chunk, REASONING_PARTS.get(str(chunk.get("type")), "thinking"): pieces})
            return
        field = data.get("field") or (self._dialect.reasoning_field if part.opaque is None else None)
        if isinstance(field, str):
            self._fields[field] = f"{self._fields.get(field, '')}{part.text}"
        details = data.get("details")
        if is_list(details):
            known = self._fields.get("reasoning_details")
            self._fields["reasoning_details"] = [*known, *details] if is_list(known) else details
        blocks = data.get("blocks")
        if is_list(blocks):
            known = self._fields.get("thinking_blocks")
            self._fields["thinking_blocks"] = [*known, *blocks] if is_list(known) else blocks

    def _add_provider_part(self, part: ProviderPart) -> None:
        if part.provider != self._dialect.provider:
            return
        if part.kind == "part":
            self._parts.append(dict(part.data))
        elif part.kind == "message":
            self._fields |= part.data
        elif part.kind == "refusal":
            self._fields["refusal"] = part.data.get("refusal")
        elif part.kind == "annotations":
            # Only parsed files are sent back, which servers reuse. Citations are output only.
            annotations = part.data.get("annotations")
            parsed_files = (
                [annotation for annotation in annotations if mapping(annotation).get("type") == "file"]
                if is_list(annotations)
                else []
            )
            if parsed_files:
                self._fields["annotations"] = parsed_files

    def _add_file(self, file: File) -> None:
        data = own_data(file.opaque, self._dialect.provider)
        if "image" in data:
            self._images.append(_encode_image(file, data))
        elif "audio" in data:
            self._fields["audio"] = {"id": mapping(data["audio"]).get("id")}
        else:
            _raise_unsupported(file, self._dialect, "a model turn cannot contain it; add it to a user turn")


def _encode_image(file: File, data: Mapping[str, object]) -> Json:
    """Return the entry in `images` for an image that the model generated. The bytes are taken from `file`."""
    return {**mapping(data["image"]), "type": "image_url", "image_url": {"url": file_url(file)}}


def _encode_call(tool: Tool, call_id: str, dialect: Dialect) -> Json:
    data = own_data(tool.call.opaque, dialect.provider)
    extra_fields = {key: value for key, value in data.items() if key != "type"}
    if data.get("type") == "custom":
        return {"id": call_id, "type": "custom", "custom": {"name": tool.name, "input": tool.call.text}} | extra_fields
    function = {"name": tool.name, "arguments": arguments_text(tool.call)}
    return {"id": call_id, "type": data.get("type", "function"), "function": function} | extra_fields


def _raise_unsupported(part: Part, dialect: Dialect, why: str = "") -> NoReturn:
    raise unsupported_part(part, f"the Chat Completions API (provider {dialect.provider!r})", why)
