"""The JSON API of the inbox, which offers the operations of the HTML pages to programs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast, final

from chat_core.approvals import Principal
from chat_core.clock import isoformat
from chat_store import Snapshot, Waiting
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_inbox.approval_service import Action, ApprovalService, Choice
from chat_inbox.event_streams import EventStreams
from chat_inbox.http_errors import HTTPError
from chat_inbox.openapi import build_document
from chat_inbox.security import read_body, require_same_origin
from chat_inbox.tool_calls import build_call_document, waiting_calls
from chat_inbox.url_keys import decode_key, encode_key

PersonResolver: TypeAlias = Callable[[Request], Awaitable[Principal]]
"""A function that returns the authenticated person, or raises `HTTPError` with status 401."""

_FIELDS: Final[Mapping[Action, Mapping[str, type]]] = {
    "approve": {"arguments": dict, "note": str},
    "reject": {"reason": str, "note": str},
    "retry": {"note": str},
    "fail": {"error": str, "note": str},
    "complete": {"result": object, "note": str},
}
_REQUIRED_FIELD: Final[Mapping[Action, str]] = {"fail": "error", "complete": "result"}


@final
class Api:
    """Routes and endpoints of the JSON API."""

    def __init__(self, service: ApprovalService, streams: EventStreams, require_person: PersonResolver) -> None:
        self._service = service
        self._streams = streams
        self._require_person = require_person

    def routes(self) -> list[Route]:
        """Return all routes of the API."""
        conversation, call = "/api/conversations/{conversation}", "/api/conversations/{conversation}/calls/{call}"
        return [
            Route("/openapi.json", self.describe, methods=["GET"]),
            Route("/api/waiting", self.waiting, methods=["GET"]),
            Route("/api/waiting/stream", self.follow_waiting, methods=["GET"]),
            Route(conversation, self.show, methods=["GET"]),
            Route(f"{conversation}/resume", self.resume, methods=["POST"]),
            Route(f"{conversation}/stream", self.follow, methods=["GET"]),
            Route(call, self.show_call, methods=["GET"]),
            *[
                Route(f"{call}/{action}", self._decision_handler(action), methods=["POST"], name=action)
                for action in _FIELDS
            ],
        ]

    async def describe(self, request: Request) -> Response:
        """Return the OpenAPI description of this API."""
        return json_response(build_document(str(request.scope.get("root_path", ""))))

    # --- Reading --------------------------------------------------------------------------------------------------

    async def waiting(self, request: Request) -> Response:
        """Return the waiting calls that the person may decide as JSON, with an ETag."""
        person = await self._require_person(request)
        limit = _parse_limit(request)
        waiting = await self._service.waiting(person, limit)
        return _etag_response(request, {"waiting": [_waiting_document(item) for item in waiting]})

    async def show(self, request: Request) -> Response:
        """Return one conversation as JSON, with an ETag."""
        person = await self._require_person(request)
        snapshot = await self._service.snapshot(person, _conversation_id(request))
        return _etag_response(request, self._conversation_document(person, snapshot))

    async def show_call(self, request: Request) -> Response:
        """Return one call as JSON, with the JSON Schema of its arguments and an ETag."""
        person = await self._require_person(request)
        snapshot = await self._service.snapshot(person, _conversation_id(request))
        return _etag_response(request, self._build_call_document(person, snapshot, _call_path(request)))

    async def follow_waiting(self, request: Request) -> Response:
        """Return an event stream that reports changes to the list of waiting calls.

        The events do not contain the calls.
        """
        await self._require_person(request)
        return self._streams.respond(request, self._service.runs.list_channel, None)

    async def follow(self, request: Request) -> Response:
        """Return an event stream with the streamed text of one conversation and notifications of its changes."""
        person = await self._require_person(request)
        conversation = _conversation_id(request)
        await self._service.snapshot(person, conversation)
        return self._streams.respond(request, self._service.runs.channel(conversation), conversation)

    # --- Deciding -------------------------------------------------------------------------------------------------

    async def resume(self, request: Request) -> Response:
        """Start a run that continues the conversation, and return the conversation as JSON."""
        require_same_origin(request)
        person = await self._require_person(request)
        _require_json(request)
        conversation = _conversation_id(request)
        await self._service.resume(person, conversation)
        snapshot = await self._service.snapshot(person, conversation)
        return json_response(self._conversation_document(person, snapshot), 202)

    def _decision_handler(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that records decisions with the given action, such as `approve`."""

        async def decide(request: Request) -> Response:
            require_same_origin(request)
            person = await self._require_person(request)
            body = await _json_body(request)
            version, resume, choice = _parse_choice(action, body)
            path = _call_path(request)
            saved = await self._service.decide(person, _conversation_id(request), path, version, choice, resume=resume)
            return json_response(self._build_call_document(person, saved, path))

        return decide

    # --- Documents ------------------------------------------------------------------------------------------------

    def _conversation_document(self, person: Principal, snapshot: Snapshot) -> dict[str, object]:
        channel = self._service.runs.channel(snapshot.id)
        return {
            "conversation": encode_key(snapshot.id),
            "id": snapshot.id,
            "person": snapshot.person,
            "revision": snapshot.revision,
            "running": channel.running,
            "outcome": channel.outcome,
            "detail": channel.detail,
            "place": self._streams.format_position(channel),
            "waiting": [
                build_call_document(tool, path, encode_key(*path), may_decide=True)
                for path, tool in waiting_calls(snapshot.messages)
                if self._service.may_decide(person, snapshot, path, tool)
            ],
            "messages": json.loads(snapshot.messages.to_json()),
        }

    def _build_call_document(self, person: Principal, snapshot: Snapshot, path: tuple[str, ...]) -> dict[str, object]:
        tool = self._service.find_call(snapshot, path)
        definition = self._service.tool_definition(snapshot.id, snapshot.messages, path)
        schema = None if definition is None else dict(definition.declaration.parameters)
        may_decide = self._service.may_decide(person, snapshot, path, tool)
        return {**build_call_document(tool, path, encode_key(*path), may_decide=may_decide), "schema": schema}


