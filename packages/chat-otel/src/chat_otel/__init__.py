"""OpenTelemetry for chat-core: spans and metrics of model calls, tools, approval waits and HTTP requests."""

__all__: list[str] = []
