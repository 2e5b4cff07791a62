"""The ASGI application of the inbox, to serve directly or to mount in another application."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from inspect import iscoroutinefunction
from typing import Any, Final, Self, cast, final

import anyio
from chat_core import AnyChat, Chat
from chat_core.approvals import ApprovalKeys, MayDecide, Principal
from chat_core.arguments import require_callable, require_number, require_type
from chat_core.clock import utc_now
from chat_core.errors import UsageError
from chat_store import ConversationStore
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ExceptionHandler, Receive, Scope, Send

from chat_inbox.api import Api, json_response
from chat_inbox.approval_links import ApprovalLinks
from chat_inbox.approval_service import ApprovalService, Authorize, MaySee, see_all
from chat_inbox.conversation_facts import Describe, describe_nothing
from chat_inbox.event_response import OpenStreams
from chat_inbox.event_streams import EventStreams
from chat_inbox.http_errors import HTTPError
from chat_inbox.openapi import build_document
from chat_inbox.pages import Pages
from chat_inbox.pending_pages import PendingPages
from chat_inbox.render import ASSET_ROUTE, render
from chat_inbox.security import Authenticate, FormTokens, SecurityHeaders, find_principal
from chat_inbox.store_watcher import StoreWatcher

_MIN_SECRET_BYTES: Final = 32


def allow_everyone(_person: str, _in_charge: str | None, /) -> bool:
    """Return True, so that every authenticated person may see all conversations."""
    return True


@final
class Inbox:
    """An ASGI application with pages and a JSON API for deciding the waiting tool calls of a store.

    If a server serves the inbox directly, the server's lifespan opens and closes it. In another application, mount it
    and pass its lifespan to that application: `Starlette(routes=[Mount("/inbox", inbox)], lifespan=inbox.lifespan)`, or
    `async with inbox` in a lifespan function. The caller owns the store: closing the inbox does not close it.

    Args:
        store: store of the conversations.
        authenticate: returns the person who sent a request, a name or a `Principal` with roles, or None without a
            valid sign-in. Decisions are recorded under this name.
        chat: chat that continues a conversation after a decision, or a function that returns it for a conversation id.
            Without a chat, a worker must resume the conversations, and arguments are edited as JSON.
        may_decide: returns whether a person may decide a call: `owner_may_decide`, `only_role(...)` or a function of
            the application. There is no default.
        authorize: returns whether a person may see a conversation, given the person in charge of it. By default, every
            authenticated person may see all conversations. Nobody can decide calls that they may not see.
        may_see: further condition for seeing a stored conversation, in addition to `authorize`. The list always shows
            the calls that a person may decide, so this function must return True for their conversations.
        describe: returns labels and texts that the pages show about a conversation, such as `Pipelines.describe` for
            the conversations of workflows.
        secret: key that signs the forms, at least 32 bytes. All processes that serve one site must share it. By default
            it is random.
        approvals: keys of bound approvals. They enable `/link?token=…` for tokens of `ApprovalKeys.bind()`.
        grace_seconds: time in seconds that active runs have to finish when the inbox closes. Then they are cancelled.
        now: clock that returns aware datetimes.

    Raises:
        UsageError: the secret is too short, `may_decide` is not a function, or `chat` is neither a chat nor a function.
    """

    def __init__(
        self,
        store: ConversationStore,
        *,
        authenticate: Authenticate,
        may_decide: MayDecide,
        chat: AnyChat | Callable[[str], AnyChat | None] | None = None,
        authorize: Authorize = allow_everyone,
        may_see: MaySee = see_all,
        describe: Describe = describe_nothing,
        secret: bytes | None = None,
        approvals: ApprovalKeys | None = None,
        grace_seconds: float = 10.0,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if secret is not None:
            require_type("secret", secret, bytes, "bytes")
        require_number("grace_seconds", grace_seconds)
        require_callable("authenticate", authenticate, "an async function, such as a method of TokenSignIn")
        if secret is not None and len(secret) < _MIN_SECRET_BYTES:
            msg = (
                f"secret has {len(secret)} bytes, but needs {_MIN_SECRET_BYTES}: create it with secrets.token_bytes(32)"
            )
            raise UsageError(msg)
        if not callable(may_decide):
            msg = (
                f"may_decide must be a function of a principal and a wait, such as owner_may_decide, not {may_decide!r}"
            )
            raise UsageError(msg)
        for rule, name in ((may_decide, "may_decide"), (authorize, "authorize"), (may_see, "may_see")):
            if iscoroutinefunction(rule):
                msg = f"{name} must be a plain function that returns True or False, not an async function: {rule!r}"
                raise UsageError(msg)
        self._authenticate = authenticate
        self._grace_seconds = grace_seconds
        self._service = ApprovalService(store, _chat_finder(chat), authorize, may_decide, now, may_see=may_see)
        self._watcher = StoreWatcher(store, self._service.runs)
        self._stack: AsyncExitStack | None = None
        self._open_streams = OpenStreams()
        streams = EventStreams(self._watcher, secrets.token_hex(4), self._open_streams)
        tokens = FormTokens(secret or secrets.token_bytes(32))
        pages = Pages(self._service, streams, self._require_person, tokens, describe)
        pending = PendingPages(self._service, streams, self._require_person, tokens, describe)
        routes = [
            *pending.routes(),
            *pages.routes(),
            *Api(self._service, streams, self._require_person).routes(),
            ASSET_ROUTE,
        ]
        if approvals is not None:
            routes += ApprovalLinks(self._service, approvals, authenticate).routes()
        handlers = {HTTPError: _handle_error, HTTPException: _handle_error, Exception: _handle_unexpected_error}
        self._app = Starlette(
            routes=routes,
            middleware=[Middleware(SecurityHeaders)],
            exception_handlers=cast("dict[type[Exception], ExceptionHandler]", handlers),
            lifespan=self.lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        await self._app(scope, receive, send)

    async def __aenter__(self) -> Self:
        """Open the inbox, so that runs can start.

        Raises:
            UsageError: the inbox is already open.
        """
        if self._stack is not None:
            msg = "the inbox is already open: enter it once, in one application"
            raise UsageError(msg)
        stack = AsyncExitStack()
        group = await stack.enter_async_context(anyio.create_task_group())
        group.start_soon(self._watcher.run)
        group.start_soon(self._open_streams.run)
        self._service.runs.open(group)
        self._stack = stack
        stack.callback(group.cancel_scope.cancel)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the inbox. Active runs have `grace_seconds` to finish."""
        stack, self._stack = self._stack, None
        self._service.runs.close()
        with anyio.move_on_after(self._grace_seconds):
            await self._service.runs.wait_idle()
        if stack is not None:
            await stack.aclose()

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None]:
        """Return a context manager that opens the inbox for the lifespan of the surrounding application."""
        async with self:
            yield

    def openapi(self, root_path: str = "") -> dict[str, Any]:
        """Return the OpenAPI document that `/openapi.json` serves, for an inbox mounted at `root_path`."""
        return build_document(root_path)

    async def _require_person(self, request: Request) -> Principal:
        person = await find_principal(self._authenticate, request)
        if person is None:
            raise HTTPError(
                401, "You are not signed in, or have no access: sign in to the application, then return to this page."
            )
        return person


