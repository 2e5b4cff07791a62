"""The JSON API: what the pages do, for programs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast, final

from chat_store import Snapshot, Waiting
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_inbox.approval_service import Action, ApprovalService, Choice
from chat_inbox.event_streams import Streams
from chat_inbox.http_errors import ProblemError
from chat_inbox.openapi import document
from chat_inbox.security import body_of, require_same_origin
from chat_inbox.tool_calls import call_document, waiting_in
from chat_inbox.url_keys import ids_of, key_of

WhoAsks: TypeAlias = Callable[[Request], Awaitable[str]]

_FIELDS: Final[Mapping[Action, Mapping[str, type]]] = {
    "approve": {"arguments": dict, "note": str},
    "reject": {"reason": str, "note": str},
    "retry": {"note": str},
    "fail": {"error": str, "note": str},
    "complete": {"result": object, "note": str},
}
_NEEDED: Final[Mapping[Action, str]] = {"fail": "error", "complete": "result"}


@final
class Api:
    """The routes of the API."""

    def __init__(self, desk: ApprovalService, streams: Streams, who: WhoAsks) -> None:
        self._desk = desk
        self._streams = streams
        self._who = who

    def routes(self) -> list[Route]:
        """All of them."""
        one, call = "/api/conversations/{conversation}", "/api/conversations/{conversation}/calls/{call}"
        return [
            Route("/openapi.json", self.describe, methods=["GET"]),
            Route("/api/waiting", self.waiting, methods=["GET"]),
            Route("/api/waiting/stream", self.follow_waiting, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(f"{one}/resume", self.resume, methods=["POST"]),
            Route(f"{one}/stream", self.follow, methods=["GET"]),
            Route(call, self.show_call, methods=["GET"]),
            *[Route(f"{call}/{action}", self._decision(action), methods=["POST"], name=action) for action in _FIELDS],
        ]

    async def describe(self, request: Request) -> Response:
        """The description of this API."""
        return json_answer(document(str(request.scope.get("root_path", ""))))

    # --- Looking --------------------------------------------------------------------------------------------------

    async def waiting(self, request: Request) -> Response:
        """What waits, with an ETag."""
        person = await self._who(request)
        limit = _limit(request)
        found = await self._desk.waiting(person, limit)
        return _tagged(request, {"waiting": [_waiting_document(item) for item in found]})

    async def show(self, request: Request) -> Response:
        """A conversation."""
        person = await self._who(request)
        snapshot = await self._desk.snapshot(person, _conversation(request))
        return _tagged(request, self._document(snapshot))

    async def show_call(self, request: Request) -> Response:
        """A call."""
        person = await self._who(request)
        snapshot = await self._desk.snapshot(person, _conversation(request))
        return _tagged(request, self._call_document(snapshot, _path(request)))

    async def follow_waiting(self, request: Request) -> Response:
        """What changes in the list."""
        await self._who(request)
        return self._streams.answer(request, self._desk.runs.front, None)

    async def follow(self, request: Request) -> Response:
        """What happens to a conversation."""
        person = await self._who(request)
        conversation = _conversation(request)
        await self._desk.snapshot(person, conversation)
        return self._streams.answer(request, self._desk.runs.channel(conversation), conversation)

    # --- Deciding -------------------------------------------------------------------------------------------------

    async def resume(self, request: Request) -> Response:
        """Go on with a conversation."""
        require_same_origin(request)
        person = await self._who(request)
        _require_json(request)
        conversation = _conversation(request)
        await self._desk.resume(person, conversation)
        snapshot = await self._desk.snapshot(person, conversation)
        return json_answer(self._document(snapshot), 202)

    def _decision(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def decide(request: Request) -> Response:
            require_same_origin(request)
            person = await self._who(request)
            body = await _json_body(request)
            version, go_on, choice = _choice(action, body)
            path = _path(request)
            saved = await self._desk.decide(person, _conversation(request), path, version, choice, go_on=go_on)
            return json_answer(self._call_document(saved, path))

        return decide

    # --- Below: documents -----------------------------------------------------------------------------------------

    def _document(self, snapshot: Snapshot) -> dict[str, object]:
        channel = self._desk.runs.channel(snapshot.id)
        return {
            "conversation": key_of(snapshot.id),
            "id": snapshot.id,
            "person": snapshot.person,
            "revision": snapshot.revision,
            "running": channel.running,
            "outcome": channel.outcome,
            "detail": channel.detail,
            "place": self._streams.place(channel),
            "waiting": [call_document(tool, path, key_of(*path)) for path, tool in waiting_in(snapshot.messages)],
            "messages": json.loads(snapshot.messages.to_json()),
        }

    def _call_document(self, snapshot: Snapshot, path: tuple[str, ...]) -> dict[str, object]:
        tool = self._desk.find(snapshot, path)
        definition = self._desk.definition(snapshot.id, snapshot.messages, path)
        schema = None if definition is None else dict(definition.declaration.parameters)
        return {**call_document(tool, path, key_of(*path)), "schema": schema}


def _waiting_document(item: Waiting) -> dict[str, object]:
    wait = item.wait
    return {
        "conversation": key_of(item.conversation),
        "id": item.conversation,
        "person": item.person,
        "call": key_of(*wait.path),
        "path": list(wait.path),
        "waits_for": wait.kind,
        "name": wait.name,
        "arguments": dict(wait.arguments),
        "expires_at": wait.expires_at.isoformat() if wait.expires_at else None,
        "at": wait.at.isoformat() if wait.at else None,
        "error": wait.error,
    }


def json_answer(told: object, status: int = 200, kind: str = "application/json") -> Response:
    """JSON in ASCII: half of a character, which a stream that was cut leaves behind, has no place in UTF-8."""
    body = json.dumps(told, allow_nan=False, separators=(",", ":"))
    return Response(body, status_code=status, media_type=kind)


def _tagged(request: Request, told: dict[str, object]) -> Response:
    answer = json_answer(told)
    # `weak`: the same facts, whatever the bytes; it is compared, never stored.
    tag = f'W/"{hash_of(answer.body)}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"etag": tag})
    answer.headers["etag"] = tag
    return answer


def hash_of(body: bytes | memoryview) -> str:
    """A short name for some bytes."""
    import hashlib  # noqa: PLC0415 - a reader finds it where it is used

    return hashlib.sha256(body).hexdigest()[:16]


def _conversation(request: Request) -> str:
    return ids_of(request.path_params["conversation"])[0]


def _path(request: Request) -> tuple[str, ...]:
    return ids_of(request.path_params["call"])


def _limit(request: Request) -> int | None:
    text = request.query_params.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10):  # noqa: PLR2004 - enough for anybody
        raise ProblemError(400, f"limit is a whole number, such as 50, not {text!r}.")
    return int(text)


def _require_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(415, "The body must be JSON: send it with content-type: application/json.")


async def _json_body(request: Request) -> Mapping[str, object]:
    _require_json(request)
    try:
        body: object = json.loads(await body_of(request), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ProblemError(400, f"The body is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise ProblemError(400, "The body must be a JSON object.")
    return cast("dict[str, object]", body)


def _no_constant(text: str) -> object:
    msg = f"{text} is no JSON"
    raise ValueError(msg)


def _choice(action: Action, body: Mapping[str, object]) -> tuple[str, bool, Choice]:
    fields: dict[str, type] = {"version": str, "resume": bool, **_FIELDS[action]}
    errors = {
        name: f"there is no such field; {action} takes {', '.join(fields)}" for name in body if name not in fields
    }
    for name, kind in fields.items():
        value = body.get(name)
        if name in body and not isinstance(value, kind) and not (value is None and name in ("note", "reason")):
            errors[name] = f"this must be {_WORDS[kind]}"
    needed = [name for name in ("version", _NEEDED.get(action)) if name is not None and name not in body]
    errors |= dict.fromkeys(needed, "this is needed")
    if errors:
        raise ProblemError(400, "The body is not what this takes; nothing was decided.", errors=errors)
    text = body.get("reason", body.get("error"))
    choice = Choice(
        action,
        cast("Mapping[str, object] | None", body.get("arguments")),
        cast("str | None", text),
        cast("str | None", body.get("note")),
        body.get("result"),
    )
    return cast("str", body["version"]), bool(body.get("resume", True)), choice


_WORDS: Final[Mapping[type, str]] = {str: "a string", bool: "true or false", dict: "an object", object: "JSON"}
