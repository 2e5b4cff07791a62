"""The parts from which the OpenAPI document of the service is made: schemas, parameters, responses and operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from chat_service.problems import CODES

Json: TypeAlias = dict[str, object]

TEXT: Final[Json] = {"type": "string"}
OPTIONAL_TEXT: Final[Json] = {"type": ["string", "null"]}
TIME: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
OBJECT: Final[Json] = {"type": "object"}
COUNT: Final[Json] = {"type": "integer", "minimum": 0}
FLAG: Final[Json] = {"type": "boolean"}
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


def record(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    """Return the schema of an object.

    Args:
        properties: schema of each property, by name.
        optional: names of the properties that may be absent.
    """
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def array(item: Json) -> Json:
    """Return the schema of an array whose items have the given schema."""
    return {"type": "array", "items": item}


def reference(name: str) -> Json:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def parameter(place: str, name: str, schema: Json) -> Json:
    """Return the description of a parameter.

    Args:
        place: `"path"`, `"query"` or `"header"`. Only a parameter in the path is required.
        name: the name of the parameter.
        schema: the schema of its value.
    """
    return {"in": place, "name": name, "required": place == "path", "schema": schema}


IDEMPOTENCY_KEY: Final = parameter("header", "Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 255})


def operation(
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
    responses: Json = {str(status): describe_response(schema) for status, schema in answers.items()}
    statuses = {*problems, 403, *(() if is_open else (401, 429, 500)), *((400, 413, 415) if body is not None else ())}
    responses |= {str(status): describe_problem(status) for status in sorted(statuses)}
    found: Json = {"summary": summary, "responses": responses, "parameters": [*parameters]}
    if body is not None:
        found["requestBody"] = describe_body(body)
    return {**found, "security": []} if is_open else found


def describe_body(schema: Json) -> Json:
    """Return the description of the body of a request."""
    return {"required": True, "content": json_content(schema)}


def json_content(schema: Json) -> Json:
    """Return the description of a body with the media type `application/json`."""
    return {"application/json": {"schema": schema}}


def describe_problem(status: int) -> Json:
    """Return the description of an error response."""
    content = {"application/problem+json": {"schema": reference("Problem")}}
    return {"description": CODES[status], "content": content}


def describe_response(schema: str | None) -> Json:
    """Return the description of a successful response.

    Args:
        schema: name of the schema of its body. `None` means no body, `events` an event stream.
    """
    if schema is None:
        return {"description": "No content"}
    if schema == "events":
        text = "Events: session, text, reset, tool_start, tool_output, tool_end, and at last done, paused or error."
        return {"description": text, "content": {"text/event-stream": {"schema": _EVENT}}}
    return {"description": schema, "content": json_content(reference(schema))}
