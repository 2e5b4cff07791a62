"""Chunks of the UI message stream, version 1, and parts of UI messages."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final, TypeAlias

from chat_core import Completed, Data, File, Messages, Rejected, Tool, Wait
from chat_core.json import dump_bytes

from chat_streams.client_texts import outcome_text
from chat_streams.open_waits import wait_key

Json: TypeAlias = dict[str, object]
HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
"""Headers of a response whose body is a UI message stream."""
DONE: Final = b"data: [DONE]\n\n"
"""Last bytes of every UI message stream."""


def chunk(kind: str, **fields: object) -> bytes:
    """Return one chunk as a server-sent event.

    Args:
        kind: the `type` of the chunk.
        fields: the other fields, with the names of the protocol.
    """
    return send_part({"type": kind, **fields})


def send_part(part: Mapping[str, object]) -> bytes:
    """Return a chunk, or a part of a UI message that is also a chunk, as a server-sent event."""
    return b"data: " + dump_bytes(part) + b"\n\n"


def call_id(path: tuple[str, ...]) -> str:
    """Return the id that identifies a tool call for the client.

    Args:
        path: call ids from the outermost call in the stored conversation to this one.
    """
    return "/".join(path)


def approval_fields(messages: Messages, wait: Wait) -> Json:
    """Return the fields of a request to approve a call.

    The descriptor contains the deadline, if there is one, and `interrupted` if the call may already have taken effect.

    Args:
        messages: the conversation.
        wait: the waiting call.
    """
    fields: Json = {"approvalId": wait_key(messages, wait), "toolCallId": call_id(wait.path)}
    descriptor: Json = {} if wait.expires_at is None else {"expiresAt": wait.expires_at.isoformat()}
    if wait.kind == "interrupted":
        descriptor["interrupted"] = True
    if descriptor:
        fields["approvalDescriptor"] = descriptor
    return fields


def waiting_fields(wait: Wait) -> Json:
    """Return the fields that describe a call that waits for something other than the user of the client."""
    fields: Json = {"toolCallId": call_id(wait.path), "toolName": wait.name, "kind": wait.kind}
    if wait.expires_at is not None:
        fields["expiresAt"] = wait.expires_at.isoformat()
    if wait.at is not None:
        fields["at"] = wait.at.isoformat()
    return fields


def outcome_chunks(id: str, tool: Tool) -> bytes:
    """Return the chunks for the outcome of a resolved call.

    Args:
        id: id by which the client knows the call.
        tool: the completed, failed or rejected call.
    """
    match tool.status:
        case Completed(result, files):
            output = chunk("tool-output-available", toolCallId=id, output=result)
            return output + b"".join([file_chunk(file) for file in files])
        case Rejected(source="person"):
            return chunk("tool-output-denied", toolCallId=id)
        case _:
            return chunk("tool-output-error", toolCallId=id, errorText=outcome_text(tool))


def file_url(file: File) -> str | None:
    """Return the URL of a file, a data URL with its content, or None for a file that is stored at a provider."""
    if file.data is not None:
        return f"data:{file.mime};base64,{base64.b64encode(file.data).decode()}"
    return file.url


def file_chunk(file: File) -> bytes:
    """Return the chunk for a file, or empty bytes for a file that only its provider can read."""
    url = file_url(file)
    return b"" if url is None else chunk("file", url=url, mediaType=file.mime)


def data_chunk(data: Data) -> bytes:
    """Return the chunk for `data` of a tool. A `File` payload becomes a file chunk.

    If `data.keep` is false, other data is marked as `transient`, so that the client does not add it to the message.
    """
    if isinstance(data.payload, File):
        return file_chunk(data.payload)
    if data.keep:
        return chunk(f"data-{data.type}", data=data.payload)
    return chunk(f"data-{data.type}", data=data.payload, transient=True)
