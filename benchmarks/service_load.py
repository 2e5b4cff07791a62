"""Benchmark of a service with many open event streams, compared with a bare Starlette application.

Usage: python benchmarks/service_load.py [--streams N] [--runs N] [--pieces N] [--period SECONDS] [--rounds N] [--json]

One process serves the runs and all their streams with uvicorn, and another process reads the streams. The model of a
run writes a piece of text in each period, with the time in it, so that the reader knows the latency of each piece. The
bare application has no engine and no store: it sends the same pieces in the same frames at the same times. Both are
measured in turns, in new processes, in CPU time of the server between two pieces in the middle of the runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import statistics
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self
from uuid import uuid4

from measure import Process

SERVERS: Final = ("service", "bare")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
WARM_UP: Final = 2
"""Pieces of each run before the measurement begins."""
PIECE: Final = re.compile(rb"<(\d{20})>")
LONGEST_PIECE: Final = 64
SPARE_WORKERS: Final = 8
"""Workers of the service that wait for further runs."""
BODY: Final = b'{"message": "Go."}'
HEADERS: Final = b"host: 127.0.0.1\r\nauthorization: Bearer token\r\ncontent-type: application/json\r\n"


@dataclass(frozen=True, slots=True)
class Load:
    """The size of the work.

    Attributes:
        streams: number of open streams.
        runs: number of runs. Each run has the same number of streams.
        pieces: number of pieces of text that the model writes in a run.
        period: time between two pieces of a run, in seconds.
    """

    streams: int
    runs: int
    pieces: int
    period: float

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> Self:
        """Return the load that the command line asks for."""
        return cls(options.streams, options.runs, options.pieces, options.period)

    @property
    def measured_events(self) -> int:
        """Number of events that all streams send between the two measurements of the CPU time."""
        return self.streams * (self.pieces - WARM_UP - 1)


# --- The servers -------------------------------------------------------------------------------------------------


class Pace:
    """The times at which the runs of a server write their pieces, and the CPU time of the server at two of them."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.ready = asyncio.Event()
        self.started = asyncio.Event()
        self.cpu: list[float] = []
        self._started_at = 0.0
        self._runs = 0

    async def start(self) -> None:
        """Let all runs write their pieces as soon as all of them have begun."""
        await self.ready.wait()
        self._started_at = time.monotonic()
        self.started.set()

    async def pieces(self) -> AsyncIterator[str]:
        """Yield the pieces of the next run. The runs are spread evenly over the period."""
        load, number = self.load, self._runs
        self._runs += 1
        if self._runs == load.runs:
            self.ready.set()
        await self.started.wait()
        for piece in range(load.pieces):
            due = self._started_at + load.period * (1 + piece + number / load.runs)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if number == 0 and piece in {WARM_UP, load.pieces - 1}:
                self.cpu.append(time.process_time())
            yield f"<{time.monotonic_ns():020}> and a few words. "

    def report(self) -> dict[str, object]:
        """Return the resident memory of the process in bytes, and the CPU time of the measured events in seconds."""
        resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE
        return {"resident": resident, "cpu": self.cpu[1] - self.cpu[0] if len(self.cpu) > 1 else 0.0}


class PacedModel:
    """A model whose streams write the pieces of a `Pace`."""

    def __init__(self, pace: Pace) -> None:
        from chat_core import ProviderMeta

        self.metadata = ProviderMeta("paced", "m")
        self._pace = pace

    async def complete(self, *_: object) -> Any:  # noqa: ANN401 - never returns
        """Refuse the request: the runs of a service are streamed."""
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, *_: object) -> AsyncGenerator[PacedStream]:
        """Open a stream of pieces."""
        yield PacedStream(self._pace)