def _waiting_document(item: Waiting) -> dict[str, object]:
    wait = item.wait
    return {
        "conversation": encode_key(item.conversation),
        "id": item.conversation,
        "person": item.person,
        "call": encode_key(*wait.path),
        "path": list(wait.path),
        "waits_for": wait.kind,
        "name": wait.name,
        "arguments": dict(wait.arguments),
        "expires_at": isoformat(wait.expires_at),
        "at": isoformat(wait.at),
        "error": wait.error,
    }


def json_response(content: object, status: int = 200, kind: str = "application/json") -> Response:
    """Return a response with `content` as ASCII JSON.

    ASCII keeps lone surrogates, which truncated model output can contain and which UTF-8 cannot encode.

    Args:
        content: JSON value.
        status: HTTP status code.
        kind: media type for the `Content-Type` header.
    """
    body = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(body, status_code=status, media_type=kind)


def _etag_response(request: Request, content: dict[str, object]) -> Response:
    """Return a response with `content` as JSON and an ETag, or a 304 response if the client already has it."""
    response = json_response(content)
    # A weak ETag promises equal content, not equal bytes.
    tag = f'W/"{short_hash(response.body)}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"etag": tag})
    response.headers["etag"] = tag
    return response


def short_hash(body: bytes | memoryview) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of `body`."""
    return hashlib.sha256(body).hexdigest()[:16]


def _conversation_id(request: Request) -> str:
    return decode_key(request.path_params["conversation"])[0]


def _call_path(request: Request) -> tuple[str, ...]:
    return decode_key(request.path_params["call"])


def _parse_limit(request: Request) -> int | None:
    text = request.query_params.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10):  # noqa: PLR2004 - more digits than any list needs
        raise HTTPError(400, f"limit must be an integer, such as 50, not {text!r}.")
    return int(text)


def _require_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPError(415, "The body must be JSON: send it with content-type: application/json.")


async def _json_body(request: Request) -> Mapping[str, object]:
    _require_json(request)
    try:
        body: object = json.loads(await read_body(request), parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise HTTPError(400, f"The body is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise HTTPError(400, f"The body must be a JSON object, not {type(body).__name__}.")
    return cast("dict[str, object]", body)


def _reject_constant(text: str) -> object:
    msg = f"{text} is not valid JSON"
    raise ValueError(msg)


def _parse_choice(action: Action, body: Mapping[str, object]) -> tuple[str, bool, Choice]:
    """Validate and parse the JSON body of a decision.

    Args:
        action: action of the requested URL.
        body: decoded body.

    Returns:
        The version of the call that the client saw, whether to start a run after the decision, and the decision.

    Raises:
        HTTPError: a field is unknown, missing or of the wrong type.
    """
    fields: dict[str, type] = {"version": str, "resume": bool, **_FIELDS[action]}
    errors = {
        name: f"there is no such field; {action} takes {', '.join(fields)}" for name in body if name not in fields
    }
    for name, kind in fields.items():
        value = body.get(name)
        if name in body and not isinstance(value, kind) and not (value is None and name in ("note", "reason")):
            errors[name] = f"this must be {_TYPE_NAMES[kind]}, not {value!r:.60}"
    missing = [name for name in ("version", _REQUIRED_FIELD.get(action)) if name is not None and name not in body]
    errors |= dict.fromkeys(missing, "this field is required")
    if errors:
        raise HTTPError(400, "The body is not valid for this decision; nothing was decided.", errors=errors)
    text = body.get("reason", body.get("error"))
    choice = Choice(
        action,
        cast("Mapping[str, object] | None", body.get("arguments")),
        cast("str | None", text),
        cast("str | None", body.get("note")),
        body.get("result"),
    )
    return cast("str", body["version"]), bool(body.get("resume", True)), choice


_TYPE_NAMES: Final[Mapping[type, str]] = {str: "a string", bool: "true or false", dict: "an object", object: "JSON"}
