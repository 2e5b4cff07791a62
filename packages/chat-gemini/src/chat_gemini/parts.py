"""From the parts of a turn to the contents of the wire.

What only this provider understands travels in `Opaque` data that carries its name:

- `thoughtSignature` is the signature of the part, on a `Text`, a `File` or a call; a `Reasoning` has a field for it;
- `part` holds further fields of the part (`{"part": {"videoMetadata": {"fps": 2}}}`), on any of them;
- on a call, `call` holds further fields of the call;
- on a `File`, `file_uri` names a file that the server keeps, and `blob` holds what stands beside its bytes or its URI;
- a `ProviderPart` is a whole part: code that the server ran, what came of it, a call of one of its own tools.
"""

from __future__ import annotations

import base64
import binascii
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
from chat_core.wire.parts import owned, unsupported_part
from chat_core.wire.shapes import Json, is_mapping, mapping

from chat_gemini.answer import SIGNATURE
from chat_gemini.options import Dialect

IMAGES: Final = frozenset(
    {"image/png", "image/jpeg", "image/jpg", "image/webp", "image/heic", "image/heif", "image/avif"}
)
"""The images that the models see."""

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
"""What no model reads. Of other documents the server itself says whether it does: their number grows."""


def system_parts(turn: Turn, dialect: Dialect) -> list[Json]:
    """The parts of an instruction.

    Raises:
        UnsupportedPartError: it holds more than words.
    """
    parts: list[Json] = []
    for part in turn.parts:
        if isinstance(part, File):
            _refuse(part, dialect, "instructions are words alone; give it to a user's message")
        parts += _said(part, dialect)
    return parts


def user_content(turn: Turn, dialect: Dialect) -> Json | None:
    """What a user said; `None` where nothing of it is for this provider."""
    parts = [wire for part in turn.parts for wire in _said(part, dialect)]
    return {"role": "user", "parts": parts} if parts else None


def model_contents(turn: Turn, dialect: Dialect) -> list[Json]:
    """What the model said, and then the results of its calls, in the order of emission."""
    # An id that another server gave, or that we made, means nothing to this one.
    own = turn.metadata is not None and turn.metadata.provider == dialect.provider
    parts: list[Json] = []
    signed = dialect.stand_in is None
    for part in turn.parts:
        if isinstance(part, Tool):
            call = _call(part, dialect, ids=own)
            if not signed:
                # Of the calls that one answer makes, the first is signed.
                call.setdefault(SIGNATURE, dialect.stand_in)
                signed = True
            parts.append(call)
        else:
            parts += _said(part, dialect, made=own)
    contents: list[Json] = [{"role": "model", "parts": parts}] if parts else []
    if tools := turn.tools:
        contents.append({"role": "user", "parts": [item for tool in tools for item in _result(tool, dialect, ids=own)]})
    return contents


def _said(part: Part, dialect: Dialect, *, made: bool = False) -> list[Json]:
    """A part that is no call."""
    match part:
        case Text(text, opaque):
            further = _further(opaque, dialect)
            return [{"text": text, **further}] if text or further else []
        case Reasoning():
            return _thought(part, dialect)
        case Structured(value):
            return [{"text": dumps(value)}]
        case File():
            return [file_part(part, dialect, made=made)]
        case ProviderPart(provider, _, data):
            return [dict(data)] if provider == dialect.provider else []
        case _:
            return _refuse(part, dialect, "it has no place for it")


def _further(opaque: Opaque | None, dialect: Dialect) -> Json:
    data = owned(opaque, dialect.provider)
    further = dict(mapping(data.get("part")))
    if signature := data.get(SIGNATURE):
        further[SIGNATURE] = signature
    return further


def _thought(part: Reasoning, dialect: Dialect) -> list[Json]:
    """A thought goes back to the model that thought it, and to no other."""
    if part.opaque is None or part.opaque.provider != dialect.provider:
        return []
    thought: Json = {"text": part.text, "thought": True} | _further(part.opaque, dialect)
    if part.signature:
        thought[SIGNATURE] = part.signature
    return [thought]


# --- Files --------------------------------------------------------------------------------------------------


def file_part(file: File, dialect: Dialect, *, made: bool = False) -> Json:
    """A file as a part. What the provider `made` itself, it takes back.

    Raises:
        UnsupportedPartError: the wire cannot carry it.
    """
    return _blob(file, dialect, made=made) | _further(file.opaque, dialect)


def _blob(file: File, dialect: Dialect, *, made: bool = False) -> Json:
    data = owned(file.opaque, dialect.provider)
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
        _refuse(file, dialect, "it is known to another provider alone; attach its bytes")
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
    return _refuse(file, dialect, "its data URL is not in base64; attach its bytes")


def _check_mime(mime: str, file: File, dialect: Dialect) -> None:
    kind, _, rest = mime.lower().partition(";")[0].strip().partition("/")
    if not rest or "*" in rest:
        _refuse(file, dialect, "the type of bytes must be said whole, as in 'image/png'")
    if kind == "image" and f"image/{rest}" not in IMAGES:
        _refuse(file, dialect, "its models see PNG, JPEG, WebP, HEIC, HEIF and AVIF images; convert it to one of these")
    if f"{kind}/{rest}" in UNREADABLE:
        _refuse(file, dialect, "its models read documents like PDF, JSON and text; send what is in it as one of these")


# --- Calls --------------------------------------------------------------------------------------------------


def _call(tool: Tool, dialect: Dialect, *, ids: bool) -> Json:
    data = owned(tool.call.opaque, dialect.provider)
    call: Json = {"name": tool.name, "args": dict(tool.call.arguments)}
    if ids and tool.call_id:
        call["id"] = tool.call_id
    return {"functionCall": call | dict(mapping(data.get("call")))} | _further(tool.call.opaque, dialect)


def _result(tool: Tool, dialect: Dialect, *, ids: bool) -> list[Json]:
    response: Json = {"name": tool.name, "response": _response(tool)}
    if ids and tool.call_id:
        response["id"] = tool.call_id
    files = [_blob(file, dialect) for file in tool.result_files]
    if files and dialect.files_in_results:
        response["parts"] = files
        files = []
    return [{"functionResponse": response}, *files]


def _response(tool: Tool) -> Json:
    """A result is an object on this wire: the result itself where it is one, else under a name that says what it is."""
    if tool.failed:
        return {"error": tool.result_text()}
    text = tool.result_text()
    result = tool.status.result if isinstance(tool.status, Completed) else None
    if text != (result if isinstance(result, str) else dumps(result)):
        return {"result": text}  # it says what was run in place of the call
    return dict(result) if is_mapping(result) else {"result": result}


def _refuse(part: Part, dialect: Dialect, why: str) -> NoReturn:
    raise unsupported_part(part, f"the Gemini wire of {dialect.provider}", why)
