"""A loopback server that is much faster than any client: it recognises the path and writes bytes made beforehand."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast

from streams import STREAMS, chunked

STEPS = 5
"""Answers with calls before the one without, on `/loop`."""


def _http(body: bytes, kind: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def _completion(message: dict[str, object], finish: str) -> bytes:
    data = {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1,
        "model": "bench",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    return _http(json.dumps(data).encode(), "application/json")


FUNCTION = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
TEXT = _completion({"content": "The Loire, the Rhône and the Seine."}, "stop")
CALLS = _completion(
    {
        "content": None,
        "tool_calls": [{"id": f"call_{n}", "type": "function", "function": FUNCTION} for n in range(4)],
    },
    "tool_calls",
)
ANSWERS = {path: chunked(events()) for path, events in STREAMS.items()}


class _Server(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = b""
        self._asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            path = head.split(b" ", 2)[1]
            if stream := ANSWERS.get(path[: path.find(b"/", 1)]):
                for piece in stream:
                    self._transport.write(piece)
            elif path.startswith(b"/loop"):
                self._asked = self._asked % (STEPS + 1) + 1
                self._transport.write(TEXT if self._asked > STEPS else CALLS)
            else:
                self._transport.write(TEXT)


async def _main() -> None:
    server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
