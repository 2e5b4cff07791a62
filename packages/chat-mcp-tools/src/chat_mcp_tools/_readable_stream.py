"""Messages of a server that the parser of the MCP SDK refuses.

The SDK logs and drops such a line. If the line was a response, its call would wait until the timeout.
"""

from __future__ import annotations

import json
import re
from types import TracebackType
from typing import Any, Self, cast, final

from mcp import types
from mcp.shared.message import SessionMessage

UNREADABLE = "the server's response is not valid, so the result is unknown; the call may have taken effect"
"""Error message of a call whose response cannot be parsed."""

_ID = re.compile(r'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)|"id"\s*:\s*(\d+)\s*,?\s*\}\s*$')
"""The id of a response, which is its first or its last field. An id inside the result may be that of another call."""


@final
class ReadableStream:
    """Wrapper for the read stream of a transport that replaces parse errors by messages where possible."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - the SDK does not export its protocol for streams
        self._stream = stream

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or the parse error of a line that is neither a message nor a response."""
        return _message_of(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return _message_of(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        closed: bool | None = await self._stream.__aexit__(kind, error, trace)
        return closed


def _message_of(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """Return the message of a line that the SDK refused. Return other items unchanged.

    JavaScript writes escapes of single surrogates for a text that it cuts inside an emoji. They are replaced by `?`.
    """
    if isinstance(item, SessionMessage):
        return item
    details: list[dict[str, object]] = getattr(item, "errors", list)()  # of a ValidationError of pydantic
    line = details[0]["input"] if details else None
    if isinstance(line, dict):  # JSON that is not a message
        fields = cast("dict[str, object]", line)
        call_id = fields.get("id")
        return _failure(call_id) if isinstance(call_id, int) and "method" not in fields else item
    if not isinstance(line, str):
        return item
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except (ValueError, RecursionError):
        pass  # not JSON, not a message, nested too deeply, or with a number that is too long
    if ('"result"' in line or '"error"' in line) and (found := _ID.search(line)) is not None:
        return _failure(int(found[1] or found[2]))
    return item


def _failure(call_id: int) -> SessionMessage:
    error = types.ErrorData(code=types.PARSE_ERROR, message=UNREADABLE)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=call_id, error=error))
