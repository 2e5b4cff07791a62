"""Propagation of the trace of a request to the work that another task or process does for it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final, final

from chat_core.arguments import require_type
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

# The application's propagators could also store the baggage, which any client can fill.
_PROPAGATOR: Final = TraceContextTextMapPropagator()


@final
class TracePropagation:
    """The `traces` of a `chat_service.Service`: spans of a run belong to the trace of the request that started it.

    The service stores the trace with the run, so this is also true if another process executes the run. The parent of
    the run is the current span of the request, for example the span of an ASGI instrumentation. Without such a span,
    the parent is the span in the request's header `traceparent`.
    """

    def capture(self, headers: Mapping[str, str], /) -> dict[str, str]:
        """Return the trace of the current span, or of a request without a span, as `traceparent` and `tracestate`.

        Args:
            headers: headers of the request, by lower-case name.
        """
        require_type("headers", headers, Mapping, "a mapping of names to values")
        trace: dict[str, str] = {}
        has_span = get_current_span().get_span_context().is_valid
        _PROPAGATOR.inject(trace, None if has_span else _PROPAGATOR.extract(headers, Context()))
        return trace

    @contextmanager
    def restore(self, trace: Mapping[str, str], /) -> Generator[None]:
        """Make the span of a trace the current span, unless it is the current span already.

        Args:
            trace: the headers that `capture()` returned, possibly in another process.
        """
        require_type("trace", trace, Mapping, "the mapping that capture() returned")
        context = _PROPAGATOR.extract(trace, contexts.get_current())
        stored = get_current_span(context).get_span_context()
        if stored.span_id == get_current_span().get_span_context().span_id:
            yield
            return
        token = contexts.attach(context)
        try:
            yield
        finally:
            contexts.detach(token)
