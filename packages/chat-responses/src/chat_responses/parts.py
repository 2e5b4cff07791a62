"""From the parts of a turn to the items of the wire.

What only this provider understands travels in `Opaque` data that carries its name:

- on a `Text` or a `File`, `part` holds further fields of the content part (`{"part": {"annotations": …}}`), and `item`
  those of the message that the model said it in: consecutive texts of one item are one message;
- on a `File`, `file_id` names an uploaded file and `detail` how closely it is looked at; `item` is the
  `image_generation_call` that made it, without the bytes;
- on a `Reasoning`, `item` is the whole item, but for what is encrypted, which is the signature;
- on a call, `item` holds the further fields of its item, and its `type` where that is not `function_call`;
- a `ProviderPart` of kind `refusal` or `content` is a part of a model's message, one of kind `part` one of a message
  that no model said, and any other one a whole item: its kind is the item's type, or `item`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from chat_core.json import dumps
from chat_core.messages import Completed, File, Part, ProviderPart, Reasoning, Role, Structured, Text, Tool, Turn
from chat_core.wire.parts import owned
from chat_core.wire.shapes import Json, is_mapping, mapping

from chat_responses.files import content_part, file_part, refuse
from chat_responses.options import ResponsesDialect

MCP_APPROVAL: Final = "mcp_approval"
"""The name of the call that stands for a remote tool that wants to be approved."""

LONGEST_ID: Final = 64
"""Longer ids of calls are refused. A server that gives longer ones takes them back."""

NAMELESS: Final = frozenset({"message", "compaction", "web_search_call", "local_shell_call", "reasoning"})
"""Items that a server takes without their ids. Other kinds need them, stored or not."""

NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


def plain_items(role: Role, turn: Turn, dialect: ResponsesDialect) -> list[Json]:
    """The items of a turn that no model said: a message, cut where whole items stand in it.

    Raises:
        UnsupportedPartError: this wire has no place for a part.
    """
    items: list[Json] = []
    content: list[Json] = []
    said: Json = {"role": dialect.system_role if role == "system" else "user"}
    for part in turn.parts:
        if not isinstance(part, ProviderPart):
            content.append(content_part(part, dialect))
        elif part.provider == dialect.provider and part.kind == "part":
            content.append(dict(part.data))
        elif (item := own_item(part, dialect)) is not None:
            if content:
                items.append({**said, "content": _content(content)})
                content = []
            items.append(item)
    if content:
        items.append({**said, "content": _content(content)})
    return items


def _content(parts: list[Json]) -> object:
    """Content as the wire wants it: a single text as a string, which every server takes, else a list of parts."""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts


def own_item(part: ProviderPart, dialect: ResponsesDialect) -> Json | None:
    """The whole item that a part is; `None` where it is another provider's, or none."""
    kind = part.data.get("type")
    if part.provider != dialect.provider or not isinstance(kind, str) or part.kind not in {kind, "item"}:
        return None
    item = dict(part.data)
    if not dialect.sends_ids and kind in NAMELESS:
        item.pop("id", None)
    return item


def model_items(turn: Turn, dialect: ResponsesDialect) -> list[Json]:
    """The items of a model's turn, without what became of its calls.

    Raises:
        UnsupportedPartError: this wire has no place for a part.
    """
    items = _Items(dialect, turn)
    for part in turn.parts:
        items.add(part)
    return items.build()


def outcomes(turn: Turn, dialect: ResponsesDialect) -> list[Json]:
    """What became of the calls of a model's turn, in the order of emission."""
    ids = wire_ids(turn, dialect)
    return [_outcome(tool, call_id, dialect) for tool, call_id in zip(turn.tools, ids, strict=True)]


# --- Calls -------------------------------------------------------------------------------------------------


def wire_ids(turn: Turn, dialect: ResponsesDialect) -> list[str]:
    """The ids of a turn's calls on the wire: the provider's where it tells the calls of the history apart, else ours.

    An id that this server would refuse is replaced by one that is made from it, always the same.
    """
    own = is_own(turn, dialect)
    # An id that was in the history before was replaced there by one of ours.
    return [_accepted(tool.id, own=own) for tool in turn.tools]


def is_own(turn: Turn, dialect: ResponsesDialect) -> bool:
    """Whether a turn is this provider's, or nobody's."""
    return turn.metadata is None or turn.metadata.provider in {None, dialect.provider}


def _accepted(id_: str, *, own: bool) -> str:
    if len(id_) <= LONGEST_ID or own:
        return id_
    return f"call_{sha256(id_.encode(errors='surrogatepass')).hexdigest()[:32]}"


def item_of(tool: Tool, dialect: ResponsesDialect) -> Mapping[str, object]:
    """The fields of a call's item that are kept with it."""
    return mapping(owned(tool.call.opaque, dialect.provider).get("item"))


