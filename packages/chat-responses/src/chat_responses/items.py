"""From the items of a response to parts.

Each item is kept so that it goes back as it came; where that is, `parts.py` tells.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from chat_core.json import dumps, loads
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

from chat_responses.parts import MCP_APPROVAL

TEXTS: Final = ("output_text", "text", None)
"""The types of a text in a message. What a server says may be of any shape, so it is looked for in no set."""

Reader: TypeAlias = Callable[[Json, str, str], list[Part]]


def parts_of(item: Json, provider: str, path: str) -> list[Part]:
    """The parts that an item is.

    Raises:
        WrongShapeError: it is not shaped as its type says.
    """
    kind = item.get("type")
    reader = READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        return [ProviderPart(provider, kind if isinstance(kind, str) and kind else "item", item)]
    return reader(item, provider, path)


def kept(item: Mapping[str, Any], without: Iterable[str]) -> Json:
    """The fields of an item that go back: those that say anything, and are not said by the part itself."""
    fields = {name: value for name, value in item.items() if value is not None and name not in without}
    if fields.get("status") == "completed":
        del fields["status"]
    return fields


# --- What the model says -------------------------------------------------------------------------------------


def _message(item: Json, provider: str, path: str) -> list[Part]:
    if not is_answer(item):
        return [ProviderPart(provider, "item", item)]  # a compacted conversation says again what the user said
    head = kept(item, ("type", "role", "content"))
    parts: list[Part] = []
    for index, piece in enumerate(content_of(item, path)):
        parts.append(_said(piece, head, provider, f"{path}.content[{index}]"))
    return parts


def is_answer(item: Json) -> bool:
    """Whether the model says a message. A few servers name nobody."""
    return (item.get("role") or "assistant") == "assistant"


def content_of(item: Json, path: str) -> list[Json]:
    """The content parts of a message. A few servers give a text."""
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    pieces = require_list(content or [], f"{path}.content")
    return [require_object(piece, f"{path}.content[{index}]") for index, piece in enumerate(pieces)]


def _said(piece: Json, head: Json, provider: str, path: str) -> Part:
    kind = piece.get("type")
    if kind == "refusal":
        words = require_text(piece.get("refusal") or "", f"{path}.refusal")
        return ProviderPart(provider, "refusal", {"refusal": words, "item": head})
    if kind not in TEXTS:
        return ProviderPart(provider, "content", {"content": piece, "item": head})
    further = {
        name: value
        for name, value in piece.items()
        if value not in (None, []) and name not in {"type", "text", "logprobs"}
    }
    data: Json = {"item": head, "part": further} if further else {"item": head}
    return Text(require_text(piece.get("text") or "", f"{path}.text"), Opaque(provider, data))


def logprobs_of(item: Json) -> list[Any]:
    """The log probabilities of a message's tokens."""
    if item.get("type") != "message" or not is_list(item.get("content")):
        return []
    pieces = [mapping(piece).get("logprobs") for piece in item["content"]]
    return [token for tokens in pieces if is_list(tokens) for token in tokens]


def _reasoning(item: Json, provider: str, path: str) -> list[Part]:
    sealed = require_text(item.get("encrypted_content") or "", f"{path}.encrypted_content")
    own = kept(item, ("type", "encrypted_content"))
    if not own.get("content"):
        own.pop("content", None)
    text = "".join([text for _, text in thoughts_of(item, path)])
    return [Reasoning(text, sealed or None, Opaque(provider, {"item": own}))]


def thoughts_of(item: Json, path: str) -> list[tuple[tuple[str, int], str]]:
    """The pieces of an item of reasoning, and where they stand: of its summary, then what it says in full."""
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
    """The text of a call's arguments; a few servers send the JSON itself."""
    value = item.get("input" if item.get("type") == "custom_tool_call" else "arguments")
    if isinstance(value, str):
        return value
    if not value:
        return ""
    if is_object(value):
        return dumps(value)
    where = f"{path}.arguments".removeprefix(".")
    raise WrongShapeError(where, "a text")


