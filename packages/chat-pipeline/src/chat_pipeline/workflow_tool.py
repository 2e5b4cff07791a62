"""`WorkflowTool`, with which a model creates, runs and schedules workflows after the definition has been approved."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast, final

from chat_core import Action, Execute, FunctionCall, Paused, RequireApproval, ToolContext, ToolScope, json
from chat_core.arguments import require_callable
from chat_core.errors import UsageError
from chat_core.json import JsonValue
from chat_core.messages import File
from chat_core.provider import ToolDeclaration
from chat_core.tools import InvalidArgumentsError, SchemaChecker, ToolDefinition
from chat_core.tools.result import to_result

from chat_pipeline.errors import TaskError, WorkflowFileError
from chat_pipeline.pipelines import Pipelines
from chat_pipeline.runs import Run
from chat_pipeline.schedule import Schedule
from chat_pipeline.workflow_folder import WorkflowFolder

_SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {
        "action": {"enum": ["create", "run", "schedule", "list", "cancel", "status"]},
        "name": {"type": "string", "description": "Name of the workflow, except for list and cancel."},
        "definition": {"type": "string", "description": "TOML text of the workflow, for create."},
        "context": {"description": "Input of the run, for run."},
        "cron": {"type": "string", "description": "Minute, hour, day of month, month, weekday, for schedule."},
        "timezone": {"type": "string", "description": "IANA name of a time zone, for schedule. Default: UTC."},
        "schedule_id": {"type": "string", "description": "Id of a schedule, for cancel."},
        "execution_id": {"type": "string", "description": "Id of a run, for status. Default: no run."},
    },
    "required": ["action"],
    "additionalProperties": False,
}
_NEEDED: Final[Mapping[str, Sequence[str]]] = {
    "create": ("name", "definition"),
    "run": ("name",),
    "schedule": ("name", "cron"),
    "list": (),
    "cancel": ("schedule_id",),
    "status": ("name",),
}
"""The arguments that each action needs."""
_DESCRIPTION: Final = (
    "Create, run, schedule and list workflows, and cancel schedules. A definition is TOML with [workflow] name and "
    "[[workflow.tasks]] id, runtime, config, dependencies. A [workflow.schedule] with cron and timezone runs the "
    "workflow at these times."
)


@final
class WorkflowTool(ToolScope[Paused]):
    """The tool `workflow`, for `with_scoped_tools()`.

    By default, `create`, `run`, `schedule` and `cancel` need an approval. The approver sees the whole definition: it is
    an argument of the call, which the tool adds to `run` and `schedule`. If the definition changes before the decision,
    the call fails. If it changes later, the schedule is disabled. The approver of `cancel` sees the workflow and the
    times of the schedule. A schedule has no owner, so every conversation with this tool can list and cancel it.

    Args:
        pipelines: executes the workflows.
        folder: holds the workflows.
        decide: function that decides about each call instead of the default.
    """

    __slots__ = ("_decide", "_definition")

    def __init__(
        self,
        pipelines: Pipelines,
        folder: WorkflowFolder,
        *,
        decide: Callable[[FunctionCall], Action[Paused]] | None = None,
    ) -> None:
        self._definition: ToolDefinition = _WorkflowDefinition(pipelines, folder)
        self._decide = decide or _require_approval

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return the tool."""
        return (self._definition,)

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[Paused]:
        """Return the action for a call. If the application's function raises, the call needs an approval.

        Args:
            call: the call of the model.
            on_error: function that receives the exception of the application's function.
        """
        if on_error is not None:
            require_callable("on_error", on_error, "a function of an exception")
        try:
            return self._decide(call)
        except Exception as error:  # noqa: BLE001 - an application's function may raise anything
            if on_error is not None:
                on_error(error)
            return RequireApproval()


