"""Decoder from response items to message parts.

Each part stores the fields that are needed to send its item back unchanged. `parts.py` documents these fields.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias, final

from chat_core.json import dumps, loads_limited
from chat_core.messages import File, FunctionCall, Opaque, Part, ProviderPart, Reasoning, Text, Tool
from chat_core.wire.shapes import (
    Json,
    WrongShapeError,
    is_list,
    is_object,
    mapping,
    require_list,
    require_object,
    require_text,
)

from chat_responses import model_texts
from chat_responses.actions import ACTIONS, action_arguments, is_action
from chat_responses.parts import MCP_APPROVAL

TEXTS: Final = ("output_text", "text", None)
"""Types of text content in a message. Not a set, because a received type may be unhashable."""

Reader: TypeAlias = Callable[[Json, str, str], list[Part]]


def parts_of(item: Json, provider: str, path: str) -> list[Part]:
    """Decode a response item and return its message parts.

    Args:
        item: the response item, as decoded from JSON.
        provider: provider name, the owner of opaque data.
        path: path of the item in the response, for errors.

    Raises:
        WrongShapeError: a field of the item has the wrong type.
    """
    kind = item.get("type")
    reader = READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        return [ProviderPart(provider, kind if isinstance(kind, str) and kind else "item", item)]
    return reader(item, provider, path)


def replayed_fields(item: Mapping[str, Any], without: Iterable[str]) -> Json:
    """Return the fields of an item that must be stored in order to send the item back.

    Null fields and a `completed` status are omitted.

    Args:
        item: the response item, as decoded from JSON.
        without: names of fields to omit, because the part itself stores them.
    """
    fields = {name: value for name, value in item.items() if value is not None and name not in without}
    if fields.get("status") == "completed":
        del fields["status"]
    return fields


# --- Messages and reasoning ----------------------------------------------------------------------------------


def _decode_message(item: Json, provider: str, path: str) -> list[Part]:
    if not is_from_model(item):
        return [ProviderPart(provider, "item", item)]  # a compacted conversation repeats user messages
    head = replayed_fields(item, ("type", "role", "content"))
    parts: list[Part] = []
    for index, piece in enumerate(content_of(item, path)):
        parts.append(_decode_content_part(piece, head, provider, f"{path}.content[{index}]"))
    return parts


def is_from_model(item: Json) -> bool:
    """Return whether the model wrote the message in `item`. A few servers omit the role `assistant`."""
    return (item.get("role") or "assistant") == "assistant"


def content_of(item: Json, path: str) -> list[Json]:
    """Return the content parts of a message. A few servers send a string as the content.

    Args:
        item: the message.
        path: path of the item in the response, for errors.
    """
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    pieces = require_list(content or [], f"{path}.content")
    return [require_object(piece, f"{path}.content[{index}]") for index, piece in enumerate(pieces)]


def _decode_content_part(piece: Json, head: Json, provider: str, path: str) -> Part:
    """Decode one content part of a message. `head` contains the other fields of the message."""
    kind = piece.get("type")
    if kind == "refusal":
        refusal = require_text(piece.get("refusal") or "", f"{path}.refusal")
        return ProviderPart(provider, "refusal", {"refusal": refusal, "item": head})
    if kind not in TEXTS:
        return ProviderPart(provider, "content", {"content": piece, "item": head})
    extra_fields = {
        name: value
        for name, value in piece.items()
        if value not in (None, []) and name not in {"type", "text", "logprobs"}
    }
    data: Json = {"item": head, "part": extra_fields} if extra_fields else {"item": head}
    return Text(require_text(piece.get("text") or "", f"{path}.text"), Opaque(provider, data))


def logprobs_of(item: Json) -> list[Any]:
    """Return the token log probabilities that a message item contains."""
    if item.get("type") != "message" or not is_list(item.get("content")):
        return []
    pieces = [mapping(piece).get("logprobs") for piece in item["content"]]
    return [token for tokens in pieces if is_list(tokens) for token in tokens]


def _decode_reasoning(item: Json, provider: str, path: str) -> list[Part]:
    sealed = require_text(item.get("encrypted_content") or "", f"{path}.encrypted_content")
    fields = replayed_fields(item, ("type", "encrypted_content"))
    if not fields.get("content"):
        fields.pop("content", None)
    text = "".join([text for _, text in reasoning_texts(item, path)])
    return [Reasoning(text, sealed or None, Opaque(provider, {"item": fields}))]


def reasoning_texts(item: Json, path: str) -> list[tuple[tuple[str, int], str]]:
    """Return the texts of a reasoning item: first the summaries, then the full reasoning.

    Each text is paired with its key, the name of its list and its index in the list.

    Args:
        item: the reasoning item.
        path: path of the item in the response, for errors.
    """
    found: list[tuple[tuple[str, int], str]] = []
    for name in ("summary", "content"):
        value = item.get(name)
        if isinstance(value, str):
            found.append(((name, 0), value))
            continue
        for index, piece in enumerate(require_list(value or [], f"{path}.{name}")):
            where = f"{path}.{name}[{index}]"
            found.append(((name, index), require_text(require_object(piece, where).get("text") or "", f"{where}.text")))
    return found


# --- Calls ---------------------------------------------------------------------------------------------------


def arguments_of(item: Json, path: str) -> str:
    """Return the arguments of a tool call as text. A few servers send a JSON object instead of text.

    Args:
        item: the call, whose type determines the name of the field.
        path: path of the item in the response, for errors.
    """
    value = item.get("input" if item.get("type") == "custom_tool_call" else "arguments")
    if isinstance(value, str):
        return value
    if not value:
        return ""
    if is_object(value):
        return dumps(value)
    where = f"{path}.arguments".removeprefix(".")
    raise WrongShapeError(where, "a string")


CALL_FIELDS: Final = frozenset({"id", "status", "namespace", "caller", "async"})
"""Fields of a `function_call` that the API accepts in a request, besides those that the part stores itself.

