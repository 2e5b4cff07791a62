"""A service with workflows: one that pays after an approval, one that starts after a session, and one that fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from chat_agents import AgentEngine
from chat_core import ChatBuilder, FunctionCall, RequireApproval, ScopedCollection, ToolCollection
from chat_core.approvals import Principal, only_role
from chat_dbos import launched
from chat_pipeline import Pipelines, ToolRuntime, WorkflowFolder
from chat_service import BearerTokens, Service, ServiceSettings, hash_token
from chat_service.workflows import ServiceWorkflows
from chat_store import ConversationStore
from dbos import DBOS
from service_helpers import WAIT, Bank, Client, scripted, serving

OPERATOR, ANA, STAFF, OTHER = "the token of the operator", "the token of ana", "the token of sam", "the token of ole"
TOKENS = BearerTokens(
    {
        hash_token(OPERATOR): Principal("olga", frozenset({"operator"})),
        hash_token(ANA): Principal("ana"),
        hash_token(STAFF): Principal("sam", frozenset({"staff"})),
        hash_token(OTHER): Principal("ole", frozenset({"staff"})),
    }
)
PAY = """[workflow]
name = "pay"
description = "Pays after an approval."

[[workflow.tasks]]
id = "sum"
runtime = "transform"
config = { path = "input.cents" }

[[workflow.tasks]]
id = "pay"
runtime = "tool"
dependencies = ["sum"]
config = { chat = "shop", tool = "pay", arguments = { cents = "{{ sum.output }}" } }
"""
CLOSED = """[workflow]
name = "closed"

[workflow.triggers]
on_event = "session_close"

[[workflow.tasks]]
id = "note"
runtime = "transform"
config = { path = "input" }
"""


@dataclass
class Office:
    """A folder of workflows, and the payments of their tool."""

    folder: Path
    store: ConversationStore
    paid: list[int] = field(default_factory=list[int])

    def workflows(self) -> ServiceWorkflows:
        tools = ToolCollection()

        @tools.tool()
        async def pay(cents: int) -> dict[str, int]:
            self.paid.append(cents)
            return {"paid": cents}

        def policy(call: FunctionCall, _: None) -> RequireApproval:
            del call
            return RequireApproval()

        chat = ChatBuilder().with_model(scripted()).with_scoped_tools(ScopedCollection(tools, policy)).build()
        pipelines = Pipelines([ToolRuntime(self.store, {"shop": chat})])
        folder = WorkflowFolder(pipelines, self.folder)
        for name, text in (("pay", PAY), ("closed", CLOSED)):
            (self.folder / f"{name}.toml").write_text(text, encoding="utf-8")
        folder.reload()
        return ServiceWorkflows(pipelines=pipelines, folder=folder, role="operator", user_role="staff")

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Client]:
        """Serve the workflows, and return a client of the operator."""
        workflows = self.workflows()
        service = Service(
            AgentEngine(scripted("Hello.")),
            Bank().flow(),
            self.store,
            authenticate=TOKENS,
            may_decide=only_role("operator"),
            settings=ServiceSettings(poll_seconds=0.2, requests_per_minute=0, address_requests_per_minute=0),
            workflows=workflows,
        )
        url = f"sqlite:///{self.folder}/dbos.db"
        try:
            async with (
                launched(
                    {
                        "name": "service",
                        "system_database_url": url,
                        "executor_id": "one",
                        "log_level": "CRITICAL",
                        "notification_listener_polling_interval_sec": 0.02,
                    },
                    grace_seconds=WAIT,
                ),
                serving(service) as client,
            ):
                yield client.as_user(OPERATOR)
        finally:
            DBOS.destroy(destroy_registry=True)


async def follow_until(client: Client, run_id: str, state: str) -> dict[str, Any]:
    """Return the first event of a run with a state."""
    with anyio.fail_after(WAIT):
        async with client.stream("GET", f"/api/v1/workflow-runs/{run_id}/events") as events:
            found: dict[str, Any] = {}
            async for event in events:
                found = event.data
                if found["state"] == state:
                    return found
    raise AssertionError(found)


async def waiting_run(client: Client) -> dict[str, Any]:
    """Start the workflow that pays, and return its run when it waits."""
    started = await client.post("/api/v1/workflows/pay/runs", {"input": {"cents": 500}})
    assert started.status == 202
    return await follow_until(client, started.json["id"], "waiting")
