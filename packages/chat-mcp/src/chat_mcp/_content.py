"""What a tool of a server returned, as chat-core keeps it."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from typing import Any, cast

from chat_core import File
from mcp import types


def value_of(result: types.CallToolResult) -> object:
    """Structured content as it is, and texts, files and links in order; one thing alone, where there is one.

    A text that says the same as the structured content is left out. What is no object was wrapped into one by the
    server, and is unwrapped.

    Raises:
        ValueError: a file is not base64.
    """
    structured: Any = result.structured_content
    items = [_item(block) for block in result.content if not _repeats(block, structured)]
    if structured is not None:
        items.insert(0, structured if len(items) == len(result.content) else _unwrapped(structured))
    if not items:
        return None
    return items[0] if len(items) == 1 else items


def words_of(result: types.CallToolResult) -> str:
    """What a failed tool said, as text."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content)]
    return "\n".join(texts) or "it failed, and gave no reason"


def _repeats(block: types.ContentBlock, structured: object) -> bool:
    """Whether it says as text, for those who read nothing else, what the structured content says."""
    if structured is None or not isinstance(block, types.TextContent):
        return False
    try:
        told: object = json.loads(block.text)
    except ValueError:
        told = block.text
    return structured in (told, {"result": told}, {"result": block.text})


def _unwrapped(structured: Any) -> object:  # noqa: ANN401 - any JSON
    """The value of `{"result": value}`."""
    match structured:
        case {"result": value, **others} if not others:
            return cast("object", value)
        case _:
            return structured


def _item(block: types.ContentBlock) -> object:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return File(block.mime_type, data=_bytes(block.data))
        case types.ResourceLink():
            # Its URI leads to something at the server, and is none that a provider could open.
            told = {"resource": str(block.uri), "name": block.name, "mime": block.mime_type, "about": block.description}
            return {key: value for key, value in told.items() if value is not None}
        case types.EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> object:
    uri = str(resource.uri)
    if isinstance(resource, types.TextResourceContents):
        return {"resource": uri, "text": resource.text}
    return File(resource.mime_type or "application/octet-stream", data=_bytes(resource.blob), name=uri)


def _bytes(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except binascii.Error as error:
        msg = f"the server sent a file that is not base64: {error}"
        raise ValueError(msg) from error
