"""The part of the OpenAPI document that describes the memory of a user."""

from __future__ import annotations

from typing import Final

from chat_service._openapi_parts import (
    COUNT,
    FLAG,
    OPTIONAL_TEXT,
    TEXT,
    TIME,
    Json,
    array,
    operation,
    parameter,
    record,
    reference,
)
from chat_service.memory_routes import MAX_FACT_OFFSET, MAX_FACT_TEXT, MAX_QUESTION, STATUSES
from chat_service.settings import ServiceSettings

_IDS: Final[Json] = array(TEXT)
_FIELD: Final[Json] = {"type": "string", "minLength": 1, "maxLength": MAX_FACT_TEXT}


_MATCH: Final = record(
    {
        "text": TEXT,
        "kind": TEXT,
        "score": {"type": "number"},
        "fact_id": OPTIONAL_TEXT,
        "session_id": OPTIONAL_TEXT,
        "said_at": TIME,
    }
)
MEMORY_SCHEMAS: Final[Json] = {
    "Fact": record(
        {
            "id": TEXT,
            "subject": TEXT,
            "predicate": TEXT,
            "object": TEXT,
            "text": TEXT,
            "status": {"enum": [*STATUSES]},
            "source": TEXT,
            "confidence": {"type": "number"},
            "said_at": TIME,
            "valid_from": TIME,
            "valid_to": TIME,
        }
    ),
    "Facts": record({"facts": array(reference("Fact")), "total": COUNT, "limit": COUNT, "offset": COUNT}),
    "Stored": record(
        {
            "outcome": {"enum": ["inserted", "reinforced", "superseded", "candidate", "historical"]},
            "fact": reference("Fact"),
        }
    ),
    "Found": record({"matches": array(_MATCH), "searched": COUNT, "degraded": FLAG}),
    "Forgotten": record({"redacted": _IDS, "busy": _IDS, "damaged": _IDS}),
    "Memory": {"type": "object", "description": "The whole memory."},
}
"""The schemas of responses about a memory."""
_STATEMENT: Final = record(
    {
        "subject": _FIELD,
        "predicate": _FIELD,
        "object": _FIELD,
        "text": {"type": ["string", "null"], "maxLength": MAX_FACT_TEXT},
        "valid_from": TIME,
        "valid_to": TIME,
    },
    ("text", "valid_from", "valid_to"),
)


def memory_paths(settings: ServiceSettings) -> Json:
    """Return the descriptions of the operations on a memory.

    Args:
        settings: limits of the service.
    """
    page = {"type": "integer", "minimum": 1, "maximum": settings.max_page_size}
    limit: Json = {"in": "query", "name": "limit", "schema": page}
    offset: Json = {"in": "query", "name": "offset", "schema": {**COUNT, "maximum": MAX_FACT_OFFSET}}
    status: Json = {"in": "query", "name": "status", "schema": {"enum": [*STATUSES], "default": STATUSES[0]}}
    text = {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION}
    question: Json = {"in": "query", "name": "q", "required": True, "schema": text}
    fact = parameter("path", "fact", TEXT)
    add = operation("Store a statement of the user", {201: "Stored"}, body=_STATEMENT)
    facts = operation("List facts", {200: "Facts"}, 400, parameters=(limit, offset, status))
    forget = operation("Forget a fact", {200: "Forgotten"}, 404, parameters=(fact,))
    search = operation("Search the memory", {200: "Found"}, 400, parameters=(question, limit))
    return {
        "/api/v1/memory": {"delete": operation("Delete the memory of the user", {204: None})},
        "/api/v1/memory/facts": {"get": facts, "post": add},
        "/api/v1/memory/facts/{fact}": {"delete": forget},
        "/api/v1/memory/search": {"get": search},
        "/api/v1/memory/export": {"get": operation("Export the memory of the user", {200: "Memory"})},
    }
