"""The application: an ASGI app to serve as it is, or to mount in another one."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, Self, cast, final

import anyio
from chat_core import AnyChat, Chat
from chat_core.approvals import ApprovalKeys
from chat_core.errors import UsageError
from chat_store import ConversationStore
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ExceptionHandler, Receive, Scope, Send

from chat_inbox.api import Api, json_answer
from chat_inbox.approval_links import Links
from chat_inbox.approval_service import ApprovalService, Authorise
from chat_inbox.event_streams import Streams
from chat_inbox.http_errors import ProblemError
from chat_inbox.openapi import document
from chat_inbox.pages import Pages
from chat_inbox.render import ASSETS, render
from chat_inbox.security import Authenticate, Shield, Tokens
from chat_inbox.store_watcher import Watch

_SHORTEST_SECRET: Final = 32


def everybody(_person: str, _in_charge: str | None, /) -> bool:
    """Whoever is signed in may see everything, and decide it."""
    return True


def _now() -> datetime:
    return datetime.now(UTC)


@final
class Inbox:
    """Pages and an API on which people decide about the calls that wait in a store.

    It is an ASGI application. Served on its own, it opens and closes itself. Mounted in another one, it is opened by
    that one's lifespan: `Starlette(routes=[Mount("/inbox", inbox)], lifespan=inbox.lifespan)`, or by `async with inbox`
    in a lifespan of the application's own. It does not close the store.

    Args:
        store: where the conversations rest.
        authenticate: who asks: the name that decisions are recorded under; `None` where nobody is signed in.
        chat: what goes on with a conversation when somebody has decided; a function of the conversation's id where
            that is not always the same. Without one a worker goes on with it, and arguments are edited as JSON.
        authorise: whether a person may see, and decide in, a conversation, given who is in charge of it. Everybody may
            unless it is given.
        secret: signs the forms; a random one unless given. Processes that serve one site share it.
        approvals: the keys of bound approvals; with them `/link?token=…` takes a token of `ApprovalKeys.bind()`.
        grace_seconds: how long runs may go on when the application ends; what is then still running is cancelled.
        now: the clock, with a zone.
    """

    def __init__(
        self,
        store: ConversationStore,
        *,
        authenticate: Authenticate,
        chat: AnyChat | Callable[[str], AnyChat | None] | None = None,
        authorise: Authorise = everybody,
        secret: bytes | None = None,
        approvals: ApprovalKeys | None = None,
        grace_seconds: float = 10.0,
        now: Callable[[], datetime] = _now,
    ) -> None:
        if secret is not None and len(secret) < _SHORTEST_SECRET:
            msg = f"secret needs {_SHORTEST_SECRET} bytes, not {len(secret)}: secrets.token_bytes(32) makes them"
            raise UsageError(msg)
        self._authenticate = authenticate
        self._grace = grace_seconds
        self._desk = ApprovalService(store, _chat_of(chat), authorise, now)
        self._watch = Watch(store, self._desk.runs)
        self._stack: AsyncExitStack | None = None
        streams = Streams(self._watch, secrets.token_hex(4))
        pages = Pages(self._desk, streams, self._who, Tokens(secret or secrets.token_bytes(32)))
        routes = [*pages.routes(), *Api(self._desk, streams, self._who).routes(), ASSETS]
        if approvals is not None:
            routes += Links(self._desk, approvals, authenticate).routes()
        handlers = {ProblemError: _told, HTTPException: _told, Exception: _broken}
        self._app = Starlette(
            routes=routes,
            middleware=[Middleware(Shield)],
            exception_handlers=cast("dict[type[Exception], ExceptionHandler]", handlers),
            lifespan=self.lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._app(scope, receive, send)

    async def __aenter__(self) -> Self:
        """Open it: from now on runs can go on."""
        if self._stack is not None:
            msg = "the inbox is open already: one application opens it, once"
            raise UsageError(msg)
        stack = AsyncExitStack()
        group = await stack.enter_async_context(anyio.create_task_group())
        group.start_soon(self._watch.run)
        self._desk.runs.open(group)
        self._stack = stack
        stack.callback(group.cancel_scope.cancel)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it: runs that are live have `grace_seconds` to end."""
        stack, self._stack = self._stack, None
        self._desk.runs.close()
        with anyio.move_on_after(self._grace):
            await self._desk.runs.idle()
        if stack is not None:
            await stack.aclose()

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None]:
        """The lifespan, for the application around it."""
        async with self:
            yield

    def openapi(self, root_path: str = "") -> dict[str, Any]:
        """The description of the API, as it is served under `/openapi.json`."""
        return document(root_path)

    async def _who(self, request: Request) -> str:
        person = await self._authenticate(request)
        if person is None:
            raise ProblemError(
                401, "You are not signed in, or may not use this: sign in where this is part of, and return."
            )
        return person


def _chat_of(chat: AnyChat | Callable[[str], AnyChat | None] | None) -> Callable[[str], AnyChat | None]:
    if callable(chat):
        return chat
    if chat is not None and not isinstance(chat, Chat):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
        msg = f"chat must be a chat that completes, or a function of a conversation's id, not {chat!r}"
        raise UsageError(msg)
    return lambda _conversation: chat


async def _told(request: Request, error: Exception) -> Response:
    headers: Mapping[str, str] = {}
    if isinstance(error, HTTPException):
        headers = error.headers or {}  # which methods an address takes
        error = ProblemError(error.status_code, _SENTENCES.get(error.status_code, f"{error.detail}."))
    assert isinstance(error, ProblemError)  # noqa: S101 - the handlers are for these two
    answer = _answer(request, error)
    answer.headers.update(headers)
    return answer


async def _broken(request: Request, _error: Exception) -> Response:
    return _answer(request, ProblemError(500, "Something went wrong here; the log of the server has all of it."))


_SENTENCES: Final = {
    404: "There is nothing at this address.",
    405: "This address does not take such a request: decisions are sent by POST, and everything else is read by GET.",
}


def _answer(request: Request, problem: ProblemError) -> Response:
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if path.startswith("/api/") or path == "/openapi.json":
        return json_answer(problem.document, problem.status, "application/problem+json")
    title = HTTPStatus(problem.status).phrase
    return render(request, "problem.html", problem.status, title=title, detail=problem.detail, person=None)