class PacedStream:
    """A stream of pieces."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._texts: list[str] = []

    async def __aiter__(self) -> AsyncIterator[Sequence[Any]]:
        """Yield each piece as a delta."""
        from chat_core import TextDelta

        async for text in self._pace.pieces():
            self._texts.append(text)
            yield [TextDelta(text)]

    def close(self) -> Any:  # noqa: ANN401 - a turn
        """Return the whole turn."""
        from chat_core import Text, Turn

        return Turn([Text("".join(self._texts))], finish_reason="stop")

    partial = close


@asynccontextmanager
async def service(pace: Pace, folder: str) -> AsyncGenerator[Any]:
    """Open a service with a SQLite store in `folder`."""
    from chat_agents import AgentConfig, AgentEngine, PromptFlow
    from chat_core.approvals import Principal, owner_may_decide
    from chat_service import BearerTokens, Service, ServiceSettings, hash_token
    from chat_store import SqliteStore

    model: Any = PacedModel(pace)
    workers = pace.load.runs + SPARE_WORKERS
    settings = ServiceSettings(workers=workers, requests_per_minute=0, address_requests_per_minute=0)
    tokens = BearerTokens({hash_token("token"): Principal("ana")})
    async with SqliteStore(str(Path(folder) / "sessions.db")) as store:
        app = Service(
            AgentEngine(model, AgentConfig()),
            PromptFlow("assistant", "Be brief."),
            store,
            authenticate=tokens,
            may_decide=owner_may_decide,
            settings=settings,
        )
        async with app:
            yield app


class BareRun:
    """The frames of a run of the bare application, which its streams send."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.is_done = False
        self._news = asyncio.Event()

    async def write(self, pace: Pace) -> None:
        """Write the pieces of the run."""
        async for text in pace.pieces():
            number = len(self.frames) + 1
            data = json.dumps({"content": text})
            self.frames.append(f"id: 0f1e2d3c-1-0.1.1.{number}\nevent: text\ndata: {data}\n\n".encode())
            self._wake()
        self.is_done = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def follow(self) -> AsyncGenerator[bytes]:
        """Yield the frames of the run."""
        sent = 0
        yield b"event: session\ndata: {}\n\n"
        while True:
            for frame in self.frames[sent:]:
                yield frame
                sent += 1
            if sent == len(self.frames):
                if self.is_done:
                    break
                await self._news.wait()
        yield b"event: done\ndata: {}\n\n"


@asynccontextmanager
async def bare(pace: Pace, _folder: str) -> AsyncGenerator[Any]:
    """Open a Starlette application with the routes for messages and streams, and nothing else."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    runs: dict[str, BareRun] = {}

    def respond(run_id: str) -> StreamingResponse:
        headers = {"x-run-id": run_id}
        return StreamingResponse(runs[run_id].follow(), headers=headers, media_type="text/event-stream")

    async with asyncio.TaskGroup() as group:

        async def start(request: Request) -> StreamingResponse:
            await request.body()
            run_id = str(uuid4())
            runs[run_id] = BareRun()
            group.create_task(runs[run_id].write(pace))
            return respond(run_id)

        async def follow(request: Request) -> StreamingResponse:
            return respond(request.path_params["run"])

        yield Starlette(
            routes=[
                Route("/api/v1/chat/stream", start, methods=["POST"]),
                Route("/api/v1/runs/{run}/events", follow),
            ]
        )


async def serve(name: str, load: Load) -> None:
    """Serve an application and two routes for the reader until the process is killed. Print the port."""
    import uvicorn
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.types import Receive, Scope, Send

    pace = Pace(load)
    listener = socket.create_server(("127.0.0.1", 0), backlog=load.streams)
    print(listener.getsockname()[1], flush=True)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        app = await stack.enter_async_context({"service": service, "bare": bare}[name](pace, folder))

        async def entry(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] not in {"/go", "/report"}:
                await app(scope, receive, send)
                return
            if Request(scope).url.path == "/go":
                await pace.start()
            await JSONResponse(pace.report())(scope, receive, send)

        config = uvicorn.Config(entry, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=600)
        await uvicorn.Server(config).serve(sockets=[listener])


# --- The reader --------------------------------------------------------------------------------------------------


class Stream(asyncio.Protocol):
    """A connection that reads one response, and notes the latency of each piece in seconds."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        self.size = 0
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        """Find the pieces in the data."""
        now = time.monotonic_ns()
        self.size += len(data)
        text, end = self._tail + data, 0
        if not self.head.done():
            if b"\r\n\r\n" not in text:
                self._tail = text
                return
            self.head.set_result(text)
        for found in PIECE.finditer(text):
            self.latencies.append((now - int(found[1])) / 1e9)
            end = found.end()
        # A piece or the last event can be divided between two reads.
        self._tail = text[max(end, len(text) - LONGEST_PIECE) :]
        if b"event: done" in text or b"\r\n0\r\n\r\n" in text:
            self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the stream."""
        self.ended.set()
        if not self.head.done():
            self.head.set_exception(exc or ConnectionResetError())


async def open_stream(port: int, method: bytes, path: bytes, body: bytes = b"") -> Stream:
    """Send a request on a new connection, and return its stream when the head of the response has arrived."""
    transport, stream = await asyncio.get_running_loop().create_connection(Stream, "127.0.0.1", port)
    length = b"content-length: %d\r\n\r\n" % len(body)
    transport.write(b"%s %s HTTP/1.1\r\n%s%s%s" % (method, path, HEADERS, length, body))
    head = await stream.head
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    return stream


async def ask(port: int, path: str) -> dict[str, Any]:
    """Return the response of the server to a request of this benchmark."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET %s HTTP/1.1\r\n%sconnection: close\r\n\r\n" % (path.encode(), HEADERS))
    _, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    found: dict[str, Any] = json.loads(body)
    return found


