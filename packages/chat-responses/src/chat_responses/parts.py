"""Encoder from the parts of a turn to request items.

Data that only this provider understands is in `Opaque` data with the provider's name:

- `Text` and `File`: `part` holds additional fields of the content part (`{"part": {"annotations": …}}`). `item` holds
  the fields of the message that contained it. Consecutive texts with the same `item` become one message.
- `File`: `file_id` is the id of an uploaded file, `detail` the resolution. `item` is the `image_generation_call` that
  created the file, without the bytes.
- `Reasoning`: `item` is the whole item without `encrypted_content`, which is the signature.
- `FunctionCall`: `item` holds the additional fields of the item, and its `type` unless it is `function_call`. For a
  client action and for an approval request, `item` is the whole item.

A `ProviderPart` of kind `refusal` or `content` is a content part of a model's message. A `ProviderPart` of kind `part`
is a content part of another message. A `ProviderPart` of any other kind is a whole item; its kind is the item's type or
`item`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from chat_core.json import dumps
from chat_core.messages import (
    Completed,
    File,
    Part,
    ProviderPart,
    Reasoning,
    Role,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.wire.parts import arguments_text, own_data
from chat_core.wire.shapes import Json, is_mapping, mapping

from chat_responses import model_texts
from chat_responses.actions import ACTION_TYPES, action_outputs
from chat_responses.files import content_part, file_part, reject
from chat_responses.options import ResponsesDialect

MCP_APPROVAL: Final = "mcp_approval"
"""Name of the tool whose calls represent requests to approve a remote tool call."""

MAX_ID_LENGTH: Final = 64
"""Maximum length of a call id. Ids that this provider created may be longer."""

ID_OPTIONAL: Final = frozenset({"message", "compaction", "web_search_call", "local_shell_call", "reasoning"})
"""Types of items whose id is optional. Items of other types need an id even without storage."""

INVALID_IN_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


def wire_role(role: Role, dialect: ResponsesDialect) -> str:
    """Return the role in the items of the API for the role of a turn.

    Args:
        role: the role of the turn.
        dialect: settings of the provider.
    """
    if role == "system":
        return dialect.system_role
    return "assistant" if role == "model" else "user"


def plain_items(role: Role, turn: Turn, dialect: ResponsesDialect) -> list[Json]:
    """Return the request items for a user or system turn.

    Parts are joined into messages. Parts that are whole items stay at their position between the messages.

    Args:
        role: role of the turn.
        turn: the turn to encode.
        dialect: settings of the provider.

    Raises:
        UnsupportedPartError: the Responses API cannot represent a part.
    """
    items: list[Json] = []
    content: list[Json] = []
    head: Json = {"role": wire_role(role, dialect)}
    for part in turn.parts:
        if not isinstance(part, ProviderPart):
            content.append(content_part(part, dialect))
        elif part.provider == dialect.provider and part.kind == "part":
            content.append(dict(part.data))
        elif (item := raw_item(part, dialect, send_ids=dialect.sends_ids)) is not None:
            if content:
                items.append({**head, "content": _content_field(content)})
                content = []
            items.append(item)
    if content:
        items.append({**head, "content": _content_field(content)})
    return items


def _content_field(parts: list[Json]) -> object:
    """Return the `content` field for the given content parts.

    A single plain text becomes a string, which every server accepts. Anything else becomes a list.
    """
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts


def raw_item(part: ProviderPart, dialect: ResponsesDialect, *, send_ids: bool) -> Json | None:
    """Return the request item that a `ProviderPart` contains.

    Args:
        part: the part to unwrap.
        dialect: settings of the provider.
        send_ids: whether the item keeps an id that is optional.

    Returns:
        The item, or `None` if the part belongs to another provider or is not an item.
    """
    kind = part.data.get("type")
    if part.provider != dialect.provider or not isinstance(kind, str) or part.kind not in {kind, "item"}:
        return None
    item = dict(part.data)
    if not send_ids and kind in ID_OPTIONAL:
        item.pop("id", None)
    return item


def model_items(turn: Turn, dialect: ResponsesDialect) -> list[Json]:
    """Return the request items for a model turn, without the outputs of its tool calls.

    Args:
        turn: the model turn to encode.
        dialect: settings of the provider.

    Raises:
        UnsupportedPartError: the Responses API cannot represent a part.
    """
    items = _ItemBuilder(dialect, turn)
    for part in turn.parts:
        items.add(part)
    return items.build()


def call_outputs(turn: Turn, dialect: ResponsesDialect, *, stored: bool = False) -> list[Json]:
    """Return request items with the outputs of a model turn's tool calls, in the order of the calls.

    Args:
        turn: the model turn with the resolved calls.
        dialect: settings of the provider.
        stored: whether the server has the calls, and knows each by the id that it sent. `Messages` replace an id that
            an earlier call has.
    """
    ids = wire_ids(turn, dialect)
    if stored:
        ids = [tool.call_id or id_ for tool, id_ in zip(turn.tools, ids, strict=True)]
    return [
        item for tool, call_id in zip(turn.tools, ids, strict=True) for item in _call_outputs(tool, call_id, dialect)
    ]


# --- Calls -------------------------------------------------------------------------------------------------


def wire_ids(turn: Turn, dialect: ResponsesDialect) -> list[str]:
    """Return the ids to send for the tool calls of a turn, in order.

    A turn from another provider may have ids that are too long for this API. Such an id is replaced by its hash.

    Args:
        turn: the model turn with the calls.
        dialect: settings of the provider.
    """
    own = is_own(turn, dialect)
    return [_shorten_call_id(tool.id, own=own) for tool in turn.tools]


def is_own(turn: Turn, dialect: ResponsesDialect) -> bool:
    """Return whether a turn is from this provider or names no provider.

    Args:
        turn: a turn of the conversation.
        dialect: settings of the provider.
    """
    return turn.metadata is None or turn.metadata.provider in {None, dialect.provider}


def _shorten_call_id(id_: str, *, own: bool) -> str:
    """Return `id_`, or its hash if the id is too long and from another provider."""
    if len(id_) <= MAX_ID_LENGTH or own:
        return id_
    return f"call_{sha256(id_.encode(errors='surrogatepass')).hexdigest()[:32]}"


def stored_item_fields(tool: Tool, dialect: ResponsesDialect) -> Mapping[str, object]:
    """Return the fields of the original response item that are stored with a tool call.

    Args:
        tool: the tool call.
        dialect: settings of the provider.
    """
    return mapping(own_data(tool.call.opaque, dialect.provider).get("item"))


def _call_item(tool: Tool, call_id: str, dialect: ResponsesDialect, *, own: bool, send_ids: bool) -> Json:
    """Return the request item for a tool call, with `call_id` as its id."""
    item = dict(stored_item_fields(tool, dialect))
    kind = item.pop("type", "function_call")
    if kind == "mcp_approval_request":
        return {"type": kind, **item}
    if not send_ids and (kind not in ACTION_TYPES or kind in ID_OPTIONAL):
        item.pop("id", None)
    if kind in ACTION_TYPES:
        return {"type": kind, **item, "call_id": call_id}
    name = tool.name if own else INVALID_IN_NAME.sub("_", tool.name)
    if kind == "custom_tool_call":
        return {"type": kind, "call_id": call_id, "name": name, "input": tool.call.text, **item}
    return {"type": kind, "call_id": call_id, "name": name, "arguments": arguments_text(tool.call), **item}


def _call_outputs(tool: Tool, call_id: str, dialect: ResponsesDialect) -> list[Json]:
    """Return the request items with the output of a tool call."""
    item = stored_item_fields(tool, dialect)
    kind = item.get("type")
    if kind == "mcp_approval_request":
        return [_approval_response(tool, str(item.get("id")))]
    if kind in ACTION_TYPES:
        return action_outputs(tool, item, call_id)
    output: object = tool.result_text()
    if files := tool.result_files:
        texts = [{"type": "input_text", "text": output}] if output else []
        output = [*texts, *[file_part(file, dialect) for file in files]]
    output_type = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
    # If a program on the server made the call, the output must name that program.
    caller = {"caller": item["caller"]} if is_mapping(item.get("caller")) else {}
    return [{"type": output_type, "call_id": call_id, "output": output, **caller}]


def _approval_response(tool: Tool, request: str) -> Json:
    """Return the request item that answers the approval request with the id `request`.

    A call whose arguments the approver edited is rejected, because the response cannot change the arguments.
    """
    answer: Json = {"type": "mcp_approval_response", "approval_request_id": request}
    edited = tool.edited is not None and dict(tool.edited) != dict(tool.call.arguments)
    if isinstance(tool.status, Completed) and not edited:
        return answer | {"approve": True}
    reason = model_texts.rejected_edit(tool.edited or {}) if edited else tool.result_text()
    return answer | {"approve": False, "reason": reason}


# --- A model's turn -----------------------------------------------------------------------------------------


def _has_known_ids(turn: Turn, dialect: ResponsesDialect) -> bool:
    """Return whether the server accepts the ids of a turn's items.

    It does not know the ids of a response that it did not store. For an id that it knows, it also requires the
    reasoning before the item.
    """
    if turn.metadata is not None and turn.metadata.extra.get("store") is False:
        return False
    return dialect.reasoning_replay != "never" or not any(isinstance(part, Reasoning) for part in turn.parts)


class _ItemBuilder:
    """Builder for the request items that represent a model turn."""

    __slots__ = ("_dialect", "_ids", "_items", "_last_message", "_send_ids", "_turn")

    def __init__(self, dialect: ResponsesDialect, turn: Turn) -> None:
        self._dialect = dialect
        self._turn = turn
        self._send_ids = dialect.sends_ids and _has_known_ids(turn, dialect)
        self._ids = iter(wire_ids(turn, dialect))
        self._items: list[Json] = []
        self._last_message: tuple[object, list[Json]] | None = None  # head and content of the last message

    def add(self, part: Part) -> None:
        if isinstance(part, Text):
            data = own_data(part.opaque, self._dialect.provider)
            self._add_content(data.get("item"), {"type": "output_text", "text": part.text, **mapping(data.get("part"))})
        elif isinstance(part, Structured):
            self._add_content(None, {"type": "output_text", "text": dumps(part.value)})
        elif isinstance(part, ProviderPart) and part.kind in {"refusal", "content"}:
            if part.provider == self._dialect.provider:
                refusal = {"type": "refusal", "refusal": part.data.get("refusal", "")}
                content = refusal if part.kind == "refusal" else dict(mapping(part.data.get("content")))
                self._add_content(part.data.get("item"), content)
        elif (item := self._item(part)) is not None:
            self._items.append(item)
            self._last_message = None

    def _item(self, part: Part) -> Json | None:
        """Return the request item for a part, or `None` if the part is not sent."""
        match part:
            case Tool():
                own = is_own(self._turn, self._dialect)
                return _call_item(part, next(self._ids), self._dialect, own=own, send_ids=self._send_ids)
            case Reasoning():
                return self._reasoning(part)
            case ProviderPart():
                return raw_item(part, self._dialect, send_ids=self._send_ids)
            case File():
                return self._file(part)
            case _:
                return reject(part, self._dialect)

    def build(self) -> list[Json]:
        items = self._items
        # The API rejects reasoning at the end, which a truncated response leaves.
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        for item in items:
            if "type" not in item:
                item["content"] = _content_field(item["content"])
        return items

    def _add_content(self, head: object, content: Json) -> None:
        """Add a content part to the last message if that message has the same `head`, otherwise to a new message."""
        if is_mapping(head) and content.get("type") == "output_text" and self._send_ids:
            content.setdefault("annotations", [])
        if self._last_message is not None and self._last_message[0] == head:
            self._last_message[1].append(content)
            return
        contents: list[Json] = [content]
        self._last_message = head, contents
        if not is_mapping(head):
            self._items.append({"role": "assistant", "content": contents})
            return
        message: Json = {"type": "message", "role": "assistant", "status": "completed", **head, "content": contents}
        if not self._send_ids:
            message.pop("id", None)
        self._items.append(message)

    def _reasoning(self, part: Reasoning) -> Json | None:
        """Return the request item for `part`, or `None` if the reasoning is not sent back."""
        stored = own_data(part.opaque, self._dialect.provider).get("item")
        if not is_mapping(stored) or self._dialect.reasoning_replay == "never":
            return None
        item: Json = {"type": "reasoning", "summary": [], **stored}
        if part.signature is not None:
            item["encrypted_content"] = part.signature
        if not self._send_ids:
            item.pop("id", None)
            if part.signature is None and not item.get("content"):
                return None  # without storage, the server does not have the item
        return item

    def _file(self, file: File) -> Json:
        """Return the request item for a file: the `image_generation_call` that created it, or a user message."""
        stored = own_data(file.opaque, self._dialect.provider).get("item")
        if is_mapping(stored) and file.data is not None:
            return {**stored, "result": f"{stored.get('result', '')}{base64.b64encode(file.data).decode()}"}
        # Assistant messages cannot contain files. A file of another model is sent as a user message.
        return {"type": "message", "role": "user", "content": [file_part(file, self._dialect)]}
