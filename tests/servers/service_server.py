"""A running service for third-party clients: `python -m tests.servers.service_server`.

The first segment of a path names a scenario of `vercel_server`, which is a service of its own. The header `x-user` or
the API key is the name of the user.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import anyio
import uvicorn
from chat_agents import AgentConfig, AgentEngine, PromptFlow
from chat_core import ClientTools, FunctionCall, OverloadedError, Paused, Retry, ScopedCollection, ToolScope
from chat_core.approvals import Principal, owner_may_decide
from chat_core.testing import Answer, ScriptedProvider
from chat_inbox.__main__ import listen
from chat_service import Service, ServiceSettings
from chat_store import MemoryStore
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from .vercel_server import EFFECTS, GATES, TOOLS, policy

SCENARIOS: Final = ("text", "tool", "approval", "declared", "cut", "resumed", "error")


def script(scenario: str) -> ScriptedProvider:
    """Return the model of a scenario. Its answer depends on the number of earlier answers in the conversation."""
    weather = FunctionCall("weather", {"city": "Nantes"}, id="call_1")
    pay = FunctionCall("pay", {"cents": 500, "to": "Maria"}, id="call_1")
    answers: dict[str, list[object]] = {
        "text": ["It rains in Nantes.", "It still rains."],
        "tool": [["I will look.", weather], "It rains."],
        "approval": [["I will pay.", pay], "Done."],
        "declared": [FunctionCall("color", {}, id="call_1"), "It is blue."],
        "cut": [["I will look.", weather], Answer(["It rains."], before=lambda: _pass("cut"))],
        "resumed": [["I will look.", weather], Answer(["It rains."], before=lambda: _pass("resumed"))],
        "error": [OverloadedError("the key is s3cret")],
    }
    return ScriptedProvider(*answers[scenario], by_history=True)  # type: ignore[arg-type]  # answers of several types


async def _pass(gate: str) -> None:
    await GATES.setdefault(gate, anyio.Event()).wait()


async def sign_in(request: Request) -> Principal:
    """Return the user whom a test names."""
    key = request.headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(request.headers.get("x-user") or key or "ana")


def build(scenario: str, store: MemoryStore) -> Service:
    """Return the service of a scenario.

    Args:
        scenario: name of the scenario, which is also the name of the flow.
        store: the store of the service.
    """
    scopes: list[ToolScope[Paused]] = [ScopedCollection(TOOLS, policy), ClientTools()]
    flow = PromptFlow(scenario, "Be brief.", scopes)
    engine = AgentEngine(script(scenario), AgentConfig(retry=Retry(0)))
    settings = ServiceSettings(workers=2, poll_seconds=0.2, requests_per_minute=0, address_requests_per_minute=0)
    return Service(engine, flow, store, authenticate=sign_in, may_decide=owner_may_decide, settings=settings)


async def open_gate(request: Request) -> Response:
    """`POST /SCENARIO/open` lets its model continue; `GET` lists the payments."""
    if request.method == "POST":
        GATES.setdefault(request.path_params["scenario"], anyio.Event()).set()
    return JSONResponse(EFFECTS)


def main() -> None:
    """Serve on a free port, and print the address."""
    stores = {name: MemoryStore() for name in SCENARIOS}
    services = {name: build(name, store) for name, store in stores.items()}

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            for name, service in services.items():
                await stack.enter_async_context(stores[name])
                await stack.enter_async_context(service)
            yield

    routes: list[BaseRoute] = [Route("/{scenario}/open", open_gate, methods=["GET", "POST"])]
    routes += [Mount(f"/{name}", service) for name, service in services.items()]
    listener = listen(0)
    print(f"serving http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes, lifespan=lifespan), log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
