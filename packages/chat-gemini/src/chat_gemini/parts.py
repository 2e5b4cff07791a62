"""Encoder from message parts to contents, the messages of the Gemini API.

Data that only this provider understands is in `Opaque` data with the provider's name:

- `thoughtSignature`: signature of a `Text`, `File` or `FunctionCall`. `Reasoning` has a field for it.
- `part`: further fields of a part, such as `{"part": {"videoMetadata": {"fps": 2}}}`.
- `call`: further fields of a function call.
- `file_uri` and `blob`: URI of a `File` on the server, and further fields of its `inlineData` or `fileData`.

A `ProviderPart` is a whole part, such as executed code, its output, or a call to a server-side tool.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Final, NoReturn

from chat_core.json import dumps
from chat_core.messages import (
    Completed,
    File,
    Opaque,
    Part,
    ProviderPart,
    Reasoning,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.wire.parts import own_data, unsupported_part
from chat_core.wire.shapes import Json, is_mapping, mapping

from chat_gemini.answer import SIGNATURE
from chat_gemini.options import Dialect

IMAGES: Final = frozenset(
    {"image/png", "image/jpeg", "image/jpg", "image/webp", "image/heic", "image/heif", "image/avif"}
)
"""Mime types of images that the models accept."""

UNREADABLE: Final = frozenset(
    {
        "application/octet-stream",
        "application/zip",
        "application/gzip",
        "application/x-gzip",
        "application/x-tar",
        "application/x-7z-compressed",
        "application/vnd.rar",
        "application/x-rar-compressed",
        "application/java-archive",
        "application/x-msdownload",
        "application/wasm",
    }
)
"""Mime types that no model accepts. The server checks all other types, because the set of accepted types grows."""


def system_parts(turn: Turn, dialect: Dialect) -> list[Json]:
    """Return the parts for a system turn in the API's format.

    Args:
        turn: the turn to encode.
        dialect: the request format of the model.

    Raises:
        UnsupportedPartError: the turn contains anything but text.
    """
    parts: list[Json] = []
    for part in turn.parts:
        if isinstance(part, File):
            _raise_unsupported(part, dialect, "system messages may only contain text; put the file into a user message")
        parts += _encode_part(part, dialect)
    return parts


def user_content(turn: Turn, dialect: Dialect) -> Json | None:
    """Return the content for a user turn in the API's format, or `None` if the turn has nothing to send.

    Empty texts and parts of other providers are not sent.

    Args:
        turn: the turn to encode.
        dialect: the request format of the model.

    Raises:
        UnsupportedPartError: the API cannot represent a part.
    """
    parts = [wire for part in turn.parts for wire in _encode_part(part, dialect)]
    return {"role": "user", "parts": parts} if parts else None


def model_contents(turn: Turn, dialect: Dialect) -> list[Json]:
    """Return the contents for a model turn: the turn itself, then its tool results in the order of the calls.

    Args:
        turn: a turn whose tool calls are resolved.
        dialect: the request format of the model.

    Raises:
        UnsupportedPartError: the API cannot represent a part.
    """
    own = turn.metadata is not None and turn.metadata.provider == dialect.provider
    given = [tool.call_id for tool in turn.tools if tool.call_id]
    # Ids are only sent to the server that assigned them. Without ids, results are matched by their order.
    ids = own and len(set(given)) == len(given)
    parts: list[Json] = []
    signed = dialect.stand_in is None
    for part in turn.parts:
        if isinstance(part, Tool):
            call = _call_part(part, dialect, ids=ids)
            if not signed:
                # Only the first call of a response has a signature.
                call.setdefault(SIGNATURE, dialect.stand_in)
                signed = True
            parts.append(call)
        else:
            parts += _encode_part(part, dialect, made=own)
    contents: list[Json] = [{"role": "model", "parts": parts}] if parts else []
    if tools := turn.tools:
        contents.append(
            {"role": "user", "parts": [item for tool in tools for item in _result_parts(tool, dialect, ids=ids)]}
        )
    return contents


def alternative_parts(parts: Iterable[Part], dialect: Dialect) -> list[Json]:
    """Return the parts of an alternative response in the API's format, for the metadata. Its calls are not resolved.

    Args:
        parts: the decoded parts.
        dialect: the request format of the model.
    """
    found: list[Json] = []
    for part in parts:
        if isinstance(part, Tool):
            found.append(_call_part(part, dialect, ids=True))
        else:
            found += _encode_part(part, dialect, made=True)
    return found


def _encode_part(part: Part, dialect: Dialect, *, made: bool = False) -> list[Json]:
    """Convert a part that is not a tool call to the API's format.

    Args:
        part: the part to convert.
        dialect: the request format of the model.
        made: whether this provider generated the part.

    Returns:
        A list with the converted part, or an empty list for an empty text or a part of another provider.
    """
    match part:
        case Text(text, opaque):
            further = _encode_opaque_fields(opaque, dialect)
            return [{"text": text, **further}] if text or further else []
        case Reasoning():
            return _thought_part(part, dialect)
        case Structured(value):
            return [{"text": dumps(value)}]
        case File():
            return [file_part(part, dialect, made=made)]
        case ProviderPart(provider, _, data):
            return [dict(data)] if provider == dialect.provider else []
        case _:
            return _raise_unsupported(part, dialect)


def _encode_opaque_fields(opaque: Opaque | None, dialect: Dialect) -> Json:
    data = own_data(opaque, dialect.provider)
    further = dict(mapping(data.get("part")))
    if signature := data.get(SIGNATURE):
        further[SIGNATURE] = signature
    return further


def _thought_part(part: Reasoning, dialect: Dialect) -> list[Json]:
    """Return a list with the thought in the API's format, or an empty list if another provider produced the thought."""
    if part.opaque is None or part.opaque.provider != dialect.provider:
        return []
    thought: Json = {"text": part.text, "thought": True} | _encode_opaque_fields(part.opaque, dialect)
    if part.signature:
        thought[SIGNATURE] = part.signature
    return [thought]


