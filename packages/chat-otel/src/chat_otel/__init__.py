"""OpenTelemetry for chat-core: spans and metrics of model calls, tools, approval waits and HTTP requests."""

from __future__ import annotations

from chat_otel.observer import OpenTelemetry
from chat_otel.propagation import TracePropagation
from chat_otel.transport import TracingTransport

__all__ = ["OpenTelemetry", "TracePropagation", "TracingTransport"]
