"""A web application with one route and one page for each of three protocols. The pages need no build step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from chat_core import ConflictError, Messages, Paused, StreamingChat
from chat_core.approvals import Principal, owner_may_decide
from chat_core.json import dumps
from chat_store import ConversationStore, OpenConversation
from chat_streams import (
    AGUI,
    ClientInputError,
    Decider,
    EventEncoder,
    PlainEncoder,
    apply_plain_request,
    conversation_id,
    read_plain_request,
    send_failure,
    send_run,
    shown_messages,
)
from chat_streams.openai import ResponsesEncoder, apply_responses_request, read_responses_request
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

SendBytes = Callable[[bytes], Awaitable[object]]

FOLDER = Path(__file__).parent
PAGES = {"/agui": "agui.html", "/openai": "openai.html", "/plain": "plain.html"}
SHARED = ("page.css", "page.js")


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


class FrontEnds:
    """The routes of the application.

    If another run uses a conversation, `store.open()` raises `ConflictError`. Nothing is stored then, and the client
    has already received the error.
    """

    def __init__(self, chat: StreamingChat[object, Paused], store: ConversationStore) -> None:
        self._chat = chat
        self._store = store
        self._agui = AGUI(may_decide=owner_may_decide)

    async def run_agui(self, request: Request) -> Response:
        """`POST /agent`: AG-UI."""
        user = authenticate(request)
        try:
            posted = self._agui.read(await request.body())
        except ClientInputError as error:
            return PlainTextResponse(str(error), error.status)

        async def write_body(send: SendBytes) -> None:
            with suppress(ConflictError):
                async with self._store.open(posted.conversation_id(user.name), owner=user.name) as conversation:
                    await self._agui.run(posted, conversation, chat=self._chat, principal=user, send=send)

        return EventResponse(write_body)

    async def run_openai(self, request: Request) -> Response:
        """`POST /v1/responses`: the Responses API of OpenAI, always streamed."""
        user = authenticate(request)
        decider = Decider(user, owner_may_decide)
        try:
            posted = read_responses_request(await request.body())
        except ClientInputError as error:
            return PlainTextResponse(str(error), error.status)

        def begin(conversation: OpenConversation) -> EventEncoder:
            apply_responses_request(posted, conversation, chat=self._chat, decider=decider)
            return ResponsesEncoder(conversation, posted, decider)

        return self._run(conversation_id(user.name, "openai", posted.session), user, begin)

    async def run_plain(self, request: Request) -> Response:
        """`POST /run`: the engine's own events."""
        user = authenticate(request)
        try:
            posted = read_plain_request(await request.body())
        except ClientInputError as error:
            return PlainTextResponse(str(error), error.status)

        def begin(conversation: OpenConversation) -> EventEncoder:
            apply_plain_request(posted, conversation, chat=self._chat, decider=Decider(user, owner_may_decide))
            return PlainEncoder()

        return self._run(posted.conversation_id(user.name), user, begin)

    def _run(self, id: str, user: Principal, begin: Callable[[OpenConversation], EventEncoder]) -> Response:
        async def write_body(send: SendBytes) -> None:
            with suppress(ConflictError):
                async with self._store.open(id, owner=user.name) as conversation:
                    try:
                        encoder = begin(conversation)
                    except ClientInputError as error:
                        await send_failure(error, PlainEncoder(), send)
                        return
                    async with self._chat.stream(conversation) as stream:
                        await send_run(aiter(stream), encoder, send)

        return EventResponse(write_body)

    async def stored(self, request: Request) -> Response:
        """`GET /stored/KIND/SESSION`: what a page shows after a reload."""
        user = authenticate(request)
        id = conversation_id(user.name, request.path_params["kind"], request.path_params["session"])
        async with self._store.open(id, owner=user.name) as conversation:
            return JSONResponse(describe(conversation.messages))


def describe(messages: Messages) -> list[dict[str, object]]:
    """Return the messages as the pages show them. The results are for users who may see them."""
    described: list[dict[str, object]] = []
    for message in shown_messages(messages):
        tools = [
            {
                "id": tool.id,
                "text": f"{tool.name} {dumps(tool.effective_arguments)}",
                "result": tool.result_text() if tool.resolved else None,
            }
            for tool in message.tools
        ]
        role = "user" if message.role == "user" else "assistant"
        described.append({"role": role, "text": message.text, "tools": tools})
    return described


def create_app(chat: StreamingChat[object, Paused], store: ConversationStore) -> Starlette:
    """Create the application.

    Args:
        chat: the chat that answers.
        store: where conversations are stored.
    """
    front_ends = FrontEnds(chat, store)
    routes: list[BaseRoute] = [
        Route("/agent", front_ends.run_agui, methods=["POST"]),
        Route("/v1/responses", front_ends.run_openai, methods=["POST"]),
        Route("/run", front_ends.run_plain, methods=["POST"]),
        Route("/stored/{kind}/{session}", front_ends.stored),
    ]
    files = {**PAGES, **{f"/{name}": name for name in SHARED}}
    routes += [Route(path, _file_route(FOLDER / name)) for path, name in files.items()]
    return Starlette(routes=routes)


def _file_route(path: Path) -> Callable[[Request], Response]:
    return lambda _: FileResponse(path)


def authenticate(_request: Request) -> Principal:
    """Return the signed-in user. Replace this function by the authentication of your application."""
    return Principal("ana")
