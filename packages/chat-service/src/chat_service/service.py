"""`Service`, the ASGI application that serves sessions of an agent."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from inspect import iscoroutinefunction
from typing import Any, Final, Protocol, Self, cast, final, runtime_checkable

import anyio
from chat_agents import AgentEngine, AgentFlow
from chat_core import UsageError
from chat_core.approvals import MayDecide, Principal
from chat_core.arguments import require_callable, require_type
from chat_inbox import Authenticate
from chat_inbox.api import json_response
from chat_inbox.conversation_facts import describe_nothing
from chat_inbox.event_response import OpenStreams
from chat_inbox.http_errors import HTTPError
from chat_inbox.security import SecurityHeaders, find_principal
from chat_store import ConversationClosedError, ConversationMeta, ConversationStore, Job, UnknownConversationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ExceptionHandler, Receive, Scope, Send

from chat_service.browser_sign_in import CookieTokens, SignIn
from chat_service.chat_routes import ChatRoutes, PrincipalResolver
from chat_service.client_runs import ClientRuns
from chat_service.context import ServiceContext
from chat_service.engine_events import EngineEvents
from chat_service.following import Follower
from chat_service.front_end_routes import FrontEndRoutes
from chat_service.health_routes import HealthRoutes
from chat_service.hosts import HostGuard
from chat_service.inbox_access import create_inbox
from chat_service.live_text import LiveText
from chat_service.memory_routes import MemoryRoutes, UserMemory
from chat_service.metrics import MetricsRoutes
from chat_service.openai_routes import OpenAIRoutes
from chat_service.openapi import build_document
from chat_service.openapi_workflows import add_workflows
from chat_service.pages import Pages
from chat_service.problems import handle_error, handle_unexpected_error
from chat_service.rate_limits import AddressLimit, RateLimits, too_many_requests
from chat_service.request_log import RequestLog
from chat_service.runs import Runs
from chat_service.session_archive import ExportSignatures, SessionArchive
from chat_service.session_routes import CloseJobs, SessionRoutes
from chat_service.session_views import SessionViews
from chat_service.settings import ServiceSettings
from chat_service.shared_text import SharedText
from chat_service.signals import Signals
from chat_service.socket_routes import SocketRoutes
from chat_service.traces import HeaderTraces, Traces
from chat_service.worker import Worker

_HANDLERS: Final = cast(
    "dict[type[Exception], ExceptionHandler]",
    {
        **dict.fromkeys((HTTPError, HTTPException, ConversationClosedError, UnknownConversationError), handle_error),
        Exception: handle_unexpected_error,
    },
)


def _middleware(settings: ServiceSettings) -> list[Middleware]:
    limits = RateLimits(settings.address_requests_per_minute, time.monotonic)
    return [
        Middleware(SecurityHeaders),
        Middleware(AddressLimit, limits),
        Middleware(HostGuard, settings.hosts),
        Middleware(CookieTokens),
    ]


def _require_optional(name: str, value: object, kind: type, expected: str) -> None:
    require_type(name, value, (kind, type(None)), f"{expected}, or None")


def no_jobs(_meta: ConversationMeta, /) -> Sequence[Job]:
    """Return an empty sequence. This is the default of `close_jobs`."""
    return ()


@runtime_checkable
class Workflows(Protocol):
    """The workflows of a service, without the packages that execute them. `ServiceWorkflows` implements it."""

    def routes(self, context: ServiceContext, authenticate: PrincipalResolver, /) -> list[Route]:
        """Return the routes of the endpoints.

        Args:
            context: objects shared by the parts of the service.
            authenticate: function that returns the user who sent a request.
        """
        ...

    async def describe(self, conversation_id: str, /) -> Sequence[tuple[str, str]]:
        """Return labels and texts about the run that uses a conversation, for the inbox."""
        ...

    def close_jobs(self, meta: ConversationMeta, /) -> Sequence[Job]:
        """Return the jobs that start workflows after a session was closed."""
        ...

    async def run(self, context: ServiceContext, /) -> None:
        """Execute schedules, events and decisions until the task is cancelled."""
        ...


@final
class Service:
    """An ASGI application that serves sessions of an agent over HTTP, with a worker for their runs.

    The service opens and closes with the lifespan of the server. The caller owns the engine's model and the store. Any
    number of processes can serve the same store.

    Args:
        engine: the engine.
        flow: the flow of all sessions. A flow with a `Handoff` is refused.
        store: the store of the sessions.
        authenticate: returns the user who sent a request, or `None`. `BearerTokens` is such a function.
        may_decide: returns whether a user may decide on a waiting call. Pass `owner_may_decide`, `only_role(...)` or a
            function of the application. There is no default.
        close_jobs: function that returns jobs for a session with messages when it is closed. The jobs are queued in the
            same transaction.
        settings: limits and times.
        workflows: the workflows that the service makes available, such as `chat_service.workflows.ServiceWorkflows`. By
            default, it has none.
        memory: the memory of the users, such as `chat_memory.owner_memory.OwnerMemory`, for the routes in
            `/api/v1/memory`. The model receives notes from the memory of the engine's `AgentConfig`.
        secret: key that signs exports and the forms of the inbox, at least 32 bytes. All processes that serve one
            site must share it. Default: a random key, so that exports are not accepted after a restart.
        traces: continues the traces of requests in their runs, such as `chat_otel.TracePropagation()`. By default, the
            trace id of the header `traceparent` appears in the logs of the request and its run.

    Raises:
        UsageError: an argument has a wrong type, the flow has a `Handoff`, or the secret is too short.
    """

    def __init__(
        self,
        engine: AgentEngine,
        flow: AgentFlow[Any],
        store: ConversationStore,
        *,
        authenticate: Authenticate,
        may_decide: MayDecide,
        close_jobs: CloseJobs = no_jobs,
        settings: ServiceSettings | None = None,
        workflows: Workflows | None = None,
        memory: UserMemory | None = None,
        secret: bytes | None = None,
        traces: Traces | None = None,
    ) -> None:
        if not callable(may_decide) or iscoroutinefunction(may_decide):
            msg = f"may_decide must be a plain function, such as owner_may_decide, not {may_decide!r}"
            raise UsageError(msg)
        require_type("engine", engine, AgentEngine, "an AgentEngine")
        require_type("store", store, ConversationStore, "a store of conversations")
        require_callable("close_jobs", close_jobs, "a function that returns jobs")
        _require_optional("settings", settings, ServiceSettings, "ServiceSettings(...)")
        _require_optional("workflows", workflows, Workflows, "ServiceWorkflows(...)")
        _require_optional("memory", memory, UserMemory, "OwnerMemory(...)")
        _require_optional("traces", traces, Traces, "TracePropagation()")
        engine.chat(flow)  # refuses a flow with a `Handoff`
        self._authenticate, self._settings = authenticate, settings or ServiceSettings()
        self._limits = RateLimits(
            self._settings.requests_per_minute, time.monotonic, burst=self._settings.request_burst
        )
        self._signals = Signals(store)
        live = LiveText(self._signals)
        self._memory = memory
        context = ServiceContext(
            engine,
            flow,
            store,
            may_decide,
            self._settings,
            self._signals,
            live,
            traces=traces or HeaderTraces(),
            streams=OpenStreams(self._settings.ping_seconds, self._settings.stream_send_seconds),
        )
        runs = Runs(context)
        self._context, self._worker = context, Worker(context, runs)
        self._workflows = workflows
        self._text = SharedText(store, context.live)
        self._stack: AsyncExitStack | None = None
        self._inbox = create_inbox(
            store, authenticate, may_decide, secret, workflows.describe if workflows else describe_nothing
        )
        self._app = Starlette(
            routes=self._routes(runs, self._jobs_of_closed_sessions(close_jobs), ExportSignatures(secret)),
            middleware=_middleware(self._settings),
            exception_handlers=_HANDLERS,
            lifespan=self.lifespan,
        )
        # Outside of Starlette, which sends the responses of unexpected errors.
        self._entry = RequestLog(self._app, context.traces)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        await self._entry(scope, receive, send)

    async def __aenter__(self) -> Self:
        """Open the service and start its workers.

        Raises:
            UsageError: the service is already open.
        """
        if self._stack is not None:
            msg = "the service is already open: enter it once, in one application"
            raise UsageError(msg)
        await self._signals.open()
        stack = AsyncExitStack()
        await stack.enter_async_context(self._inbox)
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(group.cancel_scope.cancel)
        group.start_soon(self._signals.run)
        group.start_soon(self._signals.refresh, self._context.live.executes)
        group.start_soon(self._text.write)
        group.start_soon(self._text.read)
        group.start_soon(self._context.streams.run)
        if self._workflows is not None:
            group.start_soon(self._workflows.run, self._context)
        self._worker.start(group)
        self._stack = stack
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the service. Active runs have `grace_seconds` to end; then other workers can take them over."""
        stack, self._stack = self._stack, None
        with anyio.move_on_after(self._settings.grace_seconds):
            await self._worker.drain()
        if stack is not None:
            await stack.aclose()

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None]:
        """Return a context manager that opens the service for the lifespan of an application."""
        async with self:
            yield

    def openapi(self) -> dict[str, object]:
        """Return the OpenAPI document that `/openapi.json` serves."""
        document = build_document(self._settings, has_memory=self._memory is not None)
        if self._workflows is not None:
            add_workflows(document, self._settings)
        return document

    def _routes(self, runs: Runs, close_jobs: CloseJobs, signatures: ExportSignatures) -> list[BaseRoute]:
        context, workflows, authenticate = self._context, self._workflows, self._require_principal
        follower = Follower(context, runs)
        client_runs, events = ClientRuns(context, runs), EngineEvents(context, runs)
        return [
            *HealthRoutes(context.store, lambda: self._stack is not None).routes(),
            *MetricsRoutes(context, authenticate).routes(),
            *ChatRoutes(context, runs, follower, authenticate).routes(),
            *SessionRoutes(context, runs, authenticate, close_jobs).routes(),
            *SessionArchive(context, runs, authenticate, signatures).routes(),
            *FrontEndRoutes(context, runs, client_runs, events, authenticate).routes(),
            *OpenAIRoutes(context, client_runs, events, authenticate).routes(),
            *SessionViews(context, runs, authenticate).routes(),
            *self._memory_routes(),
            *SocketRoutes(context, runs, follower, self._authenticate, self._limits.count).routes(),
            *(workflows.routes(context, authenticate) if workflows is not None else ()),
            *SignIn(self._authenticate, self._settings).routes(),
            *Pages(self.openapi).routes(),
            Mount("/inbox", self._inbox),
            Route("/openapi.json", self._describe, methods=["GET"]),
        ]

    def _jobs_of_closed_sessions(self, close_jobs: CloseJobs) -> CloseJobs:
        workflows = self._workflows
        return close_jobs if workflows is None else lambda meta: [*close_jobs(meta), *workflows.close_jobs(meta)]

    def _memory_routes(self) -> list[Route]:
        if self._memory is None:
            return []
        return MemoryRoutes(self._memory, self._settings, self._require_principal).routes()

    async def _describe(self, _request: Request) -> Response:
        return json_response(self.openapi())

    async def _require_principal(self, request: Request) -> Principal:
        principal = await find_principal(self._authenticate, request)
        if principal is None:
            raise HTTPError(401, "The request has no valid token: send the header Authorization: Bearer TOKEN.")
        if seconds := self._limits.count(principal.name):
            raise too_many_requests(seconds)
        return principal
