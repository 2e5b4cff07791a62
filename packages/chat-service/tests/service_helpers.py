"""Helpers of the service tests: an agent with a tool that needs approval, and a service on a real socket."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import uvicorn
from anyio.abc import SocketStream
from chat_agents import AgentConfig, AgentEngine, AgentFlow, PromptFlow
from chat_core import FunctionCall, Paused, RequireApproval, ScopedCollection, ToolCollection
from chat_core.approvals import MayDecide, Principal, owner_may_decide
from chat_core.messages import Turn
from chat_core.provider import ProviderMeta
from chat_core.testing import Answer, ScriptedProvider
from chat_inbox.__main__ import listen
from chat_service import BearerTokens, Service, ServiceSettings, hash_token
from chat_service.context import ServiceContext
from chat_service.live_text import LiveText
from chat_service.memory_routes import UserMemory
from chat_service.session_routes import CloseJobs
from chat_service.signals import Signals
from chat_store import ConversationMeta, ConversationStore, Job

WAIT = 30
"""Timeout in seconds for events that must happen."""
UNKNOWN_ID = "6b1e0a4c-5d0f-4c39-9f0e-2a7d8f6b3c11"
ANA, BO, PROMETHEUS = "the token of ana", "the token of bo", "the token of prometheus"
TOKENS = BearerTokens(
    {
        hash_token(ANA): Principal("ana"),
        hash_token(BO): Principal("bo"),
        hash_token(PROMETHEUS): Principal("prometheus", frozenset({"metrics"})),
    }
)
CALL = FunctionCall("pay", {"to": "Bo", "cents": 500}, id="call_1")


class Bank:
    """A tool that pays, after an approval, and the payments."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.tools = ToolCollection()
        self.tools.tool(self.pay)

    def pay(self, to: str, cents: int) -> str:
        """Pay somebody."""
        self.paid.append(f"{cents} to {to}")
        return f"paid {cents} cents to {to}"

    def flow(self) -> AgentFlow[Paused]:
        def policy(call: FunctionCall, meta: object) -> RequireApproval:
            del call, meta
            return RequireApproval()

        return PromptFlow("clerk", "You are a clerk.", [ScopedCollection(self.tools, policy)])


def no_jobs(_meta: ConversationMeta) -> Sequence[Job]:
    return ()


def build_service(
    store: ConversationStore,
    model: Any,
    *,
    bank: Bank | None = None,
    flow: AgentFlow[Any] | None = None,
    may_decide: MayDecide = owner_may_decide,
    close_jobs: CloseJobs = no_jobs,
    settings: ServiceSettings | None = None,
    memory: UserMemory | None = None,
    secret: bytes | None = None,
) -> Service:
    engine = AgentEngine(model, AgentConfig())
    return Service(
        engine,
        flow or (bank or Bank()).flow(),
        store,
        authenticate=TOKENS,
        may_decide=may_decide,
        close_jobs=close_jobs,
        settings=settings or ServiceSettings(poll_seconds=0.2),
        memory=memory,
        secret=secret,
    )


def build_context(store: ConversationStore, settings: ServiceSettings) -> ServiceContext:
    """Return the context of a service without a worker."""
    signals = Signals(store)
    engine = AgentEngine(scripted(), AgentConfig())
    return ServiceContext(engine, Bank().flow(), store, owner_may_decide, settings, signals, LiveText(signals))


@asynccontextmanager
async def serving(service: Service) -> AsyncGenerator[Client]:
    """Serve a service on a free port of 127.0.0.1, and return a client."""
    listener = listen(0)
    server = uvicorn.Server(uvicorn.Config(service, log_level="warning", ws="websockets-sansio"))
    port = listener.getsockname()[1]
    async with anyio.create_task_group() as group:
        group.start_soon(_serve, server, listener)
        try:
            yield Client(port)
        finally:
            server.should_exit = True


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    with listener:
        await server.serve(sockets=[listener])


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.body))


@dataclass
class Event:
    """A server-sent event."""

    name: str
    data: dict[str, Any]
    id: str | None = None


