"""Conversion of MCP tool results to values that chat-core can store."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final, cast

from chat_core import Data, File, ToolOutput
from chat_core.json import dump_bytes, is_finite
from mcp import types

MAX_STRUCTURED_BYTES: Final = 256 * 1024
"""Default limit on the structured content that a front end receives."""


def output_of(result: types.CallToolResult, max_structured_bytes: int = MAX_STRUCTURED_BYTES) -> object:
    """Return the value of a tool result, with its structured content as data for the front end.

    Structured content that exceeds the limit, or that has a number which JSON does not allow, is only in the value.

    Args:
        result: the result of a call.
        max_structured_bytes: limit on the structured content for the front end.

    Raises:
        ValueError: a file is not valid base64.
    """
    value, structured = value_of(result), result.structured_content
    if structured is None or _contains_only_blocks(structured, result.content):
        return value
    if not is_finite(structured) or len(dump_bytes(structured)) > max_structured_bytes:
        return value
    return ToolOutput(value, data=Data("structured", structured))


def value_of(result: types.CallToolResult) -> object:
    """Return the value of a tool result: a list of its items, a single item by itself, or None if it is empty.

    The items are the structured content, followed by texts, files and links in order. Servers often repeat structured
    content in text blocks, for clients that read only text. Text blocks that equal the structured content or one of its
    fields are dropped. If a text repeats a wrapped value without the object around it, the value is unwrapped.
    Structured content that only lists the content blocks is ignored.

    Raises:
        ValueError: a file is not valid base64.
    """
    structured: Any = result.structured_content
    if structured is None or _contains_only_blocks(structured, result.content):
        return _unwrap_single_item([_convert_block(block) for block in result.content])
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    if _repeats_items(texts, _unwrap_single_field(structured)):
        repeated = set(texts)
    else:
        repeated = {text for text in texts if _repeats_structured_content(text, structured)}
    others = [b for b in result.content if not (isinstance(b, types.TextContent) and b.text in repeated)]
    return _unwrap_single_item([_unwrap_result(structured, repeated), *map(_convert_block, others)])


def _unwrap_single_item(items: list[object]) -> object:
    if not items:
        return None
    return items[0] if len(items) == 1 else items


def error_text_of(result: types.CallToolResult) -> str:
    """Return the error message in a failed tool result, from its text blocks or its structured content."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content)]
    return "\n".join(texts) or "it failed, and gave no reason"


def _contains_only_blocks(structured: object, blocks: list[types.ContentBlock]) -> bool:
    """Return whether `structured` is only a list of the content blocks in their JSON form."""
    written = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks]
    return bool(written) and _unwrap_single_field(structured) == written


def _repeats_structured_content(text: str, structured: object) -> bool:
    """Return whether `text` repeats the structured content, the value of its only field, or one of its text fields."""
    if _equals_text_or_json(text, structured) or _equals_text_or_json(text, _unwrap_single_field(structured)):
        return True
    return isinstance(structured, dict) and text in cast("dict[str, object]", structured).values()


def _equals_text_or_json(text: str, value: object) -> bool:
    """Return whether `text` equals `value`, either directly or when it is parsed as JSON."""
    try:
        return value in (text, json.loads(text))
    except (ValueError, RecursionError):
        return value == text


def _repeats_items(texts: list[str], value: object) -> bool:
    """Return whether `value` is a list whose items the texts repeat in order.

    The texts may also repeat the flattened list without nulls, because some servers send it in this form.
    """
    if not texts or not isinstance(value, list):
        return False
    items = cast("list[object]", value)
    return any(
        len(texts) == len(pieces) and all(map(_equals_text_or_json, texts, pieces))
        for pieces in (items, list(_flatten_lists(items)))
    )


def _flatten_lists(items: list[object]) -> Iterator[object]:
    for item in items:
        if isinstance(item, list):
            yield from _flatten_lists(cast("list[object]", item))
        elif item is not None:
            yield item


def _unwrap_single_field(structured: Any) -> object:  # noqa: ANN401 - any JSON
    """Return the value in an object with a single field. Return any other value unchanged."""
    if isinstance(structured, dict) and len(fields := cast("dict[str, object]", structured)) == 1:
        return next(iter(fields.values()))
    return cast("object", structured)


def _unwrap_result(structured: Any, repeated: set[str]) -> object:  # noqa: ANN401 - any JSON
    """Return the value of the only field `result` or `content`, or the structured content unchanged.

    SDKs wrap values that are not objects in the field `result`, some servers in `content`. The object is only removed
    if a text block repeats the structured content. With `content`, the text block must repeat only the field's value.
    """
    match structured:
        case {"result": _, **others} if repeated and not others:
            return _unwrap_single_field(structured)
        case {"content": _, **others} if (
            repeated and not others and not any(_equals_text_or_json(t, structured) for t in repeated)
        ):
            return _unwrap_single_field(structured)
        case _:
            return cast("object", structured)


def _convert_block(block: types.ContentBlock) -> object:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return File(block.mime_type, data=_decode_base64(block.data))
        case types.ResourceLink():
            # Only the server can resolve the URI, so it is not sent to a provider as a file.
            link = {"resource": str(block.uri), "name": block.name, "mime": block.mime_type, "about": block.description}
            return {key: value for key, value in link.items() if value is not None}
        case types.EmbeddedResource():
            return _convert_resource(block.resource)


def _convert_resource(resource: types.TextResourceContents | types.BlobResourceContents) -> object:
    uri = str(resource.uri)
    if isinstance(resource, types.TextResourceContents):
        return {"resource": uri, "text": resource.text}
    return File(resource.mime_type or "application/octet-stream", data=_decode_base64(resource.blob), name=uri)


def _decode_base64(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except ValueError as error:
        msg = f"the server sent a file that is not base64: {error}"
        raise ValueError(msg) from error