# --- Files --------------------------------------------------------------------------------------------------


def file_part(file: File, dialect: Dialect, *, made: bool = False) -> Json:
    """Return the part for a file in the API's format.

    Args:
        file: a file with bytes, a URL or a URI on the server.
        dialect: the request format of the model.
        made: whether the provider itself generated the file, so that its type is not checked.

    Raises:
        UnsupportedPartError: the models do not accept the file.
    """
    return _blob_part(file, dialect, made=made) | _encode_opaque_fields(file.opaque, dialect)


def _blob_part(file: File, dialect: Dialect, *, made: bool = False) -> Json:
    data = own_data(file.opaque, dialect.provider)
    uri = data.get("file_uri") or file.url
    if isinstance(uri, str) and not uri.startswith("data:"):
        where: Json = {"fileUri": uri}
        if "*" not in file.mime and file.mime:
            where["mimeType"] = file.mime
        return {"fileData": where | dict(mapping(data.get("blob")))}
    mime, content = file.mime, file.data
    if isinstance(uri, str):
        mime, content = _from_data_url(uri, file, dialect)
    if content is None:
        _raise_unsupported(file, dialect, "it is stored with another provider; attach its bytes")
    if not made:
        _check_mime(mime, file, dialect)
    blob: Json = {"mimeType": mime, "data": base64.b64encode(content).decode()}
    return {"inlineData": blob | dict(mapping(data.get("blob")))}


def _from_data_url(url: str, file: File, dialect: Dialect) -> tuple[str, bytes]:
    head, _, text = url[5:].partition(",")
    mime, *flags = head.split(";")
    try:
        if "base64" in flags:
            return mime or file.mime, base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    return _raise_unsupported(file, dialect, "its data URL is not valid base64; attach its bytes")


def _check_mime(mime: str, file: File, dialect: Dialect) -> None:
    kind, _, rest = mime.lower().partition(";")[0].strip().partition("/")
    if not rest or "*" in rest:
        _raise_unsupported(file, dialect, "bytes need a complete mime type, such as 'image/png'")
    if kind == "image" and f"image/{rest}" not in IMAGES:
        _raise_unsupported(file, dialect, "convert the image to PNG, JPEG, WebP, HEIC, HEIF or AVIF")
    if f"{kind}/{rest}" in UNREADABLE:
        _raise_unsupported(file, dialect, "convert the document to a readable format such as PDF, JSON or text")


# --- Calls --------------------------------------------------------------------------------------------------


def _call_part(tool: Tool, dialect: Dialect, *, ids: bool) -> Json:
    data = own_data(tool.call.opaque, dialect.provider)
    call: Json = {"name": tool.name, "args": dict(tool.call.arguments)}
    if ids and tool.call_id:
        call["id"] = tool.call_id
    return {"functionCall": call | dict(mapping(data.get("call")))} | _encode_opaque_fields(tool.call.opaque, dialect)


def _result_parts(tool: Tool, dialect: Dialect, *, ids: bool) -> list[Json]:
    response: Json = {"name": tool.name, "response": _response_object(tool)}
    if ids and tool.call_id:
        response["id"] = tool.call_id
    files = [_blob_part(file, dialect) for file in tool.result_files]
    if files and dialect.files_in_results:
        response["parts"] = files
        files = []
    return [{"functionResponse": response}, *files]


def _response_object(tool: Tool) -> Json:
    """Return the result of `tool` as an object, as the API requires.

    A result that is not an object is wrapped in `result`, and an error is wrapped in `error`.
    """
    if tool.failed:
        return {"error": tool.result_text()}
    text = tool.result_text()
    result = tool.status.result if isinstance(tool.status, Completed) else None
    if text != (result if isinstance(result, str) else dumps(result)):
        return {"result": text}  # the text also describes the edited call that was run
    return dict(result) if is_mapping(result) else {"result": result}


def _raise_unsupported(part: Part, dialect: Dialect, why: str = "") -> NoReturn:
    raise unsupported_part(part, f"the Gemini API (provider {dialect.provider!r})", why)
