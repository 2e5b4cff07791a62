"""Loopback server that is much faster than any client: it matches the path and writes prebuilt bytes.

The path is `/WORK/WHO/…`: the name of the work, the name of the client, and the path of the wire format.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final, cast

from answers import ARGUED, CROWDED, LOOP, LOOP_STREAMED, STREAMED, WHOLE, wire_of
from work import CROWDS, STEPS

PACE: Final = 0.02
"""Seconds between two events of a stream, when many streams run at once."""


class _Pacer:
    """Timer that writes one event to each of its streams per tick."""

    def __init__(self) -> None:
        self._streams: dict[asyncio.Transport, Iterator[bytes]] = {}

    def add(self, transport: asyncio.Transport, events: list[bytes]) -> None:
        """Start writing `events` to `transport`."""
        if not self._streams:
            asyncio.get_running_loop().call_later(PACE, self._tick)
        self._streams[transport] = iter(events)

    def _tick(self) -> None:
        for transport, events in [*self._streams.items()]:
            event = next(events, None)
            if event is None or transport.is_closing():
                del self._streams[transport]
            else:
                transport.write(event)
        if self._streams:
            asyncio.get_running_loop().call_later(PACE, self._tick)


class _Server(asyncio.Protocol):
    def __init__(self, pacer: _Pacer, asked: Counter[str]) -> None:
        self._buffer = bytearray()
        self._wanted = 0
        self._pacer = pacer
        self._asked = asked

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= self._wanted:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end])
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            # A long body arrives in many pieces. Skip parsing until it is complete.
            self._wanted = end + 4 + length
            if len(self._buffer) < self._wanted:
                return
            del self._buffer[: self._wanted]
            self._wanted = 0
            self._answer(head.split(b" ", 2)[1].decode())

    def _answer(self, path: str) -> None:
        path = path.partition("?")[0]
        work, who = path.split("/", 3)[1:3]
        wire = wire_of(path)
        if work in CROWDS:
            self._pacer.add(self._transport, CROWDED[work, wire])
        elif work == "stream":
            self._stream(STREAMED[wire])
        elif pieces := ARGUED.get(work):
            self._stream(pieces)
        elif work in STEPS:
            step = self._asked[f"{work}/{who}"]
            over = step == STEPS[work]
            self._asked[f"{work}/{who}"] = 0 if over else step + 1
            if work == "streamed10":
                self._stream(LOOP_STREAMED[step])
            else:
                self._transport.write(WHOLE[wire] if over else LOOP[step])
        else:
            self._transport.write(WHOLE[wire])

    def _stream(self, pieces: list[bytes]) -> None:
        # Write each event separately, as most servers do.
        for piece in pieces:
            self._transport.write(piece)


async def _main() -> None:
    loop = asyncio.get_running_loop()
    pacer, asked = _Pacer(), Counter[str]()
    server = await loop.create_server(lambda: _Server(pacer, asked), "127.0.0.1", 0, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