def _call(tool: Tool, call_id: str, dialect: ResponsesDialect, *, own: bool) -> Json:
    item = dict(item_of(tool, dialect))
    kind = item.pop("type", "function_call")
    if kind == "mcp_approval_request":
        return {"type": kind, **item}
    if not dialect.sends_ids:
        item.pop("id", None)
    name = tool.name if own else NOT_IN_A_NAME.sub("_", tool.name)
    field = "input" if kind == "custom_tool_call" else "arguments"
    return {"type": kind, "call_id": call_id, "name": name, field: tool.call.text, **item}


def _outcome(tool: Tool, call_id: str, dialect: ResponsesDialect) -> Json:
    item = item_of(tool, dialect)
    kind = item.get("type")
    if kind == "mcp_approval_request":
        return _approval(tool, str(item.get("id")))
    output: object = tool.result_text()
    if files := tool.result_files:
        told = [{"type": "input_text", "text": output}] if output else []
        output = [*told, *[file_part(file, dialect) for file in files]]
    answers = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
    # A call that a program of the server made is answered to that program.
    caller = {"caller": item["caller"]} if is_mapping(item.get("caller")) else {}
    return {"type": answers, "call_id": call_id, "output": output, **caller}


def _approval(tool: Tool, request: str) -> Json:
    """The answer to a remote tool that wants to be approved. What was not approved as it was asked for is refused."""
    answer: Json = {"type": "mcp_approval_response", "approval_request_id": request}
    edited = tool.edited is not None and dict(tool.edited) != dict(tool.call.arguments)
    if isinstance(tool.status, Completed) and not edited:
        return answer | {"approve": True}
    reason = f"Ask for this instead: {dumps(dict(tool.edited or {}))}" if edited else tool.result_text()
    return answer | {"approve": False, "reason": reason}


# --- A model's turn -----------------------------------------------------------------------------------------


class _Items:
    """Gathers the parts of a model's turn into its items."""

    __slots__ = ("_dialect", "_ids", "_items", "_said", "_turn")

    def __init__(self, dialect: ResponsesDialect, turn: Turn) -> None:
        self._dialect = dialect
        self._turn = turn
        self._ids = iter(wire_ids(turn, dialect))
        self._items: list[Json] = []
        self._said: tuple[object, list[Json]] | None = None  # of the message that is last: its head, and its content

    def add(self, part: Part) -> None:
        if isinstance(part, Text):
            data = owned(part.opaque, self._dialect.provider)
            self._say(data.get("item"), {"type": "output_text", "text": part.text, **mapping(data.get("part"))})
        elif isinstance(part, Structured):
            self._say(None, {"type": "output_text", "text": dumps(part.value)})
        elif isinstance(part, ProviderPart) and part.kind in {"refusal", "content"}:
            if part.provider == self._dialect.provider:
                refusal = {"type": "refusal", "refusal": part.data.get("refusal", "")}
                content = refusal if part.kind == "refusal" else dict(mapping(part.data.get("content")))
                self._say(part.data.get("item"), content)
        elif (item := self._item(part)) is not None:
            self._items.append(item)
            self._said = None

    def _item(self, part: Part) -> Json | None:
        """The item that a part is, if it is one and may be sent."""
        match part:
            case Tool():
                return _call(part, next(self._ids), self._dialect, own=is_own(self._turn, self._dialect))
            case Reasoning():
                return self._reasoning(part)
            case ProviderPart():
                return own_item(part, self._dialect)
            case File():
                return self._file(part)
            case _:
                return refuse(part, self._dialect)

    def build(self) -> list[Json]:
        items = self._items
        # Reasoning that led to nothing, since the answer was cut there, is refused.
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        for item in items:
            if "type" not in item:
                item["content"] = _content(item["content"])
        return items

    def _say(self, head: object, content: Json) -> None:
        """Put `content` into the message of that head: the last one, if it is."""
        if is_mapping(head) and content.get("type") == "output_text" and self._dialect.sends_ids:
            content.setdefault("annotations", [])
        if self._said is not None and self._said[0] == head:
            self._said[1].append(content)
            return
        said: list[Json] = [content]
        self._said = head, said
        if not is_mapping(head):
            self._items.append({"role": "assistant", "content": said})
            return
        message: Json = {"type": "message", "role": "assistant", "status": "completed", **head, "content": said}
        if not self._dialect.sends_ids:
            message.pop("id", None)
        self._items.append(message)

    def _reasoning(self, part: Reasoning) -> Json | None:
        kept = owned(part.opaque, self._dialect.provider).get("item")
        if not is_mapping(kept) or self._dialect.reasoning_replay == "never":
            return None
        item: Json = {"type": "reasoning", "summary": [], **kept}
        if part.signature is not None:
            item["encrypted_content"] = part.signature
        if not self._dialect.sends_ids:
            item.pop("id", None)
            if part.signature is None and not item.get("content"):
                return None  # the server has forgotten it
        return item

    def _file(self, file: File) -> Json:
        kept = owned(file.opaque, self._dialect.provider).get("item")
        if is_mapping(kept) and file.data is not None:
            return {**kept, "result": f"{kept.get('result', '')}{base64.b64encode(file.data).decode()}"}
        # An assistant's message holds no files here: what another model made is shown as what the user shows.
        return {"type": "message", "role": "user", "content": [file_part(file, self._dialect)]}
