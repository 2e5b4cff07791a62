"""The OpenAPI 3.1 description of the service."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final, TypeAlias

from chat_service.openapi_clients import SCHEMAS, client_paths
from chat_service.openapi_memory import MEMORY_SCHEMAS, memory_paths
from chat_service.problems import CODES
from chat_service.request_values import MAX_TITLE
from chat_service.session_archive import FORMAT, VERSION
from chat_service.session_routes import MAX_OFFSET
from chat_service.settings import ServiceSettings

Json: TypeAlias = dict[str, object]

_TEXT: Final[Json] = {"type": "string"}
_OPTIONAL: Final[Json] = {"type": ["string", "null"]}
_TIME: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
_OBJECT: Final[Json] = {"type": "object"}
_EVENT: Final[Json] = {
    "description": "Each event of the stream.",
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string", "description": "A value for Last-Event-ID."},
    },
    "required": ["event", "data"],
}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_FLAG: Final[Json] = {"type": "boolean"}


def _object_schema(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _list(schema: Json) -> Json:
    return {"type": "array", "items": schema}


def _schema_reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_USAGE: Final = _object_schema({"input_tokens": _COUNT, "output_tokens": _COUNT})
_SESSION: Final[Json] = {
    "id": _TEXT,
    "title": _OPTIONAL,
    "turn_count": _COUNT,
    "created_at": _TIME,
    "updated_at": _TIME,
}
_TURN: Final = _object_schema(
    {
        "id": _TEXT,
        "user_message": _TEXT,
        "assistant_response": _OPTIONAL,
        "tool_call_count": _COUNT,
        "started_at": _TIME,
        "completed_at": _TIME,
    }
)
_MESSAGE: Final = _object_schema(
    {
        "role": {"enum": ["user", "assistant", "tool_use", "tool_result"]},
        "content": _TEXT,
        "timestamp": _TIME,
        "metadata": _OBJECT,
    },
    ("metadata",),
)
_EXPORT: Final = _object_schema(
    {
        "format": {"const": FORMAT},
        "version": {"const": VERSION},
        "exported_at": _TIME,
        "title": _OPTIONAL,
        "metadata": {"type": ["object", "null"]},
        "document": {"type": "string", "contentMediaType": "application/json"},
        "signature": _TEXT,
    },
    ("exported_at", "title", "metadata"),
)
_SCHEMAS: Final[Json] = {
    "Problem": _object_schema(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "code": {"enum": [*CODES.values()]},
            "message": _TEXT,
        }
    ),
    "Health": _object_schema({"status": _TEXT, "version": _TEXT}),
    "Answer": _object_schema(
        {
            "session_id": _TEXT,
            "run_id": _TEXT,
            "response": _TEXT,
            "tool_calls": _list(_object_schema({"id": _TEXT, "name": _TEXT, "success": _FLAG})),
            "truncated": _FLAG,
            "usage": _USAGE,
        }
    ),
    "Wait": _object_schema(
        {
            "id": {"type": "string", "description": "Names the call in a decision."},
            "tool": _TEXT,
            "arguments": _OBJECT,
            "kind": {"enum": ["approval", "schedule", "result", "interrupted"]},
            "revision": {"type": "integer", "description": "State of the call, for a decision about this state only."},
            "expires_at": _TIME,
            "at": _TIME,
        },
        ("expires_at", "at"),
    ),
    "Paused": _object_schema(
        {
            "session_id": _TEXT,
            "run_id": _TEXT,
            "status": {"const": "paused"},
            "waiting": _list(_schema_reference("Wait")),
        }
    ),
    "Run": _object_schema(
        {
            "id": _TEXT,
            "session_id": _TEXT,
            "state": {"enum": ["queued", "running", "paused", "answered", "failed", "cancelled"]},
            "attempts": _COUNT,
            "code": _OPTIONAL,
            "created_at": _TIME,
        }
    ),
    "Session": _object_schema({**_SESSION, "metadata": {"type": ["object", "null"]}, "turns": _list(_TURN)}),
    "Sessions": _object_schema(
        {
            "sessions": _list(_object_schema(_SESSION)),
            "total": _COUNT,
            "limit": _COUNT,
            "offset": _COUNT,
            "next": _OPTIONAL,
        }
    ),
    "Export": _EXPORT,
    "Messages": _object_schema({"session_id": _TEXT, "messages": _list(_MESSAGE), "count": _COUNT}),
    "Runs": _object_schema({"runs": _list(_schema_reference("Run"))}),
    "Recalled": _object_schema({"recalled": _list(_object_schema({"message": _COUNT, "notes": _list(_OBJECT)}))}),
    "Decided": _object_schema({"session_id": _TEXT, "run_id": _OPTIONAL}),
}
_TITLE: Final[Json] = {"type": ["string", "null"], "maxLength": MAX_TITLE}
_CHANGE: Final = _object_schema({"title": _TITLE, "metadata": {"type": ["object", "null"]}}, ("title", "metadata"))
_DECISION: Final = _object_schema(
    {
        "id": _TEXT,
        "action": {"enum": ["approve", "reject", "cancel", "retry", "complete", "fail"]},
        "arguments": {"type": "object", "description": "The arguments that the user saw."},
        "revision": {"type": "integer", "description": "The revision that the user saw."},
        "edited_arguments": _OBJECT,
        "reason": _TEXT,
        "result": {},
    },
    ("arguments", "revision", "edited_arguments", "reason", "result"),
)


def _describe_parameter(place: str, name: str, schema: Json) -> Json:
    return {"in": place, "name": name, "required": place == "path", "schema": schema}


_SESSION_ID: Final = _describe_parameter("path", "session", {"type": "string", "format": "uuid"})
_RUN_ID: Final = _describe_parameter("path", "run", _TEXT)
_AFTER: Final = _describe_parameter("query", "after", _TEXT)
_KEY: Final = _describe_parameter("header", "Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 255})


def _describe_operation(
    summary: str,
    answers: Mapping[int, str | None],
    *problems: int,
    body: Json | None = None,
    parameters: tuple[Json, ...] = (),
    is_open: bool = False,
) -> Json:
    """Return the description of an operation.

    Args:
        summary: summary of the operation.
        answers: schema of the response body, by successful status. `None` means no body, `events` an event stream.
        *problems: error statuses, in addition to those of every operation.
        body: schema of the body of the request.
        parameters: parameters of the request.
        is_open: whether the operation can be used without authentication.
    """
    responses: Json = {str(status): _describe_response(schema) for status, schema in answers.items()}
    statuses = {*problems, 403, *(() if is_open else (401, 429, 500)), *((400, 413, 415) if body is not None else ())}
    responses |= {str(status): _describe_problem(status) for status in sorted(statuses)}
    found: Json = {"summary": summary, "responses": responses, "parameters": [*parameters]}
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return {**found, "security": []} if is_open else found


def _describe_problem(status: int) -> Json:
    return {
        "description": CODES[status],
        "content": {"application/problem+json": {"schema": _schema_reference("Problem")}},
    }


def _describe_response(schema: str | None) -> Json:
    if schema is None:
        return {"description": "No content"}
    if schema == "events":
        text = "Events: session, text, reset, tool_start, tool_output, tool_end, and at last done, paused or error."
        return {"description": text, "content": {"text/event-stream": {"schema": _EVENT}}}
    return {"description": schema, "content": {"application/json": {"schema": _schema_reference(schema)}}}


def _describe_paths(settings: ServiceSettings) -> Json:
    document = {"description": "OpenAPI 3.1", "content": {"application/json": {"schema": _OBJECT}}}
    metrics = {"description": "Text format of Prometheus", "content": {"text/plain": {"schema": _TEXT}}}
    refused = {str(status): _describe_problem(status) for status in (401, 403, 500)}
    health = _describe_operation("Check that the process responds", {200: "Health"}, is_open=True)
    ready = {"200": _describe_response("Health"), "503": _describe_response("Health"), "403": _describe_problem(403)}
    return {
        "/health": {"get": health},
        "/health/live": {"get": health},
        "/health/ready": {"get": {**health, "summary": "Check that requests are accepted", "responses": ready}},
        "/openapi.json": {
            "get": {
                "summary": "This document",
                "security": [],
                "responses": {"200": document, "403": _describe_problem(403)},
            }
        },
        "/metrics": {"get": {"summary": "Show the metrics", "responses": {"200": metrics, **refused}}},
        **_chat_paths(settings),
        **_session_paths(settings),
        **client_paths(),
    }


def _chat_paths(settings: ServiceSettings) -> Json:
    message = _object_schema(
        {
            "message": {"type": "string", "minLength": 1, "maxLength": settings.max_message_bytes},
            "session_id": {"type": ["string", "null"], "format": "uuid"},
            "when_busy": {"enum": ["wait", "refuse"], "default": "wait"},
        },
        ("session_id", "when_busy"),
    )
    key, run = (_KEY,), (_RUN_ID,)
    answers = {200: "Answer", 202: "Paused"}
    follow = (*run, _describe_parameter("header", "Last-Event-ID", _TEXT), _AFTER)
    chat = _describe_operation("Answer a message", answers, 404, 409, 422, 503, body=message, parameters=key)
    stream = _describe_operation(
        "Answer a message as events", {200: "events"}, 404, 409, 422, body=message, parameters=key
    )
    return {
        "/api/v1/chat": {"post": chat},
        "/api/v1/chat/stream": {"post": stream},
        "/api/v1/runs/{run}": {"get": _describe_operation("Show a run", {200: "Run"}, 404, parameters=run)},
        "/api/v1/runs/{run}/events": {
            "get": _describe_operation("Follow a run", {200: "events"}, 400, 404, parameters=follow)
        },
        "/api/v1/runs/{run}/cancel": {
            "post": _describe_operation("Cancel a run", {200: "Run"}, 404, 409, parameters=run)
        },
        "/api/v1/runs/{run}/retry": {
            "post": _describe_operation("Retry a run", {202: "Run"}, 404, 409, parameters=run)
        },
    }


def _session_paths(settings: ServiceSettings) -> Json:
    limit = _describe_parameter("query", "limit", {"type": "integer", "minimum": 1, "maximum": settings.max_page_size})
    offset = _describe_parameter("query", "offset", {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET})
    state = _describe_parameter("query", "state", {"enum": ["open", "closed"], "default": "open"})
    flags = [_describe_parameter("query", name, _FLAG) for name in ("force", "erase")]
    one, session = (_SESSION_ID,), "/api/v1/sessions/{session}"
    decisions = _object_schema({"decisions": {**_list(_DECISION), "minItems": 1}})
    close = _describe_operation("Close or erase a session", {204: None}, 400, 404, 409, parameters=(*one, *flags))
    decide = _describe_operation("Decide waiting calls", {202: "Decided"}, 404, 409, body=decisions, parameters=one)
    return {
        "/api/v1/sessions": {
            "post": _describe_operation("Create a session", {201: "Session"}, body=_CHANGE),
            "get": _describe_operation(
                "List sessions", {200: "Sessions"}, 400, parameters=(limit, offset, state, _AFTER)
            ),
        },
        session: {
            "get": _describe_operation("Show a session", {200: "Session"}, 400, 404, parameters=one),
            "patch": _describe_operation("Change a session", {200: "Session"}, 404, body=_CHANGE, parameters=one),
            "delete": close,
        },
        f"{session}/messages": {
            "get": _describe_operation("List the messages of a session", {200: "Messages"}, 400, 404, parameters=one)
        },
        f"{session}/runs": {
            "get": _describe_operation("List the runs of a session", {200: "Runs"}, 400, 404, parameters=one)
        },
        f"{session}/decisions": {"post": decide},
        f"{session}/export": {
            "get": _describe_operation("Export a session", {200: "Export"}, 400, 404, parameters=one)
        },
        f"{session}/reopen": {
            "post": _describe_operation("Reopen a session", {200: "Session"}, 400, 404, parameters=one)
        },
        "/api/v1/import": {
            "post": _describe_operation("Import a session", {201: "Session"}, 409, body=_schema_reference("Export"))
        },
        f"{session}/recalled": {
            "get": _describe_operation("List recalled notes", {200: "Recalled"}, 400, 404, parameters=one)
        },
        f"{session}/events": {"get": _describe_operation("Watch a session", {200: "events"}, 400, 404, parameters=one)},
    }


def build_document(settings: ServiceSettings, *, has_memory: bool = False) -> Json:
    """Return the OpenAPI document.

    Args:
        settings: limits of the service.
        has_memory: whether the service has the routes for the memory of a user.
    """
    return {
        "openapi": "3.1.0",
        "info": {"title": "chat-service", "version": version("chat-service")},
        "paths": {**_describe_paths(settings), **(memory_paths(settings) if has_memory else {})},
        "components": {
            "schemas": {**_SCHEMAS, **SCHEMAS, **(MEMORY_SCHEMAS if has_memory else {})},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }
