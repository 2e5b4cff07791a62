"""The spans of a run of a service belong to the trace of the request, also if another process executes the run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from chat_agents import AgentConfig, AgentEngine, PromptFlow
from chat_core import FunctionCall, RequireApproval, ScopedCollection, ToolCollection
from chat_core.approvals import Principal, owner_may_decide
from chat_core.testing import ScriptedProvider
from chat_otel import OpenTelemetry, TracePropagation
from chat_service import BearerTokens, RequestIdFilter, Service, ServiceSettings, hash_token
from chat_store import SqliteStore
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id

pytestmark = pytest.mark.anyio
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"authorization": "Bearer t", "traceparent": f"00-{TRACE}-{PARENT}-01"}
CALL = FunctionCall("pay", {"cents": 5}, id="call_1")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Spans:
    """The finished spans, and the provider that records them."""

    exporter: InMemorySpanExporter
    provider: TracerProvider

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans() -> Iterator[Spans]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Spans(exporter, provider)
    provider.shutdown()


def build(store: SqliteStore, spans: Spans, workers: int) -> Service:
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        """Pay somebody."""
        logging.getLogger("bank").warning("paid %s", cents)
        return "paid"

    model = ScriptedProvider(CALL, "It is paid.", by_history=True)
    observer = OpenTelemetry(agent_name="clerk", tracer_provider=spans.provider)
    engine = AgentEngine(model, AgentConfig(observers=(observer,)))
    flow = PromptFlow("clerk", "Pay.", [ScopedCollection(tools, lambda _call, _meta: RequireApproval())])
    tokens = BearerTokens({hash_token("t"): Principal("ana")})
    settings = ServiceSettings(workers=workers, poll_seconds=0.05)
    return Service(
        engine,
        flow,
        store,
        authenticate=tokens,
        may_decide=owner_may_decide,
        settings=settings,
        traces=TracePropagation(),
    )


def client_of(service: Service) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(service)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS, timeout=30)


def parents(found: list[ReadableSpan]) -> set[str]:
    return {format_span_id(span.parent.span_id) for span in found if span.parent is not None}


async def test_a_run_in_another_process_and_after_a_decision_belongs_to_the_trace_of_its_request(
    tmp_path: Path, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(RequestIdFilter())
    path, is_answered = tmp_path / "sessions.db", anyio.Event()
    replies: list[dict[str, Any]] = []
    async with SqliteStore(path) as store, build(store, spans, 0) as service, client_of(service) as client:

        async def ask() -> None:
            replies.append((await client.post("/api/v1/chat", json={"message": "Pay."})).json())
            is_answered.set()

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            async with SqliteStore(path) as other, build(other, spans, 1):  # its tasks know nothing of the request
                with anyio.fail_after(30):
                    await is_answered.wait()
    (paused,) = replies
    async with SqliteStore(path) as store, build(store, spans, 1) as service, client_of(service) as client:
        wait = {name: paused["waiting"][0][name] for name in ("id", "arguments", "revision")}
        decision = {"decisions": [{"action": "approve", **wait}]}
        await client.post(
            f"/api/v1/sessions/{paused['session_id']}/decisions", json=decision, headers={"traceparent": ""}
        )
        await client.get(f"/api/v1/runs/{paused['run_id']}/events")

    assert {format_trace_id(span.context.trace_id) for span in spans.exporter.get_finished_spans() if span.context} == {
        TRACE
    }
    assert (len(spans.named("invoke_agent clerk")), parents(spans.named("invoke_agent clerk"))) == (2, {PARENT})
    assert len(spans.named("execute_tool pay")) == 1
    (record,) = [record for record in caplog.records if record.name == "bank"]
    assert (getattr(record, "trace_id"), getattr(record, "run_id")) == (TRACE, paused["run_id"])  # noqa: B009 - a field of the log


async def test_a_completion_without_a_session_belongs_to_the_trace_of_its_request(tmp_path: Path, spans: Spans) -> None:
    path = tmp_path / "sessions.db"
    body = {"model": "clerk", "messages": [{"role": "user", "content": "Hi."}]}
    async with SqliteStore(path) as store, build(store, spans, 0) as service, client_of(service) as client:
        await client.post("/v1/chat/completions", json=body)

    assert parents(spans.named("invoke_agent clerk")) == {PARENT}


async def test_a_span_of_the_application_is_the_parent(tmp_path: Path, spans: Spans) -> None:
    tracer = spans.provider.get_tracer("application")
    async with SqliteStore(tmp_path / "sessions.db") as store, build(store, spans, 1) as service:
        with tracer.start_as_current_span("POST /api/v1/chat") as span:
            async with client_of(service) as client:
                await client.post("/api/v1/chat", json={"message": "Pay."})
            span.set_attribute("is_current", True)

    (server,) = spans.named("POST /api/v1/chat")
    assert server.context is not None
    assert parents(spans.named("invoke_agent clerk")) == {format_span_id(server.context.span_id)}
