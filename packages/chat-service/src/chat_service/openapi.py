"""The OpenAPI 3.1 description of the service."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from chat_service._openapi_parts import (
    COUNT,
    FLAG,
    IDEMPOTENCY_KEY,
    OBJECT,
    OPTIONAL_TEXT,
    TEXT,
    TIME,
    Json,
    array,
    describe_problem,
    describe_response,
    operation,
    parameter,
    record,
    reference,
)
from chat_service.openapi_clients import SCHEMAS, client_paths
from chat_service.openapi_memory import MEMORY_SCHEMAS, memory_paths
from chat_service.problems import CODES
from chat_service.request_values import MAX_TITLE
from chat_service.session_archive import FORMAT, VERSION
from chat_service.session_routes import MAX_OFFSET
from chat_service.settings import ServiceSettings

_USAGE: Final = record({"input_tokens": COUNT, "output_tokens": COUNT})
_SESSION: Final[Json] = {
    "id": TEXT,
    "title": OPTIONAL_TEXT,
    "turn_count": COUNT,
    "created_at": TIME,
    "updated_at": TIME,
}
_TURN: Final = record(
    {
        "id": TEXT,
        "user_message": TEXT,
        "assistant_response": OPTIONAL_TEXT,
        "tool_call_count": COUNT,
        "started_at": TIME,
        "completed_at": TIME,
    }
)
_MESSAGE: Final = record(
    {
        "role": {"enum": ["user", "assistant", "tool_use", "tool_result"]},
        "content": TEXT,
        "timestamp": TIME,
        "metadata": OBJECT,
    },
    ("metadata",),
)
_EXPORT: Final = record(
    {
        "format": {"const": FORMAT},
        "version": {"const": VERSION},
        "exported_at": TIME,
        "title": OPTIONAL_TEXT,
        "metadata": {"type": ["object", "null"]},
        "document": {"type": "string", "contentMediaType": "application/json"},
        "signature": TEXT,
    },
    ("exported_at", "title", "metadata"),
)
_SCHEMAS: Final[Json] = {
    "Problem": record(
        {
            "type": TEXT,
            "title": TEXT,
            "status": {"type": "integer"},
            "detail": TEXT,
            "code": {"enum": [*CODES.values()]},
            "message": TEXT,
        }
    ),
    "Health": record({"status": TEXT, "version": TEXT}),
    "Answer": record(
        {
            "session_id": TEXT,
            "run_id": TEXT,
            "response": TEXT,
            "tool_calls": array(record({"id": TEXT, "name": TEXT, "success": FLAG})),
            "truncated": FLAG,
            "usage": _USAGE,
        }
    ),
    "Wait": record(
        {
            "id": {"type": "string", "description": "Names the call in a decision."},
            "tool": TEXT,
            "arguments": OBJECT,
            "kind": {"enum": ["approval", "schedule", "result", "interrupted"]},
            "revision": {"type": "integer", "description": "State of the call, for a decision about this state only."},
            "expires_at": TIME,
            "at": TIME,
        },
        ("expires_at", "at"),
    ),
    "Paused": record(
        {
            "session_id": TEXT,
            "run_id": TEXT,
            "status": {"const": "paused"},
            "waiting": array(reference("Wait")),
        }
    ),
    "Run": record(
        {
            "id": TEXT,
            "session_id": TEXT,
            "state": {"enum": ["queued", "running", "paused", "answered", "failed", "cancelled"]},
            "attempts": COUNT,
            "code": OPTIONAL_TEXT,
            "created_at": TIME,
        }
    ),
    "Session": record({**_SESSION, "metadata": {"type": ["object", "null"]}, "turns": array(_TURN)}),
    "Sessions": record(
        {
            "sessions": array(record(_SESSION)),
            "total": COUNT,
            "limit": COUNT,
            "offset": COUNT,
            "next": OPTIONAL_TEXT,
        }
    ),
    "Export": _EXPORT,
    "Messages": record({"session_id": TEXT, "messages": array(_MESSAGE), "count": COUNT}),
    "Runs": record({"runs": array(reference("Run"))}),
    "Recalled": record({"recalled": array(record({"message": COUNT, "notes": array(OBJECT)}))}),
    "Decided": record({"session_id": TEXT, "run_id": OPTIONAL_TEXT}),
}
_TITLE: Final[Json] = {"type": ["string", "null"], "maxLength": MAX_TITLE}
_CHANGE: Final = record({"title": _TITLE, "metadata": {"type": ["object", "null"]}}, ("title", "metadata"))
_DECISION: Final = record(
    {
        "id": TEXT,
        "action": {"enum": ["approve", "reject", "cancel", "retry", "complete", "fail"]},
        "arguments": {"type": "object", "description": "The arguments that the user saw."},
        "revision": {"type": "integer", "description": "The revision that the user saw."},
        "edited_arguments": OBJECT,
        "reason": TEXT,
        "result": {},
    },
    ("arguments", "revision", "edited_arguments", "reason", "result"),
)


_SESSION_ID: Final = parameter("path", "session", {"type": "string", "format": "uuid"})
_RUN_ID: Final = parameter("path", "run", TEXT)
_AFTER: Final = parameter("query", "after", TEXT)


def _describe_paths(settings: ServiceSettings) -> Json:
    document = {"description": "OpenAPI 3.1", "content": {"application/json": {"schema": OBJECT}}}
    metrics = {"description": "Text format of Prometheus", "content": {"text/plain": {"schema": TEXT}}}
    refused = {str(status): describe_problem(status) for status in (401, 403, 500)}
    health = operation("Check that the process responds", {200: "Health"}, is_open=True)
    ready = {"200": describe_response("Health"), "503": describe_response("Health"), "403": describe_problem(403)}
    return {
        "/health": {"get": health},
        "/health/live": {"get": health},
        "/health/ready": {"get": {**health, "summary": "Check that requests are accepted", "responses": ready}},
        "/openapi.json": {
            "get": {
                "summary": "This document",
                "security": [],
                "responses": {"200": document, "403": describe_problem(403)},
            }
        },
        "/metrics": {"get": {"summary": "Show the metrics", "responses": {"200": metrics, **refused}}},
        **_chat_paths(settings),
        **_session_paths(settings),
        **client_paths(),
    }


def _chat_paths(settings: ServiceSettings) -> Json:
    message = record(
        {
            "message": {"type": "string", "minLength": 1, "maxLength": settings.max_message_bytes},
            "session_id": {"type": ["string", "null"], "format": "uuid"},
            "when_busy": {"enum": ["wait", "refuse"], "default": "wait"},
        },
        ("session_id", "when_busy"),
    )
    key, run = (IDEMPOTENCY_KEY,), (_RUN_ID,)
    answers = {200: "Answer", 202: "Paused"}
    follow = (*run, parameter("header", "Last-Event-ID", TEXT), _AFTER)
    chat = operation("Answer a message", answers, 404, 409, 422, 503, body=message, parameters=key)
    stream = operation("Answer a message as events", {200: "events"}, 404, 409, 422, body=message, parameters=key)
    return {
        "/api/v1/chat": {"post": chat},
        "/api/v1/chat/stream": {"post": stream},
        "/api/v1/runs/{run}": {"get": operation("Show a run", {200: "Run"}, 404, parameters=run)},
        "/api/v1/runs/{run}/events": {"get": operation("Follow a run", {200: "events"}, 400, 404, parameters=follow)},
        "/api/v1/runs/{run}/cancel": {"post": operation("Cancel a run", {200: "Run"}, 404, 409, parameters=run)},
        "/api/v1/runs/{run}/retry": {"post": operation("Retry a run", {202: "Run"}, 404, 409, parameters=run)},
    }


def _session_paths(settings: ServiceSettings) -> Json:
    limit = parameter("query", "limit", {"type": "integer", "minimum": 1, "maximum": settings.max_page_size})
    offset = parameter("query", "offset", {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET})
    state = parameter("query", "state", {"enum": ["open", "closed"], "default": "open"})
    flags = [parameter("query", name, FLAG) for name in ("force", "erase")]
    one, session = (_SESSION_ID,), "/api/v1/sessions/{session}"
    decisions = record({"decisions": {**array(_DECISION), "minItems": 1}})
    close = operation("Close or erase a session", {204: None}, 400, 404, 409, parameters=(*one, *flags))
    decide = operation("Decide waiting calls", {202: "Decided"}, 404, 409, body=decisions, parameters=one)
    return {
        "/api/v1/sessions": {
            "post": operation(
                "Create a session", {201: "Session"}, 404, 422, body=_CHANGE, parameters=(IDEMPOTENCY_KEY,)
            ),
            "get": operation("List sessions", {200: "Sessions"}, 400, parameters=(limit, offset, state, _AFTER)),
        },
        session: {
            "get": operation("Show a session", {200: "Session"}, 400, 404, parameters=one),
            "patch": operation("Change a session", {200: "Session"}, 404, body=_CHANGE, parameters=one),
            "delete": close,
        },
        f"{session}/messages": {
            "get": operation("List the messages of a session", {200: "Messages"}, 400, 404, parameters=one)
        },
        f"{session}/runs": {"get": operation("List the runs of a session", {200: "Runs"}, 400, 404, parameters=one)},
        f"{session}/decisions": {"post": decide},
        f"{session}/export": {"get": operation("Export a session", {200: "Export"}, 400, 404, parameters=one)},
        f"{session}/reopen": {"post": operation("Reopen a session", {200: "Session"}, 400, 404, parameters=one)},
        "/api/v1/import": {"post": operation("Import a session", {201: "Session"}, 409, body=reference("Export"))},
        f"{session}/recalled": {"get": operation("List recalled notes", {200: "Recalled"}, 400, 404, parameters=one)},
        f"{session}/events": {"get": operation("Watch a session", {200: "events"}, 400, 404, parameters=one)},
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
