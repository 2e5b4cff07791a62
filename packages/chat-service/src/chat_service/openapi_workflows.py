"""The OpenAPI description of the routes for workflows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from chat_service._openapi_parts import (
    FLAG,
    IDEMPOTENCY_KEY,
    OBJECT,
    OPTIONAL_TEXT,
    TEXT,
    Json,
    array,
    describe_body,
    describe_problem,
    parameter,
    record,
    reference,
)
from chat_service.settings import ServiceSettings

_TEXTS: Final[Json] = {"type": "object", "additionalProperties": TEXT}


_TASK: Final = record({"id": TEXT, "runtime": TEXT, "dependencies": array(TEXT)})
_WORKFLOW: Final[Json] = {"name": TEXT, "description": TEXT, "tasks": array(_TASK), "on_event": OPTIONAL_TEXT}
_SCHEDULE: Final = record({"id": TEXT, "workflow_name": TEXT, "cron_expr": TEXT, "timezone": TEXT, "enabled": FLAG})
_STATUS: Final = record(
    {
        "state": {"enum": ["open", "waiting", "completed", "failed", "timed_out", "skipped"]},
        "output": {},
        "error": OPTIONAL_TEXT,
    }
)
_WAITING: Final = record(
    {
        "task": TEXT,
        "tool": TEXT,
        "path": array(TEXT),
        "arguments": OBJECT,
        "kind": {"enum": ["approval", "schedule", "result", "interrupted"]},
        "inbox": {"type": "string", "description": "Address of the call in the inbox."},
    }
)
_SCHEMAS: Final[Json] = {
    "Workflow": record({**_WORKFLOW, "definition": TEXT}),
    "Workflows": record({"workflows": array(record(_WORKFLOW)), "schedules": array(_SCHEDULE), "errors": _TEXTS}),
    "WorkflowRun": record(
        {
            "id": TEXT,
            "workflow": TEXT,
            "state": {"enum": ["running", "waiting", "completed", "failed", "timed_out", "cancelled"]},
            "owner": {**OPTIONAL_TEXT, "description": "The user who started the run."},
            "input": {},
            "tasks": {"type": "object", "additionalProperties": _STATUS},
            "waiting": array(_WAITING),
        }
    ),
    "WorkflowRuns": record({"runs": array(reference("WorkflowRun"))}),
}


def _operation(
    summary: str, status: int, schema: str, *problems: int, body: Json | None = None, parameters: tuple[Json, ...] = ()
) -> Json:
    media = "text/event-stream" if schema == "events" else "application/json"
    answer: Json = TEXT if schema == "events" else reference(schema)
    responses: Json = {str(status): {"description": summary, "content": {media: {"schema": answer}}}}
    statuses = {*problems, 401, 403, 429, 500, *((400, 413, 415) if body is not None else ())}
    responses |= {str(code): describe_problem(code) for code in sorted(statuses)}
    found: Json = {"summary": summary, "responses": responses, "parameters": [*parameters]}
    if body is not None:
        found["requestBody"] = describe_body(body)
    return found


def add_workflows(document: Mapping[str, object], settings: ServiceSettings) -> None:
    """Add the routes for workflows to the OpenAPI document of a service.

    Args:
        document: the document. It is changed.
        settings: limits of the service.
    """
    workflow, run = parameter("path", "workflow", TEXT), parameter("path", "run", TEXT)
    limit = parameter("query", "limit", {"type": "integer", "minimum": 1, "maximum": settings.max_page_size})
    start = _operation(
        "Start a run of a workflow",
        202,
        "WorkflowRun",
        404,
        422,
        body=record({"input": {}}, ("input",)),
        parameters=(workflow, IDEMPOTENCY_KEY),
    )
    retry = _operation(
        "Repeat tasks of a run in a new run",
        202,
        "WorkflowRun",
        404,
        409,
        422,
        body=record({"from_task": OPTIONAL_TEXT}, ("from_task",)),
        parameters=(run, IDEMPOTENCY_KEY),
    )
    name = parameter("query", "workflow", TEXT)
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
