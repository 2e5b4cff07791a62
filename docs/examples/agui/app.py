"""A web application with one route for AG-UI, and a page that uses it without a build step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from chat_core import ConflictError, Paused, StreamingChat
from chat_core.approvals import Principal, owner_may_decide
from chat_store import ConversationStore
from chat_streams import AGUI, ClientInputError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

SendBytes = Callable[[bytes], Awaitable[object]]

PAGE = Path(__file__).with_name("page.html")


class EventResponse(Response):
    """A response whose body is written by a function, which continues when the client disconnects."""

    def __init__(self, write_body: Callable[[SendBytes], Awaitable[None]]) -> None:
        super().__init__()
        self._write_body = write_body

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def send_bytes(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        await self._write_body(send_bytes)
        await send({"type": "http.response.body", "body": b""})


def create_app(chat: StreamingChat[object, Paused], store: ConversationStore) -> Starlette:
    """Create the application.

    Args:
        chat: the chat that answers.
        store: where conversations are stored.
    """
    agent = AGUI(may_decide=owner_may_decide)

    async def page(_request: Request) -> Response:
        return FileResponse(PAGE)

    async def run(request: Request) -> Response:
        user = authenticate(request)
        try:
            posted = agent.read(await request.body())
        except ClientInputError as error:
            return PlainTextResponse(str(error), error.status)

        async def write_body(send: SendBytes) -> None:
            # If another run uses the conversation, the client has received RUN_ERROR, and nothing is stored.
            with suppress(ConflictError):
                async with store.open(posted.conversation_id(user.name), owner=user.name) as conversation:
                    await agent.run(posted, conversation, chat=chat, principal=user, send=send)

        return EventResponse(write_body)

    return Starlette(routes=[Route("/", page), Route("/agent", run, methods=["POST"])])


def authenticate(_request: Request) -> Principal:
    """Return the signed-in user. Replace this function by the authentication of your application."""
    return Principal("ana")