Source: `ResponseFunctionToolCallParam` of the OpenAI SDK 3.54.
"""


def _decode_function_call(item: Json, provider: str, path: str) -> list[Part]:
    name = require_text(item.get("name"), f"{path}.name")
    fields = replayed_fields(item, item.keys() - CALL_FIELDS)
    opaque = Opaque(provider, {"item": fields}) if fields else None
    call = FunctionCall.parse(name, arguments_of(item, path), opaque=opaque)
    return [Tool(_reject_truncated(call, item), call_id=call_id_of(item))]


def _reject_truncated(call: FunctionCall, item: Json) -> FunctionCall:
    """Return `call`, marked as not runnable if `item` was truncated. Truncated arguments may still be valid JSON."""
    if item.get("status") != "incomplete" or call.problem is not None:
        return call
    return replace(call, arguments={}, problem=model_texts.CALL_TRUNCATED)


def call_id_of(item: Json) -> str | None:
    """Return the id by which the output of a tool call refers to the call, or `None`."""
    found = item.get("call_id") or item.get("id")
    return found if isinstance(found, str) and found else None


def _decode_custom_tool_call(item: Json, provider: str, path: str) -> list[Part]:
    name = require_text(item.get("name"), f"{path}.name")
    text = arguments_of(item, path)
    opaque = Opaque(
        provider, {"item": {"type": "custom_tool_call", **replayed_fields(item, ("type", "name", "input", "call_id"))}}
    )
    # The text is not JSON. The tool receives it as the argument `input`.
    call = FunctionCall(name, {"input": text}, raw=text, opaque=opaque)
    return [Tool(_reject_truncated(call, item), call_id=call_id_of(item))]


def _decode_mcp_approval_request(item: Json, provider: str, path: str) -> list[Part]:
    request = require_text(item.get("id"), f"{path}.id")
    call = FunctionCall(MCP_APPROVAL, approval_arguments(item), opaque=Opaque(provider, {"item": item}))
    return [Tool(call, call_id=request)]


def approval_arguments(item: Json) -> Json:
    """Return the server, tool name and arguments in an `mcp_approval_request` as arguments for the approval tool."""
    arguments = item.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):  # arguments that are not JSON stay a string
            arguments = loads_limited(arguments)
    return {"server_label": item.get("server_label"), "name": item.get("name"), "arguments": arguments}


def _decode_action(item: Json, provider: str, path: str) -> list[Part]:
    kind = str(item["type"])
    if not is_action(item):
        return [ProviderPart(provider, kind, item)]
    # `created_by` is not accepted in requests.
    fields = {name: value for name, value in item.items() if value is not None and name != "created_by"}
    call = FunctionCall(ACTIONS[kind], action_arguments(item, path), opaque=Opaque(provider, {"item": fields}))
    return [Tool(_reject_truncated(call, item), call_id=call_id_of(item))]


SERVER_TOOLS: Final = frozenset({"x_keyword_search", "x_semantic_search", "x_thread_fetch", "x_user_search"})
"""Tools that xAI runs for `x_search` and reports as `custom_tool_call` (Vercel AI SDK, `@ai-sdk/xai`, 2026-11-22)."""

NEVER_CUSTOM: Final = frozenset(
    {"function", "web_search", "x_search", "code_interpreter", "file_search", "collections_search", "image_generation"}
)
"""Types of declared tools that never cause a call to one of the client's custom tools."""