async def read(port: int, load: Load) -> None:
    """Open all streams, read them to their ends, and print a `Sample` as JSON."""
    first = [await open_stream(port, b"POST", b"/api/v1/chat/stream", BODY) for _ in range(load.runs)]
    ids = [re.findall(rb"x-run-id: (\S+)", await run.head)[0] for run in first]
    paths = [b"/api/v1/runs/%s/events" % run_id for run_id in ids]
    before = await ask(port, "/report")
    more = [await open_stream(port, b"GET", paths[n % load.runs]) for n in range(load.streams - load.runs)]
    opened = await ask(port, "/go")
    for stream in (*first, *more):
        await stream.ended.wait()
    after = await ask(port, "/report")
    latencies = sorted([latency for stream in (*first, *more) for latency in stream.latencies])
    if len(latencies) != load.streams * load.pieces:
        msg = f"{load.streams * load.pieces} pieces were expected, and {len(latencies)} arrived"
        raise RuntimeError(msg)
    grown = (opened["resident"] - before["resident"]) / (load.streams - load.runs)
    sample = Sample(
        after["cpu"] / load.measured_events * 1e6,
        grown / 1024,
        statistics.median(latencies) * 1000,
        latencies[int(len(latencies) * 0.99)] * 1000,
        sum([stream.size for stream in (*first, *more)]) / len(latencies),
    )
    print(json.dumps(asdict(sample)), flush=True)


# --- The measurement ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one server.

    Attributes:
        cpu: CPU time of the server for each event, in microseconds.
        memory: resident memory of each further stream of a run, in KiB.
        median: median of the latencies of the pieces, in milliseconds.
        worst: 99th percentile of the latencies, in milliseconds.
        size: bytes of each event with its framing.
    """

    cpu: float
    memory: float
    median: float
    worst: float
    size: float


def measure(name: str, words: Sequence[str]) -> Sample:
    """Measure a server once, in new processes."""
    with Process(sys.executable, __file__, *words, f"--serve={name}") as server:
        port = server.read_line()
        with Process(sys.executable, __file__, *words, f"--read={port}") as reader:
            return Sample(**json.loads(reader.read_line()))


def spread(values: Sequence[float], digits: int) -> str:
    """Return the median, minimum and maximum of some values as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--pieces", type=int, default=24)
    parser.add_argument("--period", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print each round as JSON")
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--read", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    load = Load.from_options(options)
    if load.streams % load.runs or load.pieces < WARM_UP + 2:
        parser.error(f"--streams must be a multiple of --runs, and --pieces at least {WARM_UP + 2}")
    if options.serve or options.read:
        asyncio.run(serve(options.serve, load) if options.serve else read(options.read, load))
        return
    words = [f"--{name}={value}" for name, value in asdict(load).items()]
    rounds: list[dict[str, Sample]] = []
    for _ in range(options.rounds):
        rounds.append({name: measure(name, words) for name in SERVERS})
        if options.json:
            print(json.dumps({name: asdict(sample) for name, sample in rounds[-1].items()}), flush=True)
    if options.json:
        return
    for name in SERVERS:
        samples = [each[name] for each in rounds]
        print(
            f"{name:8} {spread([item.cpu for item in samples], 1)} µs and {samples[0].size:.0f} bytes for each event, "
            f"{spread([item.memory for item in samples], 1)} KiB for each stream, "
            f"latency {spread([item.median for item in samples], 1)} ms, "
            f"99th percentile {spread([item.worst for item in samples], 1)} ms"
        )
    print(f"CPU time compared with bare: {spread([each['service'].cpu / each['bare'].cpu for each in rounds], 2)}")


if __name__ == "__main__":
    main()
