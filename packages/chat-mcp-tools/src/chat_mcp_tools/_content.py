"""What a tool of a server returned, as chat-core keeps it."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, cast

from chat_core import File
from mcp import types


def value_of(result: types.CallToolResult) -> object:
    """Structured content as it is, and texts, files and links in order; one thing alone, where there is one.

    Servers say structured content once more in blocks, for those who read nothing else. It is told once: texts that say
    it, or a field of it, are left out; a value that was wrapped into an object, and that texts say without it, is
    unwrapped; and structured content that is nothing but the blocks themselves is left to them.

    Raises:
        ValueError: a file is not base64.
    """
    structured: Any = result.structured_content
    if structured is None or _is_blocks(structured, result.content):
        return _one_of([_item(block) for block in result.content])
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    repeated = set(texts) if _piecewise(texts, _inner(structured)) else {t for t in texts if _says(t, structured)}
    others = [b for b in result.content if not (isinstance(b, types.TextContent) and b.text in repeated)]
    return _one_of([_unwrapped(structured, repeated), *map(_item, others)])


def _one_of(items: list[object]) -> object:
    if not items:
        return None
    return items[0] if len(items) == 1 else items


def words_of(result: types.CallToolResult) -> str:
    """What a failed tool said, as text."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content)]
    return "\n".join(texts) or "it failed, and gave no reason"


def _is_blocks(structured: object, blocks: list[types.ContentBlock]) -> bool:
    """Whether it is the blocks as the protocol writes them: files in it would be base64, which nobody can read."""
    written = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks]
    return bool(written) and _inner(structured) == written


def _says(text: str, structured: object) -> bool:
    """Whether a text says all of it, or one of its fields as it is."""
    if _is(text, structured) or _is(text, _inner(structured)):
        return True
    return isinstance(structured, dict) and text in cast("dict[str, object]", structured).values()


def _is(text: str, value: object) -> bool:
    """Whether it is the text of a value: the value's JSON, or its words."""
    try:
        return value in (text, json.loads(text))
    except (ValueError, RecursionError):
        return value == text


def _piecewise(texts: list[str], value: object) -> bool:
    """Whether each item of a list has its text, in order; some servers flatten lists, and leave out what is null."""
    if not texts or not isinstance(value, list):
        return False
    items = cast("list[object]", value)
    return any(
        len(texts) == len(pieces) and all(map(_is, texts, pieces)) for pieces in (items, list(_flattened(items)))
    )


def _flattened(items: list[object]) -> Iterator[object]:
    for item in items:
        if isinstance(item, list):
            yield from _flattened(cast("list[object]", item))
        elif item is not None:
            yield item


def _inner(structured: Any) -> object:  # noqa: ANN401 - any JSON
    """The value of the only field; of what is no object with one field, all of it."""
    if isinstance(structured, dict) and len(fields := cast("dict[str, object]", structured)) == 1:
        return next(iter(fields.values()))
    return cast("object", structured)


def _unwrapped(structured: Any, repeated: set[str]) -> object:  # noqa: ANN401 - any JSON
    """The value of `{"result": value}`, as SDKs wrap what is no object, and of `{"content": value}`, as servers do.

    Only where a text repeats it; and `content` only where none says it as a field. Any other name tells something.
    """
    match structured:
        case {"result": _, **others} if repeated and not others:
            return _inner(structured)
        case {"content": _, **others} if repeated and not others and not any(_is(t, structured) for t in repeated):
            return _inner(structured)
        case _:
            return cast("object", structured)


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