@final
class _WorkflowDefinition:
    """Definition of the tool."""

    timeout: float | None = None
    idempotent: bool = True
    sequential: bool = True
    blocking: bool = False

    def __init__(self, pipelines: Pipelines, folder: WorkflowFolder) -> None:
        self._pipelines = pipelines
        self._folder = folder
        self._checker = SchemaChecker(_SCHEMA)

    @property
    def declaration(self) -> ToolDeclaration:
        return ToolDeclaration("workflow", _DESCRIPTION, _SCHEMA)

    def validate(self, arguments: Mapping[str, object], /) -> Mapping[str, object]:
        """Check the arguments, and add what the approver has to see: the definition, or the schedule of `cancel`."""
        if problems := self._checker.problems(dict(arguments)):
            raise InvalidArgumentsError("; ".join(problems))
        action, name, text = arguments["action"], arguments.get("name"), arguments.get("definition")
        for needed in _NEEDED[str(action)]:
            if arguments.get(needed) is None:
                msg = f"the action {action!r} needs the argument {needed!r}"
                raise InvalidArgumentsError(msg)
        if action == "list":
            return arguments
        if action == "cancel":
            return {**arguments, **self._describe_schedule(str(arguments["schedule_id"]))}
        if action == "schedule":
            _schedule_of(arguments)
        if action == "create":
            self._check_created(str(name), text)
            return arguments
        self._folder.reload()
        workflow = self._folder.workflows.get(str(name))
        if workflow is None:
            known = ", ".join(sorted(self._folder.workflows)) or "none"
            msg = f"there is no workflow {name!r}; there are: {known}"
            raise InvalidArgumentsError(msg)
        if text is not None and text != workflow.source:
            msg = f"the workflow {name!r} has another definition now: leave out 'definition', and call again"
            raise InvalidArgumentsError(msg)
        return arguments if action == "status" else {**arguments, "definition": workflow.source}

    def _describe_schedule(self, id: str) -> dict[str, object]:
        """Return the workflow and the times of an added schedule, as arguments."""
        self._folder.reload()
        item = next((item for item in self._folder.schedules if item.id == id), None)
        if item is None:
            msg = f"there is no schedule {id!r}"
            raise InvalidArgumentsError(msg)
        if item.in_definition:
            msg = f"the schedule {id!r} is part of the definition of {item.workflow!r}, and cannot be cancelled"
            raise InvalidArgumentsError(msg)
        return {"name": item.workflow, "cron": item.schedule.cron, "timezone": item.schedule.timezone}

    def _check_created(self, name: str, text: object) -> None:
        try:
            workflow = self._pipelines.parse(str(text), file="definition")
        except WorkflowFileError as error:
            raise InvalidArgumentsError(str(error)) from error
        if workflow.name != name:
            msg = f"'name' must equal the name in the definition, {workflow.name!r}, not {name!r}"
            raise InvalidArgumentsError(msg)

    async def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> object:
        action, name = arguments["action"], str(arguments.get("name"))
        if action == "create":
            path = await asyncio.to_thread(self._folder.save, str(arguments["definition"]))
            return {"created": name, "path": path.name, "registered": name in self._folder.workflows}
        if action == "run":
            return await self._run_workflow(arguments, context)
        if action == "schedule":
            added = await asyncio.to_thread(self._folder.add_schedule, name, _schedule_of(arguments))
            cron, timezone = added.schedule.cron, added.schedule.timezone
            return {"schedule_id": added.id, "workflow_name": name, "cron": cron, "timezone": timezone}
        if action == "cancel":
            found = str(arguments["schedule_id"])
            await asyncio.to_thread(self._folder.cancel_schedule, found)
            return {"cancelled": found}
        await asyncio.to_thread(self._folder.reload)
        workflows = self._folder.workflows
        if action == "status":
            schedule = workflows[name].schedule
            return {
                "name": name,
                "schedule": None if schedule is None else schedule.cron,
                "schedules": self._list_schedules(name),
                **await self._find_run(name, arguments.get("execution_id"), context.run.owner),
            }
        return {
            "workflows": sorted(workflows),
            "schedules": self._list_schedules(),
            "errors": {file: str(error) for file, error in self._folder.errors.items()},
        }

    async def _run_workflow(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        """Run a workflow until it ends or waits for a decision.

        Return the id, the state and the outputs of the run, or raise `TaskError` with them if it did not complete.
        """
        key = context.idempotency_key or context.tool_id
        run_id = f"tool-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        workflow = self._pipelines.parse(str(arguments["definition"]), file=str(arguments["name"]))
        given = cast("JsonValue", arguments.get("context"))
        await self._pipelines.start(workflow, given, run_id=run_id, owner=context.run.owner)
        async for run in self._pipelines.follow(run_id):
            if run.state == "completed":
                return _describe(run)
            if run.state != "running":
                raise TaskError(json.dumps(_describe(run)))
        raise AssertionError  # pragma: no cover - the loop ends with an ended run

    async def _find_run(self, workflow: str, run_id: object, owner: str | None) -> dict[str, object]:
        """Return the state of a run of the owner, or nothing if the call asks for no run."""
        if run_id is None:
            return {}
        run = await self._pipelines.find(str(run_id))
        if (run.workflow, run.owner) != (workflow, owner):
            msg = f"there is no run {run_id!r}"  # the same text as for an id that does not exist
            raise UsageError(msg)
        return _describe(run)

    def _list_schedules(self, name: str | None = None) -> list[dict[str, object]]:
        """Return the schedules of one workflow or of all workflows."""
        return [item.to_dict() for item in self._folder.schedules if name in {None, item.workflow}]

    def result(self, value: object, /) -> tuple[object, tuple[File, ...]]:
        return to_result(value)


def _describe(run: Run) -> dict[str, object]:
    found: dict[str, object] = {"execution_id": run.id, "status": run.state, "output": run.outputs}
    return {**found, "errors": run.errors} if run.errors else found


def _require_approval(call: FunctionCall) -> Action[Paused]:
    return Execute() if call.arguments["action"] in {"list", "status"} else RequireApproval()


def _schedule_of(arguments: Mapping[str, object]) -> Schedule:
    """Return the schedule that the arguments of a call describe."""
    try:
        return Schedule(str(arguments["cron"]), str(arguments.get("timezone") or "UTC"))
    except UsageError as error:
        raise InvalidArgumentsError(str(error)) from error
