"""The part of the OpenAPI document that describes the memory of a user."""

from __future__ import annotations

from typing import Final, TypeAlias

from chat_service.memory_routes import MAX_FACT_OFFSET, MAX_FACT_TEXT, MAX_QUESTION, STATUSES
from chat_service.problems import CODES
from chat_service.settings import ServiceSettings

Json: TypeAlias = dict[str, object]

_TEXT: Final[Json] = {"type": "string"}
_OPTIONAL: Final[Json] = {"type": ["string", "null"]}
_TIME: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_IDS: Final[Json] = {"type": "array", "items": _TEXT}
_FIELD: Final[Json] = {"type": "string", "minLength": 1, "maxLength": MAX_FACT_TEXT}


def _object(properties: Json, *, optional: tuple[str, ...] = ()) -> Json:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _list_of(name: str) -> Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


_MATCH: Final = _object(
    {
        "text": _TEXT,
        "kind": _TEXT,
        "score": {"type": "number"},
        "fact_id": _OPTIONAL,
        "session_id": _OPTIONAL,
        "said_at": _TIME,
    }
)
MEMORY_SCHEMAS: Final[Json] = {
    "Fact": _object(
        {
            "id": _TEXT,
            "subject": _TEXT,
            "predicate": _TEXT,
            "object": _TEXT,
            "text": _TEXT,
            "status": {"enum": [*STATUSES]},
            "source": _TEXT,
            "confidence": {"type": "number"},
            "said_at": _TIME,
            "valid_from": _TIME,
            "valid_to": _TIME,
        }
    ),
    "Facts": _object({"facts": _list_of("Fact"), "total": _COUNT, "limit": _COUNT, "offset": _COUNT}),
    "Stored": _object(
        {
            "outcome": {"enum": ["inserted", "reinforced", "superseded", "candidate", "historical"]},
            "fact": {"$ref": "#/components/schemas/Fact"},
        }
    ),
    "Found": _object(
        {"matches": {"type": "array", "items": _MATCH}, "searched": _COUNT, "degraded": {"type": "boolean"}}
    ),
    "Forgotten": _object({"redacted": _IDS, "busy": _IDS, "damaged": _IDS}),
    "Memory": {"type": "object", "description": "The whole memory."},
}
"""The schemas of responses about a memory."""
_STATEMENT: Final = _object(
    {
        "subject": _FIELD,
        "predicate": _FIELD,
        "object": _FIELD,
        "text": {"type": ["string", "null"], "maxLength": MAX_FACT_TEXT},
        "valid_from": _TIME,
        "valid_to": _TIME,
    },
    optional=("text", "valid_from", "valid_to"),
)


def _operation(
    summary: str, status: int, schema: str | None, *problems: int, parameters: tuple[Json, ...] = ()
) -> Json:
    """Return the description of an operation.

    Args:
        summary: summary of the operation.
        status: status of a successful response.
        schema: schema of its body, or `None` if it has none.
        *problems: error statuses, in addition to those of every operation.
        parameters: parameters of the request.
    """
    reference = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    answer: Json = {"description": "No content"} if schema is None else {"description": schema, "content": reference}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    refused: Json = {
        str(code): {"description": CODES[code], "content": problem} for code in sorted({401, 403, 429, 500, *problems})
    }
    return {"summary": summary, "responses": {str(status): answer, **refused}, "parameters": [*parameters]}


def memory_paths(settings: ServiceSettings) -> Json:
    """Return the descriptions of the operations on a memory.

    Args:
        settings: limits of the service.
    """
    page = {"type": "integer", "minimum": 1, "maximum": settings.max_page_size}
    limit: Json = {"in": "query", "name": "limit", "schema": page}
    offset: Json = {"in": "query", "name": "offset", "schema": {**_COUNT, "maximum": MAX_FACT_OFFSET}}
    status: Json = {"in": "query", "name": "status", "schema": {"enum": [*STATUSES], "default": STATUSES[0]}}
    text = {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION}
    question: Json = {"in": "query", "name": "q", "required": True, "schema": text}
    fact: Json = {"in": "path", "name": "fact", "required": True, "schema": _TEXT}
    body = {"required": True, "content": {"application/json": {"schema": _STATEMENT}}}
    add = {**_operation("Store a statement of the user", 201, "Stored", 400, 413, 415), "requestBody": body}
    facts = _operation("List facts", 200, "Facts", 400, parameters=(limit, offset, status))
    forget = _operation("Forget a fact", 200, "Forgotten", 404, parameters=(fact,))
    search = _operation("Search the memory", 200, "Found", 400, parameters=(question, limit))
    return {
        "/api/v1/memory": {"delete": _operation("Delete the memory of the user", 204, None)},
        "/api/v1/memory/facts": {"get": facts, "post": add},
        "/api/v1/memory/facts/{fact}": {"delete": forget},
        "/api/v1/memory/search": {"get": search},
        "/api/v1/memory/export": {"get": _operation("Export the memory of the user", 200, "Memory")},
    }
