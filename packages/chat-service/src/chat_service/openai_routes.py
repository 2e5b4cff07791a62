"""Routes that implement OpenAI's APIs. Responses are stored in sessions, Chat Completions are not stored."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final, Never, TypeAlias, TypeVar, cast, final

import anyio
from chat_core import AnyChat, Chat, ChatOptions, ChatResponse, ChatStream, Done, Paused
from chat_core.approvals import Principal
from chat_core.json import dumps
from chat_inbox.api import json_response
from chat_inbox.event_response import EventResponse, Write
from chat_inbox.http_errors import HTTPError
from chat_store import Snapshot
from chat_streams import AppliedInput, ClientInputError, Decider, RunFailedError, send_failure, send_run
from chat_streams.openai import (
    CompletionsEncoder,
    CompletionsRequest,
    ResponsesEncoder,
    ResponsesRequest,
    apply_responses_request,
    error_body,
    error_status,
    read_completions_request,
    read_responses_request,
)
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive

from chat_service.chat_routes import PrincipalResolver
from chat_service.client_runs import (
    ClientRun,
    ClientRuns,
    before_run,
    check_messages,
    check_turn,
    client_session_id,
    list_turns,
)
from chat_service.context import ServiceContext
from chat_service.engine_events import EngineEvents
from chat_service.following import failure_text
from chat_service.problems import CODES
from chat_service.request_values import read_key, read_object

_log = logging.getLogger("chat_service")
_T = TypeVar("_T")
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
_CLIENT_GONE: Final = 499
"""Status of a response that nobody reads, because the client has disconnected."""
_NO_OPTIONS: Final = "The fields temperature, top_p and max_output_tokens are not supported: the service sets them."


@final
class OpenAIRoutes:
    """Routes and endpoints of OpenAI's APIs. The model is the flow of the service.

    Args:
        context: objects shared by the parts of the service.
        client_runs: stores requests together with their runs.
        events: recreates the events of runs.
        authenticate: function that returns the user who sent a request.
    """

    def __init__(
        self, context: ServiceContext, client_runs: ClientRuns, events: EngineEvents, authenticate: PrincipalResolver
    ) -> None:
        self._settings = context.settings
        self._streams = context.streams
        self._may_decide = context.may_decide
        self._model = context.flow.name
        self._chat = context.engine.chat(context.flow)
        self._client_runs = client_runs
        self._events = events
        self._authenticate = authenticate
        self._places = anyio.CapacityLimiter(max(self._settings.workers, 1))

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/v1/responses", _with_openai_errors(self.create_response), methods=["POST"]),
            Route("/v1/chat/completions", _with_openai_errors(self.complete), methods=["POST"]),
        ]

    # --- Responses --------------------------------------------------------------------------------------------------

    async def create_response(self, request: Request) -> Response:
        """Apply a request to its conversation, and return or stream the response.

        The run continues without a client.
        """
        principal = await self._authenticate(request)
        decider = Decider(principal, self._may_decide)
        key = read_key(request)
        body, _ = await read_object(request, self._settings)
        posted = read_responses_request(body)
        self._require_model(posted.model)
        if posted.options != ChatOptions():
            raise HTTPError(400, _NO_OPTIONS)
        check_messages(posted.given, self._settings)
        if key is not None:
            posted = _with_key(posted, principal, key)
        apply = partial(_apply, posted, is_repeatable=key is not None, chat=self._chat, decider=decider)
        session_id = client_session_id(principal.name, "openai", posted.session)
        found = await self._client_runs.submit(principal, session_id, apply)
        assert found.run is not None  # noqa: S101 - the conversation is not empty
        view = found.snapshot
        if key is not None and posted.given.messages and not found.applied.new_messages:
            view = before_run(view, found.run.id)  # a repeated request receives the same response
        encoder = ResponsesEncoder(view, posted, decider)
        if posted.stream:
            events = self._events.follow(found.run, view, found.ended)
            return EventResponse(partial(send_run, events, encoder), self._streams, {"x-run-id": found.run.id})
        return await self._respond(found, view, encoder)

    async def _respond(self, found: ClientRun, view: Snapshot, encoder: ResponsesEncoder) -> Response:
        assert found.run is not None  # noqa: S101 - the caller has checked this
        async with aclosing(self._events.follow(found.run, view, found.ended)) as events:
            async for event in events:
                if isinstance(event, Paused):
                    return _json_response(encoder.whole(event))
                if isinstance(event, Done):
                    return _json_response(encoder.whole(cast("Done[ChatResponse]", event).response))
        raise AssertionError  # the events of a run end with Done or Paused

    # --- Chat Completions -------------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Response:
        """Answer the posted conversation, which is not stored. The run ends when the client leaves."""
        principal = await self._authenticate(request)
        body, _ = await read_object(request, self._settings)
        posted = read_completions_request(body)
        self._require_model(posted.model)
        for role, turn in list_turns(posted.messages):
            if role == "user":
                check_turn(turn, self._settings)
        chat = cast("Chat[Any, Never]", self._chat)  # the encoder refuses a run that pauses
        encoder = CompletionsEncoder(chat, posted)
        owner = principal.name
        if posted.stream:
            stream = self._chat.stream(posted.messages, options=posted.options, owner=owner)
            send_events = partial(self._send_completion, stream, encoder)
            return EventResponse(send_events, self._streams, ends_at_stop=False)  # nothing is stored to continue with
        outcome = await _run_while_connected(request, partial(self._complete, posted, owner))
        return Response(status_code=_CLIENT_GONE) if outcome is None else _json_response(encoder.whole(outcome))

    async def _complete(self, posted: CompletionsRequest, owner: str) -> ChatResponse | Paused:
        try:
            with anyio.fail_after(self._settings.run_seconds):
                async with self._places:
                    return await self._chat.complete(posted.messages, options=posted.options, owner=owner)
        except TimeoutError:
            raise _timeout_error() from None

    async def _send_completion(
        self, stream: ChatStream[ChatResponse, Paused], encoder: CompletionsEncoder, write: Write
    ) -> None:
        with anyio.move_on_after(self._settings.run_seconds) as limit:
            async with self._places, stream as events:
                await send_run(aiter(events), encoder, write)
        if limit.cancelled_caught:
            await send_failure(_timeout_error(), encoder, write)

    def _require_model(self, name: str) -> None:
        if name != self._model:
            raise HTTPError(404, f"There is no model {name!r}: this service has the model {self._model!r}.")


async def _run_while_connected(request: Request, run: Callable[[], Awaitable[_T]]) -> _T | None:
    """Return the result of `run()`. If the client disconnects first, cancel it and return `None`."""
    outcome: _T | None = None
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_cancel_at_disconnect, request.receive, group.cancel_scope)
        try:
            outcome = await run()
        except Exception as error:  # noqa: BLE001 - raised below, outside of the task group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return outcome


async def _cancel_at_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _timeout_error() -> RunFailedError:
    return RunFailedError("timeout", failure_text("timeout"))


def _json_response(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _with_openai_errors(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that reports refused requests and failed runs in the error format of OpenAI's API."""

    async def respond(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPError as error:
            return _error_response(error.status, error.detail)
        except HTTPException as error:  # the user is above the limit of requests
            response = _error_response(error.status_code, f"{error.detail}.")
            response.headers.update(error.headers or {})
            return response
        except Exception as error:  # noqa: BLE001 - the client learns that the run has failed, whatever the reason
            if not isinstance(error, (ClientInputError, RunFailedError)):
                _log.error("a run for a client of OpenAI's API failed", exc_info=error)
            return Response(error_body(error), error_status(error), media_type="application/json")

    return respond


def _error_response(status: int, message: str) -> Response:
    kind = _TYPES.get(status, "invalid_request_error")
    return json_response({"error": {"message": message, "type": kind, "param": None, "code": CODES[status]}}, status)


def _with_key(posted: ResponsesRequest, principal: Principal, key: str) -> ResponsesRequest:
    """Return a copy of a request whose new session and messages have ids derived from an idempotency key."""
    digest = hashlib.sha256(dumps([principal.name, "v1/responses", key]).encode(errors="surrogatepass")).hexdigest()
    is_new = posted.previous is None and not posted.conversation
    messages = [
        replace(message, id=f"input-{digest[:32]}-{number}") for number, message in enumerate(posted.given.messages)
    ]
    return replace(
        posted, session=digest[:32] if is_new else posted.session, given=replace(posted.given, messages=messages)
    )


def _apply(
    posted: ResponsesRequest, target: Snapshot, /, *, is_repeatable: bool, chat: AnyChat, decider: Decider
) -> AppliedInput:
    """Apply a request, unless the same request was applied before.

    Raises:
        ClientInputError: the request is refused.
        HTTPError: 422 if the idempotency key was used with another message, 409 if another message followed.
    """
    ids = {turn.client_id: turn.text for _, turn in list_turns(target.messages) if turn.client_id is not None}
    new = posted.given.messages
    if is_repeatable and new and new[-1].id in ids:
        if ids[new[-1].id] != new[-1].text:
            raise HTTPError(422, "This Idempotency-Key was used with another request body: use another key.")
        if new[-1].id != list(ids)[-1]:
            raise HTTPError(409, "This Idempotency-Key belongs to an earlier message of the conversation.")
        return AppliedInput(0, 0, up_to_date=True)
    return apply_responses_request(posted, target, chat=chat, decider=decider)