def _function_call(item: Json, provider: str, path: str) -> list[Part]:
    name = require_text(item.get("name"), f"{path}.name")
    own = kept(item, ("type", "name", "arguments", "call_id", "parsed_arguments"))
    opaque = Opaque(provider, {"item": own}) if own else None
    call = FunctionCall.parse(name, arguments_of(item, path), opaque=opaque)
    return [Tool(_whole(call, item), call_id=call_id_of(item))]


def _whole(call: FunctionCall, item: Json) -> FunctionCall:
    """The call, which does not run if it was cut: what was cut may look whole, and is none the less."""
    if item.get("status") != "incomplete" or call.problem is not None:
        return call
    return replace(call, arguments={}, problem="the answer was cut before this call was whole")


def call_id_of(item: Json) -> str | None:
    """The id by which a call's output names it."""
    found = item.get("call_id") or item.get("id")
    return found if isinstance(found, str) and found else None


def _custom_tool_call(item: Json, provider: str, path: str) -> list[Part]:
    name = require_text(item.get("name"), f"{path}.name")
    text = arguments_of(item, path)
    opaque = Opaque(
        provider, {"item": {"type": "custom_tool_call", **kept(item, ("type", "name", "input", "call_id"))}}
    )
    # The text is no JSON: a tool gets it as its argument `input`.
    call = FunctionCall(name, {"input": text}, raw=text, opaque=opaque)
    return [Tool(_whole(call, item), call_id=call_id_of(item))]


def _mcp_approval_request(item: Json, provider: str, path: str) -> list[Part]:
    request = require_text(item.get("id"), f"{path}.id")
    call = FunctionCall(MCP_APPROVAL, approval_arguments(item), opaque=Opaque(provider, {"item": item}))
    return [Tool(call, call_id=request)]


def approval_arguments(item: Json) -> Json:
    """What a remote tool that wants to be approved would do."""
    arguments = item.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):  # what is no JSON is shown as it is
            arguments = loads(arguments)
    return {"server_label": item.get("server_label"), "name": item.get("name"), "arguments": arguments}


# --- Files ---------------------------------------------------------------------------------------------------


def _image(item: Json, provider: str, _path: str) -> list[Part]:
    file = image_of(item.get("result"), item, Opaque(provider, {"item": kept_image(item)}))
    return [ProviderPart(provider, "image_generation_call", item) if file is None else file]


def kept_image(item: Json) -> Json:
    """The item of an image without the image, whose bytes are kept once; of a `data:` URL, what stands before them."""
    own = {name: value for name, value in item.items() if name != "result"}
    head = data_head(item.get("result"))
    return own | {"result": head} if head else own


def data_head(result: object) -> str:
    """How a `data:` URL begins, as some gateways write an image; empty where it is none."""
    if not isinstance(result, str) or not result.startswith("data:"):
        return ""
    head, comma, _ = result.partition(",")
    return head + comma


def image_of(result: object, item: Mapping[str, Any], opaque: Opaque) -> File | None:
    """The image in an item or an event, if there is one."""
    if not isinstance(result, str) or not result:
        return None
    try:
        data = base64.b64decode(result.removeprefix(data_head(result)), validate=True)
    except (binascii.Error, ValueError):
        return None
    return File(_mime(data, item.get("output_format")), data=data, opaque=opaque)


MARKS: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def _mime(data: bytes, said: object) -> str:
    """What an image is: what its bytes say, else the server, whose default is PNG."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    if (found := next((mime for mark, mime in MARKS if data.startswith(mark)), None)) is not None:
        return found
    if said == "svg":
        return "image/svg+xml"
    return f"image/{said}" if isinstance(said, str) and said else "image/png"


READERS: Final[Mapping[str, Reader]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _custom_tool_call,
    "mcp_approval_request": _mcp_approval_request,
    "image_generation_call": _image,
}
"""The items that are more than opaque. All others go back as they came."""
