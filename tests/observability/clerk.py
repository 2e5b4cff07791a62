"""A chat with a tool that waits for a person, over a real wire and with all its spans: run as a program, it runs once.

    python clerk.py <host of the model> <store> <transport>

It prints the recorded spans and metrics as JSON.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import anyio
import httpx2
from chat_completions import CompletionsBuilder
from chat_core import ChatBuilder, Execute, FunctionCall, Messages, RequireApproval, ScopedCollection, ToolCollection
from chat_core.transport import Transport
from chat_otel import OpenTelemetry, TracingTransport
from chat_store import SqliteStore
from chat_transport_aiohttp import AiohttpTransport
from chat_transport_httpx import HttpxTransport
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CONVERSATION = "chat-17"
KEY = "sk-very-secret"
NOTE = "for the flowers of Maria"


def policy(call: FunctionCall, meta: None) -> Execute | RequireApproval:
    del meta
    return RequireApproval() if call.name == "pay" else Execute()


class Telemetry:
    """An SDK in memory."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.providers: dict[str, Any] = {"tracer_provider": tracers, "meter_provider": meters}

    def told(self) -> dict[str, Any]:
        """Return the spans in the order of their start, and the metrics, as JSON."""
        spans = sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
        data: Any = self.reader.get_metrics_data()
        return {"spans": [json.loads(span.to_json()) for span in spans], "metrics": json.loads(data.to_json())}


def transport_named(name: str, stack: AsyncExitStack) -> Transport | AbstractAsyncContextManager[Any]:
    if name == "aiohttp":
        return AiohttpTransport()
    if name == "httpx2":
        client = httpx2.AsyncClient()
        stack.push_async_callback(client.aclose)
        return HttpxTransport(client)
    return HttpxTransport()


async def run(host: str, store: str, transport: str) -> dict[str, Any]:
    """Run the conversation from the beginning, or resume it after a pause."""
    telemetry = Telemetry()
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int, note: str) -> str:
        """Pay somebody."""
        return f"paid {cents} {note}"

    async with AsyncExitStack() as stack:
        moving: Any = transport_named(transport, stack)
        tracing = TracingTransport(moving, **telemetry.providers)
        stack.push_async_callback(tracing.aclose)
        builder = CompletionsBuilder().with_model("any").with_base_url(f"http://{host}/v1?key={KEY}")
        model = builder.with_api_key(KEY).with_transport(tracing).build()
        chat = (
            ChatBuilder()
            .with_model(model)
            .with_scoped_tools(ScopedCollection(tools, policy))
            .with_observer(OpenTelemetry(agent_name="clerk", **telemetry.providers))
            .build()
        )
        conversations = await stack.enter_async_context(SqliteStore(store))
        async with conversations.open(CONVERSATION) as conversation:
            if not len(conversation.messages):
                conversation.messages.push(Messages.from_user(f"Pay {NOTE}").contents[0])
            async with chat.stream(conversation) as stream:
                async for _ in stream:
                    pass
    return telemetry.told()


if __name__ == "__main__":
    _, host, store, transport = sys.argv
    print(json.dumps(anyio.run(run, host, store, transport)))