@dataclass
class Client:
    """A client that speaks HTTP/1.1 on a socket of its own for each request."""

    port: int
    token: str | None = ANA
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def as_user(self, token: str | None) -> Client:
        return Client(self.port, token)

    async def request(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        with anyio.fail_after(WAIT):
            async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
                await self._send(stream, method, path, body, headers or {})
                reader = Reader(stream)
                status, found = await reader.head()
                content = b"".join([chunk async for chunk in reader.body(found)])
        return Reply(status, found, content)

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.request("GET", path, headers=headers)

    async def post(self, path: str, body: object = None, **headers: str) -> Reply:
        return await self.request("POST", path, body, headers=headers)

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[AsyncIterator[Event]]:
        with anyio.fail_after(WAIT):
            async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
                await self._send(stream, method, path, body, headers or {})
                reader = Reader(stream)
                status, found = await reader.head()
                assert (status, found["content-type"]) == (200, "text/event-stream; charset=utf-8")
                yield read_events(reader.body(found))

    @asynccontextmanager
    async def raw_stream(self, method: str, path: str, body: object = None) -> AsyncGenerator[AsyncIterator[bytes]]:
        with anyio.fail_after(WAIT):
            async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
                await self._send(stream, method, path, body, {})
                reader = Reader(stream)
                status, found = await reader.head()
                assert status == 200, found
                yield reader.body(found)

    async def events(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> list[Event]:
        async with self.stream(method, path, body, headers=headers) as events:
            return [event async for event in events]

    async def _send(
        self, stream: SocketStream, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> None:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"host": f"127.0.0.1:{self.port}", "connection": "close", "content-length": str(len(content))}
        if self.token is not None:
            fields["authorization"] = f"Bearer {self.token}"
        if body is not None:
            fields["content-type"] = "application/json"
        fields |= self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
        await stream.send(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + content)


class Reader:
    """A reader of one response."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._buffer = b""

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._until(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in [line.partition(":") for line in lines[1:]]}
        return int(lines[0].split()[1]), headers

    async def body(self, headers: Mapping[str, str]) -> AsyncGenerator[bytes]:
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await self._until(b"\r\n"), 16):
                yield (await self._exactly(size + 2))[:-2]
        elif length := int(headers.get("content-length", 0)):
            yield await self._exactly(length)

    async def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._buffer += await self._stream.receive()
        found, _, self._buffer = self._buffer.partition(end)
        return found

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._buffer += await self._stream.receive()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Event]:
    buffer = b""
    async for chunk in chunks:
        buffer += chunk
        while b"\n\n" in buffer:
            block, _, buffer = buffer.partition(b"\n\n")
            fields = dict([line.split(": ", 1) for line in block.decode().splitlines() if not line.startswith(":")])
            if "event" in fields:
                yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))


def names(events: Sequence[Event]) -> list[str]:
    return [event.name for event in events]


def text_of(events: Sequence[Event]) -> str:
    """Return the text that a client shows. After a reset, pieces since the last event of another type are discarded."""
    text = kept = ""
    for event in events:
        if event.name == "reset":
            text = kept
        elif event.name == "text":
            text += event.data["content"]
        else:
            kept = text
    return text


def approve(waiting: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    names = ("id", "arguments", "revision")
    return {"decisions": [{"action": "approve", **{name: wait[name] for name in names}} for wait in waiting]}


def scripted(*script: Any) -> ScriptedProvider:
    return ScriptedProvider(*(script or (["I will ", "pay. ", CALL], ["It is ", "paid."])), by_history=True)


def failing(error: Exception) -> Answer:
    """An answer whose request raises an exception that is not a `ChatError`."""

    async def fail() -> None:
        raise error

    return Answer(before=fail)


class SteppedModel:
    """A scripted model whose stream stops after some pieces until the test lets it continue.

    Attributes:
        reached: set when the stream has stopped.
        go_on: lets the stream go on.
        open_streams: number of streams that are open.
    """

    def __init__(self, inner: ScriptedProvider | SteppedModel, after: int) -> None:
        self._inner = inner
        self._after = after
        self.reached = anyio.Event()
        self.go_on = anyio.Event()

    @property
    def metadata(self) -> ProviderMeta:
        return self._inner.metadata

    @property
    def open_streams(self) -> int:
        return self._inner.open_streams

    async def complete(self, *arguments: Any) -> Turn:
        return await self._inner.complete(*arguments)

    @asynccontextmanager
    async def stream(self, *arguments: Any) -> AsyncGenerator[SteppedStream]:
        async with self._inner.stream(*arguments) as stream:
            yield SteppedStream(stream, self)

    async def stop(self, number: int) -> None:
        """Wait if this is the piece after which the stream stops."""
        if number == self._after:
            self.reached.set()
            await self.go_on.wait()


class SteppedStream:
    def __init__(self, inner: Any, model: SteppedModel) -> None:
        self._inner = inner
        self._model = model

    async def __aiter__(self) -> AsyncIterator[Sequence[Any]]:
        number = 0
        async for deltas in self._inner:
            await self._model.stop(number)
            yield deltas
            number += 1

    def close(self) -> Turn:
        return cast("Turn", self._inner.close())

    def partial(self) -> Turn:
        return cast("Turn", self._inner.partial())
