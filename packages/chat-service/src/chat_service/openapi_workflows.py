"""The OpenAPI description of the routes for workflows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, cast

from chat_service.problems import CODES
from chat_service.settings import ServiceSettings

Json: TypeAlias = dict[str, object]

_TEXT: Final[Json] = {"type": "string"}
_OPTIONAL: Final[Json] = {"type": ["string", "null"]}
_TEXTS: Final[Json] = {"type": "object", "additionalProperties": _TEXT}


def _object(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


def _list(item: Json) -> Json:
    return {"type": "array", "items": item}


_TASK: Final = _object({"id": _TEXT, "runtime": _TEXT, "dependencies": _list(_TEXT)})
_WORKFLOW: Final[Json] = {"name": _TEXT, "description": _TEXT, "tasks": _list(_TASK), "on_event": _OPTIONAL}
_SCHEDULE: Final = _object(
    {"id": _TEXT, "workflow_name": _TEXT, "cron_expr": _TEXT, "timezone": _TEXT, "enabled": {"type": "boolean"}}
)
_STATUS: Final = _object(
    {
        "state": {"enum": ["open", "waiting", "completed", "failed", "timed_out", "skipped"]},
        "output": {},
        "error": _OPTIONAL,
    }
)
_WAITING: Final = _object(
    {
        "task": _TEXT,
        "tool": _TEXT,
        "path": _list(_TEXT),
        "arguments": {"type": "object"},
        "kind": {"enum": ["approval", "schedule", "result", "interrupted"]},
        "inbox": {"type": "string", "description": "Address of the call in the inbox."},
    }
)
_SCHEMAS: Final[Json] = {
    "Workflow": _object({**_WORKFLOW, "definition": _TEXT}),
    "Workflows": _object({"workflows": _list(_object(_WORKFLOW)), "schedules": _list(_SCHEDULE), "errors": _TEXTS}),
    "WorkflowRun": _object(
        {
            "id": _TEXT,
            "workflow": _TEXT,
            "state": {"enum": ["running", "waiting", "completed", "failed", "timed_out", "cancelled"]},
            "owner": {**_OPTIONAL, "description": "The user who started the run."},
            "input": {},
            "tasks": {"type": "object", "additionalProperties": _STATUS},
            "waiting": _list(_WAITING),
        }
    ),
    "WorkflowRuns": _object({"runs": _list({"$ref": "#/components/schemas/WorkflowRun"})}),
}


def _parameter(place: str, name: str, schema: Json) -> Json:
    return {"in": place, "name": name, "required": place == "path", "schema": schema}


def _operation(
    summary: str, status: int, schema: str, *problems: int, body: Json | None = None, parameters: tuple[Json, ...] = ()
) -> Json:
    media = "text/event-stream" if schema == "events" else "application/json"
    answer: Json = _TEXT if schema == "events" else {"$ref": f"#/components/schemas/{schema}"}
    responses: Json = {str(status): {"description": summary, "content": {media: {"schema": answer}}}}
    statuses = {*problems, 401, 403, 429, 500, *((400, 413, 415) if body is not None else ())}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses |= {str(code): {"description": CODES[code], "content": problem} for code in sorted(statuses)}
    found: Json = {"summary": summary, "responses": responses, "parameters": [*parameters]}
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found


def add_workflows(document: Mapping[str, object], settings: ServiceSettings) -> None:
    """Add the routes for workflows to the OpenAPI document of a service.

    Args:
        document: the document. It is changed.
        settings: limits of the service.
    """
    workflow, run = _parameter("path", "workflow", _TEXT), _parameter("path", "run", _TEXT)
    key = _parameter("header", "Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 255})
    limit = _parameter("query", "limit", {"type": "integer", "minimum": 1, "maximum": settings.max_page_size})
    start = _operation(
        "Start a run of a workflow",
        202,
        "WorkflowRun",
        404,
        422,
        body=_object({"input": {}}, ("input",)),
        parameters=(workflow, key),
    )
    retry = _operation(
        "Repeat tasks of a run in a new run",
        202,
        "WorkflowRun",
        404,
        409,
        body=_object({"from_task": _OPTIONAL}, ("from_task",)),
        parameters=(run,),
    )
    name = _parameter("query", "workflow", _TEXT)
    paths = cast("Json", document["paths"])
    paths |= {
        "/api/v1/workflows": {"get": _operation("List workflows", 200, "Workflows")},
        "/api/v1/workflows/{workflow}": {
            "get": _operation("Show a workflow", 200, "Workflow", 404, parameters=(workflow,))
        },
        "/api/v1/workflows/{workflow}/runs": {"post": start},
        "/api/v1/workflow-runs": {
            "get": _operation("List runs of workflows", 200, "WorkflowRuns", 400, parameters=(name, limit))
        },
        "/api/v1/workflow-runs/{run}": {
            "get": _operation("Show a run of a workflow", 200, "WorkflowRun", 404, parameters=(run,))
        },
        "/api/v1/workflow-runs/{run}/events": {
            "get": _operation("Follow a run of a workflow", 200, "events", 404, parameters=(run,))
        },
        "/api/v1/workflow-runs/{run}/cancel": {
            "post": _operation("Cancel a run of a workflow", 200, "WorkflowRun", 404, 409, parameters=(run,))
        },
        "/api/v1/workflow-runs/{run}/retry": {"post": retry},
    }
    cast("dict[str, Json]", document["components"])["schemas"] |= _SCHEMAS
