"""Encoder for files and other content parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from chat_core.json import dumps
from chat_core.messages import File, Part, Structured, Text
from chat_core.wire.parts import file_url, own_data, unsupported_part
from chat_core.wire.shapes import Json, mapping

from chat_responses.options import ResponsesDialect

UNSUPPORTED_IMAGES: Final = frozenset(
    {"image/svg+xml", "image/tiff", "image/bmp", "image/x-icon", "image/vnd.microsoft.icon"}
)
"""Mime types of images that the models of this API do not accept."""


def content_part(part: Part, dialect: ResponsesDialect) -> Json:
    """Return a part in the API's format, as content of a user message, a system message or a tool output.

    Args:
        part: the part to encode.
        dialect: settings of the provider.

    Raises:
        UnsupportedPartError: messages cannot contain the part.
    """
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text} | _extra_fields(own_data(part.opaque, dialect.provider))
    if isinstance(part, Structured):
        return {"type": "input_text", "text": dumps(part.value)}
    if isinstance(part, File):
        return file_part(part, dialect)
    return reject(part, dialect)


def _extra_fields(data: Mapping[str, object]) -> Json:
    """Return the additional fields of a content part, which the opaque data `data` contains under `part`."""
    return dict(mapping(data.get("part")))


def file_part(file: File, dialect: ResponsesDialect) -> Json:
    """Return the content part for a file in the API's format.

    Args:
        file: the file to encode.
        dialect: settings of the provider.

    Raises:
        UnsupportedPartError: the API does not accept the file.
    """
    data = own_data(file.opaque, dialect.provider)
    if file.kind in {"audio", "video"}:
        reject(file, dialect, "the Responses API accepts no audio or video; send a transcript, or images")
    if file.kind == "image":
        return _encode_image(file, data, dialect) | _extra_fields(data)
    return _encode_document(file, data, dialect) | _extra_fields(data)


def _encode_image(file: File, data: Mapping[str, object], dialect: ResponsesDialect) -> Json:
    """Return an `input_image` part that refers to the image by file id or URL, or contains its bytes."""
    if file.mime in UNSUPPORTED_IMAGES:
        reject(file, dialect, "images must be PNG, JPEG, WebP or GIF; convert the image")
    image: Json = {"type": "input_image"}
    if "file_id" in data:
        image["file_id"] = data["file_id"]
    elif file.data is None and file.url is None:
        reject(file, dialect, "it is stored with another provider; attach its bytes")
    else:
        image["image_url"] = file_url(file)
    if "detail" in data:
        image["detail"] = data["detail"]
    return image


def _encode_document(file: File, data: Mapping[str, object], dialect: ResponsesDialect) -> Json:
    """Return an `input_file` part that refers to the file by id or URL, or contains its bytes."""
    document: Json = {"type": "input_file"}
    if "detail" in data:
        document["detail"] = data["detail"]
    if "file_id" in data:
        return document | {"file_id": data["file_id"]}
    if file.url is not None and not file.url.startswith("data:"):
        # The server takes the name from the URL. A few servers reject an additional `filename`.
        return document | {"file_url": file.url}
    if file.data is None and file.url is None:
        reject(file, dialect, "it is stored with another provider; attach its bytes")
    return document | {"filename": file.name or _default_name(file), "file_data": file_url(file)}


def _default_name(file: File) -> str:
    """Return a generated name for a file that has none, because servers reject file bytes without a name."""
    return f"file.{file.mime.partition('/')[2].partition('+')[0].partition(';')[0] or 'bin'}"


def reject(part: Part, dialect: ResponsesDialect, reason: str = "") -> NoReturn:
    """Raise an error because the API cannot represent a part.

    Args:
        part: the part that cannot be sent.
        dialect: settings of the provider.
        reason: the reason, and what to do instead.

    Raises:
        UnsupportedPartError: always.
    """
    raise unsupported_part(part, f"the Responses API (provider {dialect.provider!r})", reason)
