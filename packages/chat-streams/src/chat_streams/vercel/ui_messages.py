"""Conversion of a stored conversation to UI messages, or to chunks for a client that reconnects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

from chat_core.messages import (
    Approved,
    Completed,
    Data,
    Failed,
    File,
    Messages,
    Reasoning,
    Rejected,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.response import Wait

from chat_streams.client_texts import outcome_text
from chat_streams.open_waits import Decider, StoredMessages, messages_of, open_waits
from chat_streams.shown_messages import shown_messages
from chat_streams.vercel.chunks import approval_fields, call_id, chunk, file_url, send_part
from chat_streams.vercel.sources import find_sources

Json: TypeAlias = dict[str, object]
_Waits: TypeAlias = Mapping[tuple[str, ...], Wait]


def ui_messages(target: Messages | StoredMessages, decider: Decider, /) -> list[Json]:
    """Return a conversation as UI messages, for the option `messages` of `useChat`.

    Instructions, turns of the engine, progress reports and data without `Data.keep` are left out.

    Args:
        target: the conversation.
        decider: the user of the client. Only requests for approval that this user may decide can be answered.
    """
    messages = messages_of(target)
    waits = {wait.path: wait for wait in open_waits(target, decider)}
    found: list[Json] = []
    for message in shown_messages(messages, join_model_turns=True):
        if message.role == "user":
            found.append({"id": message.id, "role": "user", "parts": [*_simple_parts(message.turns[0])]})
        else:
            parts = [part for turn in message.turns for part in _model_parts(messages, turn, waits)]
            found.append({"id": message.id, "role": "assistant", "parts": parts})
    return found


def stored_chunks(target: Messages | StoredMessages, decider: Decider, /) -> bytes:
    """Return the chunks of the last message, or empty bytes if it is not an assistant message.

    A client that reconnects to a run rebuilds the message from its first chunk. Call this for the conversation as it
    was when the run began, and send the chunks before those of the run.

    Args:
        target: the conversation.
        decider: the user of the client.
    """
    found = ui_messages(target, decider)
    if not found or found[-1]["role"] != "assistant":
        return b""
    parts = cast("list[Json]", found[-1]["parts"])
    rest = [data for number, part in enumerate(parts) for data in _part_chunks(f"stored-{number}", part)]
    return chunk("start", messageId=found[-1]["id"]) + b"".join(rest)


def _simple_parts(turn: Turn) -> Iterator[Json]:
    """Yield the texts, reasoning, values and files of a turn."""
    for part in turn.parts:
        match part:
            case Text(text):
                yield {"type": "text", "text": text, "state": "done"}
            case Reasoning(text):
                yield {"type": "reasoning", "text": text, "state": "done"}
            case Structured(value):
                yield {"type": "data-structured", "data": value}
            case File() if (url := file_url(part)) is not None:
                yield _file_part(part, url)
            case _:
                pass


def _model_parts(messages: Messages, turn: Turn, waits: _Waits) -> Iterator[Json]:
    yield {"type": "step-start"}
    yield from _simple_parts(turn)
    for tool in turn.tools:
        yield from _tool_parts(messages, (tool.id,), tool, waits)
    yield from find_sources(turn.parts)
    for tool in turn.tools:
        yield from _result_parts(tool)


def _file_part(file: File, url: str) -> Json:
    part: Json = {"type": "file", "mediaType": file.mime, "url": url}
    return part if file.name is None else {**part, "filename": file.name}


def _result_parts(tool: Tool) -> Iterator[Json]:
    """Yield the data with `Data.keep` and the files of a result."""
    for data in tool.data:
        yield from _data_parts(data)
    for file in tool.status.files if isinstance(tool.status, Completed) else ():
        if (url := file_url(file)) is not None:
            yield _file_part(file, url)


def _data_parts(data: Data) -> Iterator[Json]:
    if not isinstance(data.payload, File):
        yield {"type": f"data-{data.type}", "data": data.payload}
    elif (url := file_url(data.payload)) is not None:
        yield _file_part(data.payload, url)


def _tool_parts(messages: Messages, path: tuple[str, ...], tool: Tool, waits: _Waits) -> Iterator[Json]:
    """Yield the part for a call and, while the call is unresolved, the parts for the calls of its inner chat."""
    nested = len(path) > 1
    part: Json = {"type": "dynamic-tool", "toolName": tool.name} if nested else {"type": f"tool-{tool.name}"}
    part |= {"toolCallId": call_id(path), "input": tool.effective_arguments}
    wait = waits.get(path)
    match tool.status:
        case Completed(result):
            part |= {"state": "output-available", "output": result}
        case Rejected(reason, source="person"):
            denied: Json = {"id": call_id(path), "approved": False}
            part |= {"state": "output-denied", "approval": denied if reason is None else {**denied, "reason": reason}}
        case Failed() | Rejected():
            part |= {"state": "output-error", "errorText": outcome_text(tool)}
        case Approved():
            part |= {"state": "approval-responded", "approval": {"id": call_id(path), "approved": True}}
        case _ if wait is not None and wait.kind in {"approval", "interrupted"}:
            fields = approval_fields(messages, wait)
            approval: Json = {"id": fields["approvalId"]}
            if (descriptor := fields.get("approvalDescriptor")) is not None:
                approval["descriptor"] = descriptor
            part |= {"state": "approval-requested", "approval": approval}
        case _:
            part["state"] = "input-available"
    yield part
    for inner in _inner_tools(tool):
        yield from _tool_parts(messages, (*path, inner.id), inner, waits)


def _inner_tools(tool: Tool) -> Sequence[Tool]:
    if tool.resolved or tool.inner is None:
        return ()
    return [inner for content in tool.inner for inner in content.tools]


def _part_chunks(id: str, part: Json) -> Iterator[bytes]:
    kind = str(part["type"])
    if kind == "step-start":
        yield chunk("start-step")
    elif kind in {"text", "reasoning"}:
        yield chunk(f"{kind}-start", id=id)
        yield chunk(f"{kind}-delta", id=id, delta=part["text"])
        yield chunk(f"{kind}-end", id=id)
    elif kind == "dynamic-tool":
        yield from _tool_chunks(part, str(part["toolName"]), {"dynamic": True})
    elif kind.startswith("tool-"):
        yield from _tool_chunks(part, kind.removeprefix("tool-"), {})
    else:
        yield send_part({name: value for name, value in part.items() if name != "filename"})


def _tool_chunks(part: Json, name: str, flags: Json) -> Iterator[bytes]:
    call = {"toolCallId": part["toolCallId"]}
    yield chunk("tool-input-available", **call, toolName=name, input=part["input"], **flags)
    if (approval := cast("Json | None", part.get("approval"))) is not None:
        request: Json = {"approvalId": approval["id"], **call}
        if "descriptor" in approval:
            request["approvalDescriptor"] = approval["descriptor"]
        yield chunk("tool-approval-request", **request)
        if "approved" in approval:
            decided = {name: approval[name] for name in ("approved", "reason") if name in approval}
            yield chunk("tool-approval-response", approvalId=approval["id"], **decided)
    if (outcome := _OUTCOMES.get(str(part["state"]))) is not None:
        kind, fields = outcome
        yield chunk(kind, **call, **{name: part[name] for name in fields})


_OUTCOMES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "output-available": ("tool-output-available", ("output",)),
    "output-error": ("tool-output-error", ("errorText",)),
    "output-denied": ("tool-output-denied", ()),
}
