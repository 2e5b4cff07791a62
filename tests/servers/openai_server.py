"""The server that OpenAI's own client talks to: `python -m tests.servers.openai_server`.

The name of a model is a scenario: a script of the model, and tools with their policy. The API key
is the name of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, cast, final

import anyio
import uvicorn
from chat_core import (
    ChatBuilder,
    ClientTools,
    Execute,
    FunctionCall,
    Messages,
    OverloadedError,
    Paused,
    Reasoning,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.approvals import Principal, owner_may_decide
from chat_core.testing import Answer, ScriptedProvider
from chat_core.testing.scripted import Scripted
from chat_inbox.__main__ import listen
from chat_store import MemoryStore
from chat_streams import ClientInputError, Decider, conversation_id
from chat_streams.encoding import Send, send_run
from chat_streams.openai import (
    HEADERS,
    CompletionsEncoder,
    ResponsesEncoder,
    apply_responses_request,
    error_body,
    error_status,
    read_completions_request,
    read_responses_request,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope
from starlette.types import Send as AsgiSend

from .agents import build_agent

TOOLS: Final = ToolCollection()
EFFECTS: Final[list[str]] = []
PACE: Final = 0.03
"""Seconds that the scenario `paced` takes before each answer, and before and after its effect."""
GATE: Final = anyio.Event()
LATE: Final = 900
"""A payment of this amount cannot be approved in time."""


@TOOLS.tool
async def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


@TOOLS.tool
async def pay(cents: int) -> str:
    """Pay an amount."""
    EFFECTS.append(f"{cents}")
    return f"paid {cents}"


@TOOLS.tool
async def lock(door: str) -> str:
    """Lock a door, which takes until the gate of the tests opens."""
    await GATE.wait()
    EFFECTS.append(f"locked {door}")
    return f"locked {door}"


@TOOLS.tool
async def charge(cents: int) -> str:
    """Charge an amount, with time before and after the effect for a client to leave."""
    await anyio.sleep(PACE)
    EFFECTS.append(f"charged {cents}")
    await anyio.sleep(PACE)
    return f"charged {cents}"


async def wait_a_moment() -> None:
    await anyio.sleep(PACE)


def policy(call: FunctionCall, _meta: None) -> Execute | RequireApproval:
    if call.name != "pay":
        return Execute()
    return RequireApproval(timedelta(microseconds=1) if call.arguments["cents"] == LATE else timedelta(hours=1))


def _call(name: str, number: int = 1, **arguments: object) -> FunctionCall:
    return FunctionCall(name, arguments, id=f"call_{number}")


SCRIPTS: Final[Mapping[str, Sequence[Scripted]]] = {
    "text": ["It rains in Nantes.", "It still rains."],
    "reasoning": [[Reasoning("Clouds mean rain."), "It rains."]],
    "server-tool": [["I will look.", _call("weather", city="Nantes")], "It rains."],
    "approval": [_call("pay", cents=500), "Done."],
    "late": [_call("pay", cents=LATE), "It was too late."],
    "two": [[_call("pay", 1, cents=1), _call("pay", 2, cents=2)], "Both decided."],
    "cut": [["I will lock it.", _call("lock", door="front")], "It is locked."],
    "paced": [
        Answer(["I will charge it.", _call("charge", cents=3)], before=wait_a_moment),
        Answer(["It is charged."], before=wait_a_moment),
    ],
    "function": [[_call("locate", 1, high=True), _call("locate", 2, high=False)], "You are in Nantes."],
    "error": [OverloadedError("the key is s3cret")],
}


def model(scenario: str) -> ScriptedProvider:
    return ScriptedProvider(*SCRIPTS[scenario], by_history=True)


def build(scenario: str) -> StreamingChat[Any, Paused]:
    if scenario == "agent":
        return build_agent(EFFECTS)
    builder = ChatBuilder().with_model(model(scenario)).with_scoped_tools(ScopedCollection(TOOLS, policy))
    builder = builder.with_retry(0).with_scoped_tools(ClientTools()).with_interrupted(RequireApproval())
    return builder.build()


def build_stateless(scenario: str) -> StreamingChat[Any, Any]:
    """Return the chat of a scenario for Chat Completions, without the type of its pauses."""
    if scenario == "function":
        return build(scenario)
    scope = ScopedCollection(TOOLS, policy)
    return ChatBuilder().with_model(model(scenario)).with_retry(0).with_scoped_tools(scope).build()


@final
class Streamed(Response):
    """A response whose body is written by a run. The run is cancelled if the client disconnects."""

    def __init__(self, run: Callable[[Send], Any]) -> None:
        super().__init__(headers=dict(HEADERS))
        self._run = run

    async def __call__(self, _scope: Scope, receive: Receive, send: AsgiSend) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write, send)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

    async def _write(self, send: AsgiSend) -> None:
        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._run(write)
        await send({"type": "http.response.body", "body": b""})


STORE: Final = MemoryStore()
CHATS: Final[dict[str, StreamingChat[Any, Paused]]] = {}


def _decider(request: Request) -> Decider:
    return Decider(Principal(request.headers["authorization"].removeprefix("Bearer ")), owner_may_decide)


def _error(error: Exception) -> Response:
    return Response(error_body(error), error_status(error), media_type="application/json")


async def responses(request: Request) -> Response:
    """`POST /v1/responses`."""
    decider = _decider(request)
    try:
        read = read_responses_request(await request.body())
    except ClientInputError as error:
        return _error(error)
    chat = CHATS.setdefault(read.model, build(read.model))
    owner = str(decider.principal)
    id = conversation_id(owner, "openai", read.session)
    try:
        if not read.stream:
            async with STORE.open(id, owner=owner) as conversation:
                apply_responses_request(read, conversation, chat=chat, decider=decider)
                encoder = ResponsesEncoder(conversation, read, decider)
                outcome = await chat.complete(conversation, options=read.options)
                return Response(encoder.whole(outcome), media_type="application/json")
        async with STORE.open(id, owner=owner) as conversation:
            apply_responses_request(read, conversation, chat=chat, decider=decider)
    except Exception as error:  # noqa: BLE001 - the client hears of every failure
        return _error(error)

    async def run(send: Send) -> None:
        async with STORE.open(id, owner=owner) as conversation:
            encoder = ResponsesEncoder(conversation, read, decider)
            async with chat.stream(conversation, options=read.options) as stream:
                await send_run(aiter(stream), encoder, send)

    return Streamed(run)


async def completions(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    try:
        read = read_completions_request(await request.body())
        chat = build_stateless(read.model)
        encoder = CompletionsEncoder(cast("Any", chat), read)
        if not read.stream:
            outcome = await chat.complete(read.messages, options=read.options)
            return Response(encoder.whole(outcome), media_type="application/json")
    except Exception as error:  # noqa: BLE001 - the client hears of every failure
        return _error(error)

    async def run(send: Send) -> None:
        async with chat.stream(read.messages, options=read.options) as stream:
            await send_run(aiter(stream), encoder, send)

    return Streamed(run)


async def effects(request: Request) -> Response:
    """`GET /effects` lists the effects of tools; `POST` opens the gate."""
    if request.method == "POST":
        GATE.set()
    return JSONResponse(EFFECTS)


async def stored(request: Request) -> Response:
    """`GET /stored/SESSION` is the stored document of a conversation of the user ana, loaded and saved again."""
    id = conversation_id("ana", "openai", request.path_params["session"])
    document = (await STORE.load(id)).messages.to_json()
    return Response(Messages.from_json(document).to_json(), media_type="application/json")


def main() -> None:
    """Serve on a free port, and print the address."""
    routes = [
        Route("/v1/responses", responses, methods=["POST"]),
        Route("/v1/chat/completions", completions, methods=["POST"]),
        Route("/stored/{session}", stored),
        Route("/effects", effects, methods=["GET", "POST"]),
    ]
    listener = listen(0)
    print(f"serving http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
