"""Run many concurrent streams over each transport: check that none loses or mixes up events, and measure the memory.

Usage: python benchmarks/many_streams.py [--streams N] [--events N] [TRANSPORT …]

The server has a process of its own, and so has each client, which stops every stream in its middle until all of them
are open. Then the memory is measured with tracemalloc and as the resident set of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chat_core.transport import Event, Transport
    from websockets.asyncio.server import ServerConnection

TRANSPORTS: Final = ("httpx", "aiohttp", "websockets")
LAST: Final = b"last"
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def words(name: str, events: int) -> list[str]:
    """Return the event data for one stream: its name and a number in each event, then a final event."""
    return [*[f"{name} {number}" for number in range(events - 1)], f"{name} {LAST.decode()}"]


# --- The server --------------------------------------------------------------------------------------------------


async def serve(events: int) -> None:
    """Speak HTTP and WebSocket until standard input ends."""
    from websockets.asyncio import server as sockets

    async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            name = (await reader.readexactly(length)).decode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for word in words(name, events):
                event = f"data: {word}\n\n".encode()
                writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                await writer.drain()
            writer.write(b"0\r\n\r\n")

    async def speak_until_left(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            await speak_http(reader, writer)
        writer.close()

    async def speak_frames(connection: ServerConnection) -> None:
        async for name in connection:
            for word in words(str(name), events):
                await connection.send(word)

    http = await asyncio.start_server(speak_until_left, "127.0.0.1", 0, backlog=1000)
    async with sockets.serve(speak_frames, "127.0.0.1", 0, compression=None, backlog=1000) as frames:
        ports = {name: http.sockets[0].getsockname()[1] for name in ("httpx", "aiohttp")}
        ports["websockets"] = next(iter(frames.sockets)).getsockname()[1]
        print(json.dumps(ports), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        os._exit(0)  # do not wait for open connections


# --- A client ----------------------------------------------------------------------------------------------------


def transport_of(name: str, streams: int) -> Transport:
    """Create a transport that allows `streams` concurrent connections."""
    if name == "httpx":
        from chat_transport_httpx import HttpxTransport

        return HttpxTransport()
    if name == "aiohttp":
        from chat_transport_aiohttp import AiohttpTransport

        return AiohttpTransport()
    from chat_transport_websockets import WebSocketTransport

    return WebSocketTransport(max_connections=streams)


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


async def listen(name: str, port: int, streams: int, events: int, *, traced: bool) -> None:
    """Read all streams, then print the bytes per stream and the number of incorrect streams as JSON."""
    from chat_core.transport import Request, Timeouts

    transport = transport_of(name, streams)
    middle = asyncio.Barrier(streams + 1)
    go_on = asyncio.Event()
    wrong: list[int] = []

    def is_last(event: Event) -> bool:
        return event.data.endswith(LAST)

    async def one(number: int, *, alone: bool = False) -> None:
        body = str(number).encode()
        request = Request("POST", "http", f"127.0.0.1:{port}", "/", (), body, Timeouts(60.0, 60.0), is_last=is_last)
        heard: list[str] = []
        async with transport.stream(request) as stream:
            async for event in stream:
                if len(heard) == events // 2 and not alone:
                    await middle.wait()
                    await go_on.wait()
                heard.append("" if alone or not event.data.startswith(body + b" ") else "right")
                if is_last(event):
                    break
        if heard.count("right") != events and not alone:
            wrong.append(number)

    await one(0, alone=True)  # create connection pools and caches before measuring
    gc.collect()
    if traced:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] if traced else resident()
    tasks = [asyncio.create_task(one(number)) for number in range(streams)]
    await middle.wait()
    after = tracemalloc.get_traced_memory()[0] if traced else resident()
    go_on.set()
    await asyncio.gather(*tasks)
    await transport.aclose()
    print(json.dumps({"bytes": (after - before) / streams, "wrong": len(wrong)}), flush=True)


# --- The measurement -----------------------------------------------------------------------------------------------


def main() -> int:
    """Measure each transport and print one line per transport."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transports", nargs="*", metavar="TRANSPORT", help=", ".join(TRANSPORTS))
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names: list[str] = asked.transports or list(TRANSPORTS)
    if unknown := set(names) - set(TRANSPORTS):
        parser.error(f"there is no transport {', '.join(sorted(unknown))} here, but {', '.join(TRANSPORTS)}")
    if asked.serve:
        asyncio.run(serve(asked.events))
        return 0
    if asked.port is not None:
        listening = listen(names[0], asked.port, asked.streams, asked.events, traced=asked.traced)
        asyncio.run(listening)
        return 0
    common = [sys.executable, __file__, "--streams", str(asked.streams), "--events", str(asked.events)]
    with subprocess.Popen([*common, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        ports: dict[str, int] = json.loads(server.stdout.readline() if server.stdout is not None else "{}")
        wrong = sum([measure(name, [*common, name, "--port", str(ports[name])], asked) for name in names])
        server.communicate("")
    return int(wrong > 0)


def measure(name: str, command: list[str], asked: argparse.Namespace) -> int:
    """Run a client with and without tracemalloc, print the results, and return the number of incorrect streams."""
    reports = [
        json.loads(subprocess.run([*command, *more], check=True, stdout=subprocess.PIPE).stdout)
        for more in (["--traced"], [])
    ]
    traced, held = [f"{each['bytes'] / 1024:.0f} KB" for each in reports]
    wrong: int = max([each["wrong"] for each in reports])
    print(
        f"{name:10}  {asked.streams} streams of {asked.events} events: {wrong} lost or crossed; "
        f"each takes {traced} as tracemalloc counts, {held} of the process"
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
