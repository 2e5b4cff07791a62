"""The server that the npm package `ai` talks to: `python -m tests.servers.vercel_server [NODE_MODULES]`.

The first segment of a path names a scenario: a script of the model, and tools with their policy. The header `x-user` is
the name of the user. A run continues if its client disconnects, and the client may reconnect.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, final

import anyio
import uvicorn
from anyio.abc import TaskGroup
from chat_core import (
    ChatBuilder,
    ClientTools,
    Data,
    Defer,
    Execute,
    File,
    FunctionCall,
    OverloadedError,
    Paused,
    ProviderPart,
    Reasoning,
    RequireApproval,
    Retry,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolContext,
    ToolOutput,
)
from chat_core.approvals import Principal, owner_may_decide
from chat_core.testing import Answer, ScriptedProvider
from chat_inbox.__main__ import listen
from chat_store import MemoryStore
from chat_streams.client_input import conversation_id
from chat_streams.encoding import send_run
from chat_streams.errors import ClientInputError
from chat_streams.open_waits import Decider
from chat_streams.vercel import (
    HEADERS,
    VercelEncoder,
    VercelRequest,
    apply_request,
    read_request,
    stored_chunks,
    ui_messages,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from .agents import build_agent

PNG: Final = b"\x89PNG\r\n\x1a\n"
TOOLS: Final = ToolCollection()
GATES: Final[dict[str, anyio.Event]] = {}
EFFECTS: Final[list[str]] = []


@TOOLS.tool
async def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


@TOOLS.tool
async def draw(context: ToolContext) -> ToolOutput:
    """Draw the sales."""
    context.progress("half of it")
    shown = Data("chart", {"points": [3, 5]}, keep=True)
    return ToolOutput("It is on the screen.", data=[shown, Data("toast", {"text": "drawn"})])


@TOOLS.tool
async def break_down() -> str:
    """Fail."""
    message = "the key of the database is s3cret"
    raise ValueError(message)


@TOOLS.tool
async def pay(cents: int, to: str) -> str:
    """Pay somebody."""
    EFFECTS.append(f"{cents} to {to}")
    return f"paid {cents} to {to}"


@TOOLS.tool
async def locate() -> str:
    """Find the user. The page does this."""
    raise NotImplementedError


def policy(call: FunctionCall, _meta: None) -> Execute | RequireApproval | Defer:
    if call.name == "locate":
        return Defer(timedelta(minutes=5))
    if call.name == "pay":
        return RequireApproval(timedelta(microseconds=1) if call.arguments["to"] == "late" else timedelta(hours=1))
    return Execute()


def _call(name: str, number: int = 1, **arguments: object) -> FunctionCall:
    return FunctionCall(name, arguments, id=f"call_{number}")


def _cites() -> ProviderPart:
    citation = {"type": "url_citation", "url_citation": {"url": "https://example.org/rain", "title": "Rain"}}
    return ProviderPart("scripted", "annotations", {"annotations": [citation]})


async def _wait_a_moment() -> None:
    await anyio.sleep(0.03)


async def _pass(gate: str) -> None:
    await GATES.setdefault(gate, anyio.Event()).wait()


SCRIPTS: Final[Mapping[str, Callable[[], ScriptedProvider]]] = {
    "text": lambda: _script("It rains in Nantes.", "It still rains."),
    "reasoning": lambda: _script([Reasoning("Clouds mean rain."), "It rains.", _cites(), File("image/png", data=PNG)]),
    "parallel": lambda: _script(
        ["I will look.", _call("weather", 1, city="Nantes"), _call("weather", 2, city="Brest")], "Rain in both."
    ),
    "data": lambda: _script(_call("draw"), "Here it is."),
    "failure": lambda: _script(_call("break_down"), "The tool failed."),
    "approval": lambda: _script(["I will pay.", _call("pay", cents=500, to="Maria")], "Done."),
    "late": lambda: _script(_call("pay", cents=500, to="late"), "It was too late."),
    "two": lambda: _script([_call("pay", 1, cents=1, to="Ana"), _call("pay", 2, cents=2, to="Ben")], "Both decided."),
    "frontend": lambda: _script(_call("locate"), "You are in Nantes."),
    "declared": lambda: _script(_call("color"), "It is blue."),
    "error": lambda: _script(Answer(["It will"], fail_after=1, error=OverloadedError("the key is s3cret"))),
    "reset": lambda: _script(Answer(["It will be sunny"], fail_after=2), "It rains."),
    "paced": lambda: _script(
        Answer(["I will look.", _call("weather", city="Nantes")], before=_wait_a_moment),
        Answer(["It rains."], before=_wait_a_moment),
    ),
    "cut": lambda: _script(
        ["I will look.", _call("weather", city="Nantes")], Answer(["It rains."], before=lambda: _pass("cut"))
    ),
    "resumed": lambda: _script(
        ["I will pay.", _call("pay", cents=7, to="Maria")], Answer(["It is paid."], before=lambda: _pass("resumed"))
    ),
}


def _script(*answers: object) -> ScriptedProvider:
    return ScriptedProvider(*answers)  # type: ignore[arg-type]  # answers of several types


@final
@dataclass
class Live:
    """The sent data of a run, for its client and for a client that reconnects."""

    before: bytes
    chunks: list[bytes] = field(default_factory=list[bytes])
    news: anyio.Event = field(default_factory=anyio.Event)
    ended: bool = False

    async def send(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self._tell()

    def end(self) -> None:
        self.ended = True
        self._tell()

    def _tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def read(self, *, again: bool = False) -> AsyncGenerator[bytes, None]:
        position = 0
        if again:
            yield self.before
        while True:
            while position < len(self.chunks):
                yield self.chunks[position]
                position += 1
            if self.ended:
                return
            await self.news.wait()


@final
@dataclass
class Arrived:
    """A request that will start a run."""

    scenario: str
    id: str
    read: VercelRequest
    decider: Decider
    answered: anyio.Event = field(default_factory=anyio.Event)
    refused: ClientInputError | None = None


@final
class Server:
    """Conversations in memory, one chat for each conversation's script."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.live: dict[str, Live] = {}
        self.chats: dict[str, StreamingChat[object, Paused]] = {}
        self.tasks: TaskGroup | None = None

    @asynccontextmanager
    async def lifespan(self, _app: object) -> AsyncGenerator[None, None]:
        async with anyio.create_task_group() as self.tasks:
            yield
            self.tasks.cancel_scope.cancel()

    def chat(self, scenario: str, id: str) -> StreamingChat[object, Paused]:
        if scenario == "agent" and id not in self.chats:
            self.chats[id] = build_agent(EFFECTS)
        if id not in self.chats:
            scope = ScopedCollection(TOOLS, policy)
            builder = ChatBuilder().with_model(SCRIPTS[scenario]()).with_scoped_tools(scope)
            retry = Retry(1, after_delivery=True, base=0) if scenario == "reset" else Retry(0)
            self.chats[id] = builder.with_scoped_tools(ClientTools()).with_retry(retry).build()
        return self.chats[id]

    async def post(self, request: Request) -> Response:
        """`POST /SCENARIO/api/chat`."""
        decider = _decider(request)
        try:
            read = read_request(await request.body())
        except ClientInputError as error:
            return Response(str(error), error.status)
        id = conversation_id(str(decider.principal), "vercel", read.chat_id)
        arrived = Arrived(request.path_params["scenario"], id, read, decider)
        assert self.tasks is not None
        self.tasks.start_soon(self._run, arrived)
        await arrived.answered.wait()
        if arrived.refused is not None:
            return Response(str(arrived.refused), arrived.refused.status)
        return StreamingResponse(self.live[id].read(), headers=HEADERS)

    async def _run(self, arrived: Arrived) -> None:
        chat, decider = self.chat(arrived.scenario, arrived.id), arrived.decider
        async with self.store.open(arrived.id, owner=str(decider.principal)) as conversation:
            try:
                apply_request(arrived.read, conversation, chat=chat, decider=decider)
            except ClientInputError as error:
                arrived.refused = error
                arrived.answered.set()
                return
            live = self.live[arrived.id] = Live(stored_chunks(conversation, decider))
            encoder = VercelEncoder(conversation, decider, shown=arrived.read.shown)
            arrived.answered.set()
            async with chat.stream(conversation) as stream:
                await send_run(aiter(stream), encoder, live.send)
        live.end()

    async def resume(self, request: Request) -> Response:
        """`GET /SCENARIO/api/chat/ID/stream`."""
        id = conversation_id(str(_decider(request).principal), "vercel", request.path_params["id"])
        live = self.live.get(id)
        if live is None or live.ended:
            return Response(status_code=204)
        return StreamingResponse(live.read(again=True), headers=HEADERS)

    async def messages(self, request: Request) -> Response:
        """`GET /SCENARIO/api/chat/ID`."""
        decider = _decider(request)
        id = conversation_id(str(decider.principal), "vercel", request.path_params["id"])
        async with self.store.open(id, owner=str(decider.principal)) as conversation:
            return JSONResponse(ui_messages(conversation, decider))

    async def effects(self, request: Request) -> Response:
        """`POST /SCENARIO/open` lets its model continue; `GET` lists the payments."""
        if request.method == "POST":
            GATES.setdefault(request.path_params["scenario"], anyio.Event()).set()
        return JSONResponse(EFFECTS)


def _decider(request: Request) -> Decider:
    return Decider(Principal(request.headers.get("x-user", "ana")), owner_may_decide)


async def page(_request: Request) -> Response:
    """`GET /SCENARIO/` is the page of the documentation."""
    return FileResponse(Path(__file__).parents[2] / "docs" / "examples" / "vercel" / "page.html")


def main() -> None:
    """Serve on a free port, and print the address."""
    server = Server()
    routes: list[BaseRoute] = [
        Route("/{scenario}/api/chat", server.post, methods=["POST"]),
        Route("/{scenario}/api/chat/{id}/stream", server.resume),
        Route("/{scenario}/api/chat/{id}", server.messages),
        Route("/{scenario}/", page),
        Route("/{scenario}/open", server.effects, methods=["GET", "POST"]),
    ]
    if len(sys.argv) > 1:
        routes.insert(0, Mount("/modules", StaticFiles(directory=sys.argv[1])))
    listener = listen(0)
    print(f"serving http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = Starlette(routes=routes, lifespan=server.lifespan)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
