"""The routes that list workflows, and start, list, follow, cancel and retry their runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, TypeAlias, cast, final

from chat_core import UsageError
from chat_core.approvals import Principal
from chat_core.json import JsonValue
from chat_core.response import iter_waits
from chat_inbox.api import json_response
from chat_inbox.event_response import EventResponse, Write, encode_event
from chat_inbox.http_errors import HTTPError
from chat_inbox.url_keys import quote_key
from chat_pipeline import Pipelines, Run, Workflow, WorkflowFileError, WorkflowFolder
from chat_pipeline.waking import conversation_of
from chat_store import UnknownConversationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_service.chat_routes import PrincipalResolver
from chat_service.context import ServiceContext
from chat_service.request_values import read_key, read_number, read_object, read_text

Json: TypeAlias = dict[str, object]
_ACTIVE: Final = frozenset({"running", "waiting"})


@final
class WorkflowRoutes:
    """Routes and endpoints for workflows.

    Args:
        context: objects shared by the parts of the service.
        authenticate: function that returns the user who sent a request.
        pipelines: executes the workflows.
        folder: holds the workflows.
        roles: role of the users who may see all runs, and role of the users who may see their own runs or None.
    """

    def __init__(
        self,
        context: ServiceContext,
        authenticate: PrincipalResolver,
        pipelines: Pipelines,
        folder: WorkflowFolder,
        roles: tuple[str, str | None],
    ) -> None:
        self._store = context.store
        self._settings = context.settings
        self._streams = context.streams
        self._authenticate = authenticate
        self._pipelines = pipelines
        self._folder = folder
        self._role, self._user_role = roles

    def routes(self) -> list[Route]:
        """Return the routes."""
        run = "/api/v1/workflow-runs/{run}"
        return [
            Route("/api/v1/workflows", self.list, methods=["GET"]),
            Route("/api/v1/workflows/{workflow}", self.show, methods=["GET"]),
            Route("/api/v1/workflows/{workflow}/runs", self.start, methods=["POST"]),
            Route("/api/v1/workflow-runs", self.list_runs, methods=["GET"]),
            Route(run, self.show_run, methods=["GET"]),
            Route(f"{run}/events", self.follow, methods=["GET"]),
            Route(f"{run}/cancel", self.cancel, methods=["POST"]),
            Route(f"{run}/retry", self.retry, methods=["POST"]),
        ]

    # --- Workflows ------------------------------------------------------------------------------------------------

    async def list(self, request: Request) -> Response:
        """Return the workflows, their schedules, and the errors of their files."""
        await self._require_user(request)
        schedules = [item.to_dict() for item in self._folder.schedules]
        workflows = [_describe_workflow(workflow) for _, workflow in sorted(self._folder.workflows.items())]
        errors = {file: str(error) for file, error in self._folder.errors.items()}
        return json_response({"workflows": workflows, "schedules": schedules, "errors": errors})

    async def show(self, request: Request) -> Response:
        """Return a workflow with its definition."""
        await self._require_user(request)
        workflow = self._find_workflow(request)
        return json_response({**_describe_workflow(workflow), "definition": workflow.source})

    async def start(self, request: Request) -> Response:
        """Start a run of a workflow, and return the run. A repeated `Idempotency-Key` returns the first run."""
        principal = await self._require_user(request)
        workflow = self._find_workflow(request)
        _, fields = await read_object(request, self._settings)
        given = cast("JsonValue", fields.get("input"))
        run_id = _requested_run_id(request, principal, workflow.name)
        try:
            run_id = await self._pipelines.start(workflow, given, run_id=run_id, owner=principal.name)
        except UsageError as error:
            raise HTTPError(400, f"The run cannot be started: {error}.") from error
        run = await self._pipelines.find(run_id)
        if run.input != given:
            raise HTTPError(422, "This Idempotency-Key was used with another input: use another key.")
        return json_response(await self._describe_run(run), 202)

    # --- Runs -----------------------------------------------------------------------------------------------------

    async def list_runs(self, request: Request) -> Response:
        """Return the newest runs that the user may see, newest first."""
        principal = await self._require_user(request)
        limit = read_number(request, "limit", self._settings.page_size, 1, self._settings.max_page_size)
        workflow = request.query_params.get("workflow") or None
        owner = None if self._role in principal.roles else principal.name
        runs = await self._pipelines.runs(workflow=workflow, owner=owner, limit=limit)
        return json_response({"runs": [await self._describe_run(run) for run in runs]})

    async def show_run(self, request: Request) -> Response:
        """Return a run with its tasks and its waiting calls."""
        return json_response(await self._describe_run((await self._find_run(request))[1]))

    async def follow(self, request: Request) -> Response:
        """Stream a run, at once and after each change, until it ends."""
        _, run = await self._find_run(request)
        return EventResponse(partial(self._send_run, run.id), self._streams)

    async def _send_run(self, run_id: str, write: Write) -> None:
        async with aclosing(self._pipelines.follow(run_id)) as states:
            async for run in states:
                await write(encode_event("run", json.dumps(await self._describe_run(run))))

    async def cancel(self, request: Request) -> Response:
        """Cancel a run, and return the run."""
        _, run = await self._find_run(request)
        if run.state not in _ACTIVE:
            raise HTTPError(409, f"The run has ended: it is {run.state}.")
        await self._pipelines.cancel(run.id)
        return json_response(await self._describe_run(await self._pipelines.find(run.id)))

    async def retry(self, request: Request) -> Response:
        """Start a run that repeats the tasks which did not complete, or all from one task, and return the new run.

        A repeated `Idempotency-Key` returns the first new run.
        """
        principal, run = await self._find_run(request)
        _, fields = await read_object(request, self._settings)
        if run.state in _ACTIVE:
            raise HTTPError(409, "The run has not ended: cancel it, or wait for its end.")
        new_id, from_task = _requested_run_id(request, principal, "retry", run.id), read_text(fields, "from_task")
        try:
            if (
                from_task is not None
                and from_task not in self._pipelines.parse(run.source, file=run.workflow).ancestors
            ):
                raise HTTPError(400, f"The workflow {run.workflow!r} has no task {from_task!r:.60}.")
            run_id = await self._pipelines.retry(run.id, from_task=from_task, new_run_id=new_id)
        except WorkflowFileError as error:
            raise HTTPError(409, f"The definition of the run is no longer valid: {error}.") from error
        except UsageError as error:
            raise HTTPError(422, f"The run cannot be repeated: {error}.") from error
        return json_response(await self._describe_run(await self._pipelines.find(run_id)), 202)

    # --- Helpers --------------------------------------------------------------------------------------------------

    async def _require_user(self, request: Request) -> Principal:
        principal = await self._authenticate(request)
        if principal.roles.isdisjoint({self._role, self._user_role}):
            raise HTTPError(403, "You may not use workflows: `ServiceWorkflows(...)` names the roles that may.")
        return principal

    def _find_workflow(self, request: Request) -> Workflow:
        workflow = self._folder.workflows.get(request.path_params["workflow"])
        if workflow is None:
            raise HTTPError(404, "There is no such workflow.")
        return workflow

    async def _find_run(self, request: Request) -> tuple[Principal, Run]:
        """Return the user and the run that the request names, unless it belongs to another user."""
        principal = await self._require_user(request)
        try:
            run = await self._pipelines.find(request.path_params["run"])
        except UsageError:
            raise HTTPError(404, "There is no such run.") from None
        if self._role not in principal.roles and run.owner != principal.name:
            raise HTTPError(404, "There is no such run.")
        return principal, run

    async def _describe_run(self, run: Run) -> Json:
        tasks: Mapping[str, Json] = {
            task: {"state": status.state, "output": status.output, "error": status.error}
            for task, status in run.tasks.items()
        }
        waiting = [
            call
            for task, status in run.tasks.items()
            if run.state == "waiting" and status.state == "waiting"
            for call in await self._waiting_calls(run.id, task)
        ]
        return {
            "id": run.id,
            "workflow": run.workflow,
            "state": run.state,
            "owner": run.owner,
            "input": run.input,
            "tasks": tasks,
            "waiting": waiting,
        }

    async def _waiting_calls(self, run_id: str, task: str) -> Sequence[Json]:
        """Return the calls of a task that wait for a decision, with their address in the inbox."""
        conversation = conversation_of(run_id, task)
        try:
            snapshot = await self._store.load(conversation)
        except UnknownConversationError:  # the runtime uses another store
            return []
        waits = [
            wait
            for tool in snapshot.messages.pending()
            for wait in iter_waits(tool, conversation=conversation, owner=snapshot.owner)
        ]
        return [
            {
                "task": task,
                "tool": wait.name,
                "path": [*wait.path],
                "arguments": dict(wait.arguments),
                "kind": wait.kind,
                "inbox": f"/inbox/conversations/{quote_key((conversation,))}",
            }
            for wait in waits
        ]


def _requested_run_id(request: Request, principal: Principal, *scope: str) -> str | None:
    """Return the id of the run that a request with an `Idempotency-Key` starts, or None if it has no key."""
    key = read_key(request)
    if key is None:
        return None
    text = json.dumps([principal.name, *scope, key])
    return f"request-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _describe_workflow(workflow: Workflow) -> Json:
    return {
        "name": workflow.name,
        "description": workflow.description,
        "tasks": [
            {"id": task.id, "runtime": task.runtime, "dependencies": [*task.dependencies]} for task in workflow.tasks
        ],
        "on_event": workflow.on_event,
    }
