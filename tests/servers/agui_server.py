"""The server that the npm package `@ag-ui/client` talks to: `python -m tests.servers.agui_server`.

The paths and the scenarios are those of `vercel_server`. A run continues if its client disconnects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import final

import uvicorn
from chat_core import ConflictError
from chat_core.approvals import Principal, owner_may_decide
from chat_inbox.__main__ import listen
from chat_streams import AGUI, Send
from chat_streams.agui import MEDIA_TYPE
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope
from starlette.types import Send as SendMessage

from .vercel_server import Server

AGENT = AGUI(may_decide=owner_may_decide, shared="recipe")


@final
class RunResponse(Response):
    """A response whose body is written by a function. The function is not cancelled when the client disconnects."""

    def __init__(self, run: Callable[[Send], Awaitable[None]]) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        self._run = run

    async def __call__(self, _scope: Scope, _receive: Receive, send: SendMessage) -> None:
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        await self._run(write)
        await send({"type": "http.response.body", "body": b""})


@final
class AGUIServer:
    """The conversations and chats of `vercel_server`, reached by the AG-UI protocol."""

    def __init__(self) -> None:
        self.world = Server()

    async def post(self, request: Request) -> Response:
        """`POST /SCENARIO/agui`."""
        principal = Principal(request.headers.get("x-user", "ana"))
        posted = AGENT.read(await request.body())
        id = posted.conversation_id(str(principal))
        chat = self.world.chat(request.path_params["scenario"], id)

        async def run(send: Send) -> None:
            with suppress(ConflictError):  # the client has received RUN_ERROR
                async with self.world.store.open(id, owner=str(principal)) as conversation:
                    await AGENT.run(posted, conversation, chat=chat, principal=principal, send=send)

        return RunResponse(run)


def main() -> None:
    """Serve on a free port, and print the address."""
    server = AGUIServer()
    routes = [
        Route("/{scenario}/agui", server.post, methods=["POST"]),
        Route("/{scenario}/open", server.world.effects, methods=["GET", "POST"]),
    ]
    listener = listen(0)
    print(f"serving http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
