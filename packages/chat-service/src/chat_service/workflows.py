"""The workflows of a service, which run in its process. This module needs the extra `chat-service[workflows]`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, cast, final
from uuid import uuid4

import anyio
from chat_core import UsageError
from chat_core.json import JsonValue
from chat_pipeline import Pipelines, WorkflowFolder, wake_run
from chat_store import ConversationMeta, ConversationStore, Job
from starlette.routing import Route

from chat_service.chat_routes import PrincipalResolver
from chat_service.context import ServiceContext
from chat_service.workflow_routes import WorkflowRoutes

EVENT_JOB: Final = "chat_service.workflow_event"
"""Kind of the jobs that start workflows after an event."""
SESSION_CLOSE: Final = "session_close"
"""The event of a closed session, for `on_event` in a workflow file."""
_DUE_PAGE: Final = 100
_LOG: Final = logging.getLogger("chat_service")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceWorkflows:
    """The workflows that a service makes available, for `Service(workflows=...)`.

    While the service is open, it reloads the files of the folder, starts scheduled runs, starts the workflows with
    `on_event = "session_close"` once for each close of a session, and wakes the runs whose calls were decided. DBOS
    must be launched in the same process, and in the same event loop, before the service opens.

    Args:
        pipelines: executes the workflows. Its runtimes should use the store of the service, so that the inbox shows
            the waiting calls.
        folder: holds the workflows.
        role: users with this role can see all workflows and runs, and start, cancel and retry runs.
        user_role: users with this role can see all workflows, start runs, and see, cancel and retry the runs that they
            have started. They receive status 404 for other runs. Default: only users with `role` can use workflows.

    Raises:
        UsageError: a role is empty.
    """

    pipelines: Pipelines
    folder: WorkflowFolder
    role: str
    user_role: str | None = None
    _woken: dict[str, datetime] = field(default_factory=dict[str, datetime], repr=False)

    def __post_init__(self) -> None:
        if not self.role or self.user_role == "":
            msg = 'ServiceWorkflows(role=..., user_role=...) needs names of roles, such as "operator"'
            raise UsageError(msg)

    def routes(self, context: ServiceContext, authenticate: PrincipalResolver) -> list[Route]:
        """Return the routes of the endpoints.

        Args:
            context: objects shared by the parts of the service.
            authenticate: function that returns the user who sent a request.
        """
        roles = self.role, self.user_role
        return WorkflowRoutes(context, authenticate, self.pipelines, self.folder, roles).routes()

    async def describe(self, conversation_id: str) -> Sequence[tuple[str, str]]:
        """Return labels and texts about the run that uses a conversation, for the inbox."""
        return await self.pipelines.describe(conversation_id)

    def close_jobs(self, meta: ConversationMeta) -> Sequence[Job]:
        """Return the job that starts workflows after a session was closed."""
        payload = {"event": SESSION_CLOSE, "input": {"session_id": meta.id, "owner": meta.owner, "title": meta.title}}
        return (Job(EVENT_JOB, f"{meta.id}/{uuid4().hex}", payload),)

    async def run(self, context: ServiceContext) -> None:
        """Execute schedules, events and decisions until the task is cancelled.

        Args:
            context: objects shared by the parts of the service.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(_repeat, self.folder.watch, context.settings.retry_seconds)
            group.start_soon(_repeat, lambda: self._watch_store(context), context.settings.retry_seconds)

    async def _watch_store(self, context: ServiceContext) -> None:
        signal = context.signals.any_session
        while True:
            seen = signal.number
            await self._wake_runs(context.store)
            while await self._start_by_event(context.store):
                pass
            with anyio.move_on_after(context.settings.poll_seconds):
                await signal.wait(seen)

    async def _wake_runs(self, store: ConversationStore) -> None:
        """Wake the runs whose conversations can continue, once for each change of a conversation."""
        cursor: str | None = None
        due: dict[str, datetime] = {}
        while page := await store.due(limit=_DUE_PAGE, after=cursor):
            cursor = page[-1].cursor
            for item in page:
                if self._woken.get(item.conversation) != item.since:
                    await wake_run(item.conversation)  # does nothing if the run has ended
                due[item.conversation] = item.since
        self._woken.clear()
        self._woken.update(due)

    async def _start_by_event(self, store: ConversationStore) -> bool:
        """Execute one job that starts workflows. Return whether there was a job."""
        async with store.take_job(EVENT_JOB) as job:
            if job is None:
                return False
            given = cast("JsonValue", job.payload["input"])
            await self.folder.trigger(str(job.payload["event"]), job.key, given)
            return True


async def _repeat(work: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Call an async function again after it failed, until the task is cancelled."""
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 - the databases may raise anything
            _LOG.warning("the schedules and events of workflows will be tried again", exc_info=True)
        await anyio.sleep(seconds)