def _chat_finder(chat: AnyChat | Callable[[str], AnyChat | None] | None) -> Callable[[str], AnyChat | None]:
    """Return a function that finds the chat for a conversation id. A function is returned unchanged."""
    if callable(chat):
        return chat
    if chat is not None and not isinstance(chat, Chat):
        msg = f"chat must be a chat from ChatBuilder.build() or a function of the conversation id, not {chat!r}"
        raise UsageError(msg)
    return lambda _conversation: chat


async def _handle_error(request: Request, error: Exception) -> Response:
    """Convert an HTTP error of the inbox or of Starlette to a response."""
    headers: Mapping[str, str] = {}
    if isinstance(error, HTTPException):
        headers = error.headers or {}  # `Allow`, with status 405
        error = HTTPError(error.status_code, _STATUS_DETAILS.get(error.status_code, f"{error.detail}."))
    assert isinstance(error, HTTPError)  # noqa: S101 - it is registered for these two types
    response = _error_response(request, error)
    response.headers.update(headers)
    return response


async def _handle_unexpected_error(request: Request, _error: Exception) -> Response:
    return _error_response(
        request, HTTPError(500, "An internal error occurred; the log of the server has the details.")
    )


_STATUS_DETAILS: Final = {
    404: "There is nothing at this address.",
    405: "This address does not accept this HTTP method: use POST to decide, and GET to read.",
}


def _error_response(request: Request, error: HTTPError) -> Response:
    """Return a response for an error: problem details for requests to the API, otherwise an HTML page."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if path.startswith("/api/") or path == "/openapi.json":
        return json_response(error.document, error.status, "application/problem+json")
    title = HTTPStatus(error.status).phrase
    return render(request, "problem.html", error.status, title=title, detail=error.detail, person=None)
