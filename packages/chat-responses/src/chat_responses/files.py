"""Files, and whatever else stands in the content of a message or of a tool's output."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final, NoReturn

from chat_core.json import dumps
from chat_core.messages import File, Part, Structured, Text
from chat_core.wire.parts import owned, unsupported_part
from chat_core.wire.shapes import Json, mapping

from chat_responses.options import ResponsesDialect

NO_IMAGES: Final = frozenset({"image/svg+xml", "image/tiff", "image/bmp", "image/x-icon", "image/vnd.microsoft.icon"})
"""Images that no model of this wire can look at."""


def content_part(part: Part, dialect: ResponsesDialect) -> Json:
    """A part that stands in the content of a message that no model said.

    Raises:
        UnsupportedPartError: it does not.
    """
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text} | _further(owned(part.opaque, dialect.provider))
    if isinstance(part, Structured):
        return {"type": "input_text", "text": dumps(part.value)}
    if isinstance(part, File):
        return file_part(part, dialect)
    return refuse(part, dialect)


def _further(data: Mapping[str, object]) -> Json:
    return dict(mapping(data.get("part")))


def file_part(file: File, dialect: ResponsesDialect) -> Json:
    """A file as a content part.

    Raises:
        UnsupportedPartError: the wire cannot carry it.
    """
    data = owned(file.opaque, dialect.provider)
    if file.kind in {"audio", "video"}:
        refuse(file, dialect, "models of this wire neither hear nor watch; send a transcript, or images")
    if file.kind == "image":
        return _image(file, data, dialect) | _further(data)
    return _document(file, data, dialect) | _further(data)


def _image(file: File, data: Mapping[str, object], dialect: ResponsesDialect) -> Json:
    if file.mime in NO_IMAGES:
        refuse(file, dialect, "images are PNG, JPEG, WebP or GIF; convert it")
    image: Json = {"type": "input_image"}
    if "file_id" in data:
        image["file_id"] = data["file_id"]
    elif file.data is None and file.url is None:
        refuse(file, dialect, "it is known to another provider alone; attach its bytes")
    else:
        image["image_url"] = url_of(file)
    if "detail" in data:
        image["detail"] = data["detail"]
    return image


def _document(file: File, data: Mapping[str, object], dialect: ResponsesDialect) -> Json:
    document: Json = {"type": "input_file"}
    if "detail" in data:
        document["detail"] = data["detail"]
    if "file_id" in data:
        return document | {"file_id": data["file_id"]}
    if file.url is not None and not file.url.startswith("data:"):
        # The server takes the name from the URL, and a few refuse one beside it.
        return document | {"file_url": file.url}
    if file.data is None and file.url is None:
        refuse(file, dialect, "it is known to another provider alone; attach its bytes")
    return document | {"filename": file.name or _name(file), "file_data": url_of(file)}


def url_of(file: File) -> str:
    """Where a file is: its own URL, or one that holds its bytes."""
    if file.data is None:
        return file.url or ""
    return f"data:{file.mime};base64,{base64.b64encode(file.data).decode()}"


def _name(file: File) -> str:
    """A name for a file that has none: servers refuse bytes without one."""
    return f"file.{file.mime.partition('/')[2].partition('+')[0].partition(';')[0] or 'bin'}"


def refuse(part: Part, dialect: ResponsesDialect, why: str = "") -> NoReturn:
    """Refuse a part by its name.

    Raises:
        UnsupportedPartError: always.
    """
    raise unsupported_part(part, f"the Responses wire of {dialect.provider}", why)