@final
class DeclaredTools:
    """The declared tools of a request, as repeated in its response.

    Used to distinguish calls to the client's custom tools from calls to the server's own tools, which have the same
    item type.

    Args:
        tools: the field `tools` of the response, or `None` if it is unknown.
    """

    __slots__ = ("_custom_names", "_excludes_custom")

    def __init__(self, tools: object = None) -> None:
        declared = [mapping(tool) for tool in tools] if is_list(tools) else []
        self._custom_names = {str(tool.get("name")) for tool in declared if tool.get("type") == "custom"}
        self._excludes_custom = bool(declared) and all(str(tool.get("type")) in NEVER_CUSTOM for tool in declared)

    def ran_on_server(self, item: Json) -> bool:
        """Return whether `item` is a `custom_tool_call` to a tool that the server ran itself."""
        if item.get("type") != "custom_tool_call":
            return False
        name = item.get("name")
        known = isinstance(name, str) and name in SERVER_TOOLS and name not in self._custom_names
        return known or self._excludes_custom


# --- Files ---------------------------------------------------------------------------------------------------


def _decode_image(item: Json, provider: str, _path: str) -> list[Part]:
    file = image_of(item.get("result"), item, Opaque(provider, {"item": image_fields(item)}))
    return [ProviderPart(provider, "image_generation_call", item) if file is None else file]


def image_fields(item: Json) -> Json:
    """Return the fields of an `image_generation_call` without the image bytes. The prefix of a `data:` URL is kept."""
    fields = {name: value for name, value in item.items() if name != "result"}
    head = data_url_prefix(item.get("result"))
    return fields | {"result": head} if head else fields


def data_url_prefix(result: object) -> str:
    """Return the prefix of a `data:` URL up to the comma, or an empty string if `result` is not such a URL."""
    if not isinstance(result, str) or not result.startswith("data:"):
        return ""
    head, comma, _ = result.partition(",")
    return head + comma


def image_of(result: object, item: Mapping[str, Any], opaque: Opaque) -> File | None:
    """Decode a generated image and return it as a `File`, or `None` if `result` has no valid base64 data.

    Args:
        result: base64 data or a `data:` URL.
        item: the item or event, whose `output_format` is used if the bytes are not recognized.
        opaque: opaque data of the file.
    """
    if not isinstance(result, str) or not result:
        return None
    try:
        data = base64.b64decode(result.removeprefix(data_url_prefix(result)), validate=True)
    except (binascii.Error, ValueError):
        return None
    return File(_image_mime(data, item.get("output_format")), data=data, opaque=opaque)


IMAGE_SIGNATURES: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
"""First bytes of image formats, and their mime types."""


def _image_mime(data: bytes, output_format: object) -> str:
    """Return the mime type of an image from its first bytes, or else from `output_format`. The default is PNG."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    if (found := next((mime for signature, mime in IMAGE_SIGNATURES if data.startswith(signature)), None)) is not None:
        return found
    if output_format == "svg":
        return "image/svg+xml"
    return f"image/{output_format}" if isinstance(output_format, str) and output_format else "image/png"


READERS: Final[Mapping[str, Reader]] = {
    "message": _decode_message,
    "reasoning": _decode_reasoning,
    "function_call": _decode_function_call,
    "custom_tool_call": _decode_custom_tool_call,
    "mcp_approval_request": _decode_mcp_approval_request,
    "image_generation_call": _decode_image,
    **dict.fromkeys(ACTIONS, _decode_action),
}
"""Decoders by item type. An item of another type becomes a `ProviderPart`, which is sent back unchanged."""
