"""Encoder from message parts to content blocks.

Data that only Claude understands is in `Opaque` data with the provider's name:

- `Text`: further fields of the block (`citations`, `cache_control`).
- `File`: `file_id` is the id of an uploaded file, `type` the type of its block if the mime type does not determine it.
  All other keys are further fields of the block (`citations`, `context`, `title`, `cache_control`).
- `Reasoning`: further fields of the block. The presence of opaque data marks the signature as Claude's.
- `FunctionCall`: further fields of the call (`caller`).

A `ProviderPart` is a whole block. Its kind is the type of the block. Kinds in `NOT_SENT` are only for the application.
"""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from typing import Final, NoReturn

from chat_core.errors import UnsupportedPartError
from chat_core.json import dumps
from chat_core.messages import (
    Completed,
    File,
    Part,
    ProviderPart,
    Reasoning,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.wire.parts import own_data, unsupported_part
from chat_core.wire.shapes import Json, is_list, is_mapping, is_object

IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Mime types of the images that the API accepts. `image/jpg` is sent as JPEG; `image/*` is allowed for URLs."""

PDF: Final = "application/pdf"
TEXT_TYPES: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/x-yaml"})
"""Mime types of text in addition to `text/*`."""

RESULT_ONLY_BLOCKS: Final = frozenset({"tool_reference", "search_result"})
"""Types of blocks that a tool may return in a list: found tools and citable search results."""

RESULT_BLOCKS: Final = RESULT_ONLY_BLOCKS | {"text", "image", "document"}
"""Types of all blocks that a list returned by a tool may contain."""

REFUSAL: Final = "refusal"
"""Kind of a part with the model's explanation of a refusal, which is not sent."""

UNKNOWN: Final = "unknown"
"""Kind of a received block without a type, which is stored but not sent."""

FALLBACK: Final = "fallback"
"""Kind of the part after which another model continues, because the first one refused."""

DECLINED: Final = "tool_use"
"""Kind of a part with a tool call of a model that refused afterwards, which is not sent."""

NOT_SENT: Final = frozenset({REFUSAL, UNKNOWN, DECLINED})
"""Kinds of `ProviderPart` that are not sent."""

NOT_CACHEABLE: Final = frozenset({"thinking", "redacted_thinking", FALLBACK, "mcp_tool_listing"})
"""Types of blocks that cannot have a cache point."""

THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
"""Types of blocks that cannot end a message."""

ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
INVALID_IN_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
MAX_NAME: Final = 128


# --- User and system turns ------------------------------------------------------------------------------


def input_blocks(turn: Turn, provider: str, place: str) -> list[Json]:
    """Return the content blocks for a user or system turn.

    Args:
        turn: the turn to encode.
        provider: provider name of the dialect.
        place: `"user"` or `"system"`, where files are not allowed.

    Raises:
        UnsupportedPartError: the API has no block for a part, or all texts of a user turn are empty.
    """
    blocks: list[Json] = []
    has_text = False
    for part in turn.parts:
        block = _input_block(part, provider, place)
        if block is not None:
            blocks.append(block)
        has_text = has_text or isinstance(part, Text)
    if not blocks and has_text and place == "user":
        msg = f"{provider} does not accept an empty user message: remove the empty Text, or add text to it"
        raise UnsupportedPartError(msg)
    return blocks


def _input_block(part: Part, provider: str, place: str) -> Json | None:
    match part:
        case Text():
            return text_block(part, provider)
        case File() if place == "user":
            return file_block(part, provider)
        case ProviderPart():
            return dict(part.data) if part.provider == provider else None
        case Structured():
            return {"type": "text", "text": dumps(part.value)}
        case _:
            return _raise_unsupported(part, provider, f"{place} messages cannot contain it")


def text_block(part: Text, provider: str) -> Json | None:
    """Return the content block for a text part, or `None` if the text is only whitespace, which the API rejects.

    Args:
        part: the text.
        provider: provider name; opaque data of other providers is left out.
    """
    if not part.text.strip():
        return None
    return _drop_citation_files({"type": "text", "text": part.text, **own_data(part.opaque, provider)})


def _drop_citation_files(block: Json) -> Json:
    """Remove `file_id` from the citations of `block`, in place, and return `block`.

    The API includes `file_id` in responses but rejects it in requests.
    """
    if is_list(citations := block.get("citations")):
        block["citations"] = [
            {key: value for key, value in citation.items() if key != "file_id"} if is_mapping(citation) else citation
            for citation in citations
        ]
    return block


# --- Files ------------------------------------------------------------------------------------------------


def file_block(file: File, provider: str) -> Json:
    """Return the content block for a file: an image, a document or a container upload, depending on its mime type.

    Args:
        file: a file with bytes, a URL or the id of an upload.
        provider: provider name; opaque data of other providers is ignored.

    Raises:
        UnsupportedPartError: the API does not accept the file.
    """
    data = own_data(file.opaque, provider)
    extra_fields = {key: value for key, value in data.items() if key not in {"file_id", "type"}}
    if "file_id" in data:
        return (
            _uploaded_block(file, data["file_id"], str(data.get("type") or _upload_block_type(file.mime)))
            | extra_fields
        )
    if file.data is None and file.url is None:
        _raise_unsupported(file, provider, "it is stored with another provider; attach its bytes")
    mime = _mime_essence(file.mime)
    if mime.startswith("image/"):
        return {"type": "image", "source": _image_source(file, mime, provider)} | extra_fields
    document: Json = {"type": "document", "source": _document_source(file, mime, provider)}
    if file.name:
        document["title"] = file.name
    return document | extra_fields


def _mime_essence(mime: str) -> str:
    """Return `mime` in lower case and without parameters. Mime types are case-insensitive (RFC 2045, section 5.1)."""
    return mime.partition(";")[0].strip().lower()


def _upload_block_type(mime: str) -> str:
    """Return the block type for an uploaded file of type `mime`: image, document or container upload."""
    mime = _mime_essence(mime)
    if mime.startswith("image/"):
        return "image"
    return "document" if mime in {PDF, "text/plain"} else "container_upload"


def _uploaded_block(file: File, file_id: object, kind: str) -> Json:
    if kind == "container_upload":
        return {"type": kind, "file_id": file_id}
    block: Json = {"type": kind, "source": {"type": "file", "file_id": file_id}}
    if kind == "document" and file.name:
        block["title"] = file.name
    return block


def _image_source(file: File, mime: str, provider: str) -> Json:
    mime = "image/jpeg" if mime == "image/jpg" else mime
    if mime not in IMAGES and (file.data is not None or mime != "image/*"):
        _raise_unsupported(
            file, provider, "it accepts JPEG, PNG, GIF and WebP images; convert the file to one of these"
        )
    return _content_source(file, mime)


def _document_source(file: File, mime: str, provider: str) -> Json:
    if mime == PDF:
        return _content_source(file, PDF)
    if not (mime.startswith("text/") or mime in TEXT_TYPES):
        _raise_unsupported(
            file,
            provider,
            "it accepts images, PDF and text; convert the file, or upload it and send its id for code execution",
        )
    if file.data is None:
        _raise_unsupported(
            file, provider, "by URL it accepts only images and PDF; download the text and attach its bytes"
        )
    try:
        text = file.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _raise_unsupported(file, provider, "its bytes are not valid UTF-8; convert the text to UTF-8")
    if not text.strip():
        _raise_unsupported(file, provider, "it is empty; leave it out")
    return {"type": "text", "media_type": "text/plain", "data": text}


def _content_source(file: File, mime: str) -> Json:
    if file.data is None:
        return {"type": "url", "url": file.url}
    if not file.data:
        msg = f"File(mime={file.mime!r}) has no bytes: attach its content, or leave it out"
        raise UnsupportedPartError(msg)
    return {"type": "base64", "media_type": mime, "data": base64.b64encode(file.data).decode()}


# --- Model turns --------------------------------------------------------------------------------------------


def model_blocks(turn: Turn, provider: str) -> tuple[list[Json], list[Json]]:
    """Return the content blocks for a model turn, and the tool result blocks for the following user message.

    Args:
        turn: a turn whose tool calls are resolved.
        provider: provider name; opaque data of other providers is left out.

    Raises:
        UnsupportedPartError: the API has no block for a part.
    """
    own = turn.metadata is None or turn.metadata.provider in {None, provider}
    ids = wire_ids(turn)
    blocks: list[Json] = []
    results: list[Json] = []
    declined_count = _count_declined_parts(turn, provider)
    remaining_ids = iter(ids)
    for number, part in enumerate(turn.parts):
        if isinstance(part, Tool):
            call_id = next(remaining_ids)
            if number < declined_count:
                continue
            blocks.append(_call_block(part, call_id, provider))
            results.append(_result_block(part, call_id, provider))
        elif (block := _model_block(part, provider, own=own)) is not None:
            blocks.append(block)
    # The API rejects a message that ends with thinking, such as the one of a truncated response.
    while blocks and _has_type(blocks[-1], THINKING_BLOCKS):
        blocks.pop()
    return blocks, results


def _count_declined_parts(turn: Turn, provider: str) -> int:
    """Return the number of leading parts from models that refused, in which the API rejects tool calls."""
    fallbacks = [
        number
        for number, part in enumerate(turn.parts)
        if isinstance(part, ProviderPart) and part.kind == FALLBACK and part.provider == provider
    ]
    return fallbacks[-1] if fallbacks else 0


def _model_block(part: Part, provider: str, *, own: bool) -> Json | None:
    match part:
        case Text():
            return text_block(part, provider)
        case Reasoning():
            return _thinking_block(part, provider, own=own)
        case ProviderPart():
            sent = part.provider == provider and part.kind not in NOT_SENT
            return _drop_citation_files(dict(part.data)) if sent else None
        case Structured():
            return {"type": "text", "text": dumps(part.value)}
        case _:
            return _raise_unsupported(part, provider, "model messages cannot contain it; put it into a user message")


def _thinking_block(part: Reasoning, provider: str, *, own: bool) -> Json | None:
    """Return the thinking block for `part`, or `None` if `part` has no signature from this provider."""
    is_own = own if part.opaque is None else part.opaque.provider == provider
    if not is_own or not part.signature:
        return None
    extra_fields = own_data(part.opaque, provider)
    return {"type": "thinking", "thinking": part.text, "signature": part.signature, **extra_fields}


def declined_call(tool: Tool, provider: str) -> ProviderPart:
    """Return a part that records a tool call from a model that refused afterwards.

    The call is neither run nor sent in later requests.

    Args:
        tool: the call.
        provider: provider name of the part.
    """
    block: Json = {"type": "tool_use", "id": tool.call_id, "name": tool.name, "input": _call_input(tool)}
    return ProviderPart(provider, DECLINED, block)


def _call_input(tool: Tool) -> Json:
    """Return the arguments of `tool` as an object. Invalid JSON is wrapped in `INVALID_JSON`, as the API documents."""
    call = tool.call
    return {"INVALID_JSON": call.text} if call.problem is not None else dict(call.arguments)


def _call_block(tool: Tool, call_id: str, provider: str) -> Json:
    name = INVALID_IN_NAME.sub("_", tool.name)[:MAX_NAME] or "_"
    return {
        "type": "tool_use",
        "id": call_id,
        "name": name,
        "input": _call_input(tool),
        **own_data(tool.call.opaque, provider),
    }


def _result_block(tool: Tool, call_id: str, provider: str) -> Json:
    result: Json = {"type": "tool_result", "tool_use_id": call_id}
    if toolset := own_data(tool.call.opaque, provider).get("toolset_name"):
        result["toolset_name"] = toolset
    if (blocks := _content_blocks_of_result(tool)) is not None:
        return result | {"content": blocks}
    text = tool.result_text()
    files = [file_block(file, provider) for file in tool.result_files]
    if files:
        result["content"] = [*([{"type": "text", "text": text}] if _has_text_result(tool, text) else []), *files]
    elif text.strip():
        result["content"] = text
    if tool.failed:
        result["is_error"] = True
        result.setdefault("content", "it failed")
    return result


def _content_blocks_of_result(tool: Tool) -> list[Json] | None:
    """Return the tool's result if it is a list of content blocks, or `None`.

    At least one of the blocks must have a type in `RESULT_ONLY_BLOCKS`.
    """
    status = tool.status
    if not isinstance(status, Completed) or status.files or tool.edited is not None or not is_list(status.result):
        return None
    blocks = [item for item in status.result if is_object(item) and _has_type(item, RESULT_BLOCKS)]
    intended = any(block["type"] in RESULT_ONLY_BLOCKS for block in blocks)
    return blocks if intended and len(blocks) == len(status.result) else None


def _has_text_result(tool: Tool, text: str) -> bool:
    """Return whether a tool result with files also has text. If a tool returns only files, `text` is `null`."""
    return bool(text.strip()) and text != "null" and not tool.failed


def wire_ids(turn: Turn) -> list[str]:
    """Return the ids to send for the tool calls in the turn, in order.

    `Tool.id` is the provider's id unless that id is missing or not unique. If the API would reject an id, its hash is
    sent instead.
    """
    return [
        tool.id if ID.fullmatch(tool.id) else f"toolu_{sha256(tool.id.encode(errors='surrogatepass')).hexdigest()[:32]}"
        for tool in turn.tools
    ]


# --- Cache points -----------------------------------------------------------------------------------------


def add_cache_point(blocks: list[Json], ttl: str) -> bool:
    """Add a cache point to the last block that can have one, in place.

    Args:
        blocks: blocks of a message.
        ttl: lifetime of the cache entry, `"5m"` or `"1h"`.

    Returns:
        Whether there was such a block. An existing cache point on the block is not changed.
    """
    for block in reversed(blocks):
        if not _has_type(block, NOT_CACHEABLE):
            block.setdefault("cache_control", cache_point(ttl))
            return True
    return False


def cache_point(ttl: str) -> Json:
    """Return a cache point in the API's format. A `ttl` of five minutes is the default and is not sent."""
    return {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}


def _raise_unsupported(part: Part, provider: str, reason: str) -> NoReturn:
    raise unsupported_part(part, f"the Messages API (provider {provider!r})", reason, show_url=True)


def _has_type(block: Json, types: frozenset[str]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind in types
