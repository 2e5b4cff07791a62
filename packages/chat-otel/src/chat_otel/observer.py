"""Observer that records spans and metrics for runs, model calls, tools and waits.

invoke_agent                   a run
├── chat gpt-5-mini            a model call, including all attempts
├── await_approval transfer    a wait, from the request for approval to the decision
├── execute_tool transfer      a tool's body
│   └── invoke_agent …         a chat that is used as a tool
└── chat gpt-5-mini
"""

from __future__ import annotations

from contextvars import Token
from datetime import datetime
from time import perf_counter
from types import TracebackType
from typing import Final, TypeAlias, final

from chat_core import ChatError, ChatOptions, Completed, Failed, Metadata, Usage
from chat_core.observer import CallRecord, RunRecord, ToolRecord, WaitRecord
from chat_core.provider import ProviderMeta
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_tracer, set_span_in_context

from chat_otel import _names as names
from chat_otel._content import as_json, input_of, message_of, output_of
from chat_otel._instruments import Instruments, require_providers

Attributes: TypeAlias = dict[str, str | bool | int | float | tuple[str, ...]]

SCOPE: Final = "chat_otel"
SCHEMA: Final = "https://opentelemetry.io/schemas/1.42.0"


@final
class OpenTelemetry:
    """Observer that records spans and metrics according to the semantic conventions for generative AI.

    The application's OpenTelemetry SDK exports them; without an SDK, nothing is recorded. By default, they contain no
    messages, arguments, results or error texts, and do not name the approver.

    Args:
        agent_name: name of the chat in the span names and attributes of its runs. A nested chat uses its tool's name.
        record_content: whether to record messages, arguments, results and error texts. They may be personal data.
        record_who: whether to record the name of the approver, from `approve(by=…)` and similar methods.
        tracer_provider: destination of spans. Default: the global provider.
        meter_provider: destination of metrics. Default: the global provider.
    """

    def __init__(
        self,
        *,
        agent_name: str | None = None,
        record_content: bool = False,
        record_who: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        require_providers(tracer_provider, meter_provider)
        self._agent_name = agent_name
        self._content = record_content
        self._who = record_who
        self._tracer = get_tracer(SCOPE, tracer_provider=tracer_provider, schema_url=SCHEMA)
        self._instruments = Instruments(get_meter(SCOPE, meter_provider=meter_provider, schema_url=SCHEMA))
        self._runs: dict[RunRecord, Context] = {}

    def run(self, record: RunRecord, /) -> _Run:
        """Start the span `invoke_agent` for a run, and return a handle that ends it."""
        facts = _provider_facts("invoke_agent", record.provider)
        name = record.name or self._agent_name
        if name is not None:
            facts[names.AGENT] = name
        more: Attributes = {**facts, **_conversation_attributes(record), names.RUN_GOES_ON: record.goes_on}
        span = self._tracer.start_span(_span_name("invoke_agent", name), attributes=more)
        context = self._runs[record] = set_span_in_context(span)
        return _Run(self, record, _TimedSpan(span, context), facts)

    def model_call(self, record: CallRecord, /) -> _Call:
        """Start the client span `chat` or `embeddings` for a model call, and return a handle that ends it."""
        meta = record.provider
        facts = _provider_facts(record.operation, meta)
        more: Attributes = {**facts, **_option_facts(record.options), names.REQUEST_STREAM: record.streamed}
        if record.run is not None:
            more |= _conversation_attributes(record.run)
        if record.structured:
            more[names.OUTPUT_TYPE] = "json"
        name = _span_name(record.operation, meta.model)
        span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=more)
        if self._content and record.run is not None and span.is_recording():
            conversation, system = input_of(record.run.messages)
            span.set_attributes({names.INPUT_MESSAGES: conversation, names.SYSTEM_INSTRUCTIONS: system})
        return _Call(self, record, _TimedSpan(span), facts)

    def tool(self, record: ToolRecord, /) -> _Tool:
        """Start the span `execute_tool` for the body of a tool, and return a handle that ends it."""
        tool = record.tool
        facts: Attributes = {names.OPERATION: "execute_tool", names.TOOL_NAME: tool.name, names.TOOL_TYPE: "function"}
        more: Attributes = {
            **facts,
            **_conversation_attributes(record.run),
            names.TOOL_CALL_ID: tool.id,
            names.TOOL_DESCRIPTION: record.declaration.description,
            names.TOOL_ATTEMPT: record.attempt,
        }
        if self._content:
            more[names.TOOL_ARGUMENTS] = as_json(dict(tool.effective_arguments))
        span = self._tracer.start_span(_span_name("execute_tool", tool.name), attributes=more)
        return _Tool(self, record, _TimedSpan(span), facts)

    def decided(self, record: WaitRecord, /) -> None:
        """Record a span from the request for a decision to the decision, as part of the run that resumes after it."""
        tool = record.tool
        facts: Attributes = {
            names.TOOL_NAME: tool.name,
            names.WAIT_KIND: record.kind,
            names.WAIT_OUTCOME: record.outcome,
            names.WAIT_EDITED: record.edited,
        }
        more: Attributes = {**facts, **_conversation_attributes(record.run), names.TOOL_CALL_ID: tool.id}
        if self._who and tool.decisions and tool.decisions[-1].by is not None:
            more[names.WAIT_BY] = tool.decisions[-1].by
        parent = self._runs.get(record.run)
        name = _span_name(f"await_{record.kind}", tool.name)
        span = self._tracer.start_span(name, parent, attributes=more, start_time=_to_nanoseconds(record.asked_at))
        # The two times may come from two machines, whose clocks differ.
        ended_at = max(record.asked_at, record.ended_at)
        span.end(_to_nanoseconds(ended_at))
        self._instruments.wait.record((ended_at - record.asked_at).total_seconds(), _metric_attributes(facts))

    def end_run(self, record: RunRecord, timed: _TimedSpan, facts: Attributes) -> None:
        """End the span of a run, and record the metrics of the run.

        Args:
            record: the record of a run.
            timed: the span.
            facts: attributes of the metrics.
        """
        self._runs.pop(record, None)
        more: Attributes = {
            names.RUN_OUTCOME: record.outcome,
            names.RUN_STEPS: record.steps,
            **_usage_facts(record.usage),
        }
        if record.finish_reason is not None:
            more[names.RESPONSE_FINISH_REASONS] = (record.finish_reason,)
        if record.pause is not None:
            more[names.RUN_PAUSE] = record.pause.reason
            more[names.RUN_WAITING] = tuple(["/".join(wait.path) for wait in record.pause.waiting])
        facts = {**facts, **self._mark_failed(timed.span, record.error), names.RUN_OUTCOME: record.outcome}
        self._instruments.run.record(timed.end(more), _metric_attributes(facts))

    def end_call(self, record: CallRecord, timed: _TimedSpan, facts: Attributes) -> None:
        """End the span of a model call, and record the metrics of the call.

        Args:
            record: the record of a model call.
            timed: the span.
            facts: attributes of the metrics.
        """
        retries = len(record.failures) - (bool(record.failures) and record.failures[-1] is record.error)
        more: Attributes = {**_usage_facts(record.usage), names.CALL_ATTEMPTS: retries + 1}
        if record.failures:
            more[names.CALL_FAILURES] = tuple([_failure_of(error, record.provider) for error in record.failures])
        if record.first_after is not None:
            more[names.RESPONSE_FIRST_CHUNK] = record.first_after
        facts = {**facts, **self._mark_failed(timed.span, record.error)}
        if record.model is not None:
            facts[names.RESPONSE_MODEL] = more[names.RESPONSE_MODEL] = record.model
        turn = record.turn
        if turn is not None:
            if turn.finish_reason is not None:
                more[names.RESPONSE_FINISH_REASONS] = (turn.finish_reason,)
            if turn.metadata is not None:
                more |= _response_facts(turn.metadata, record.provider)
            if self._content:
                more[names.OUTPUT_MESSAGES] = output_of(turn)
        # While the span is the current span, an SDK can attach exemplars to the metrics.
        with timed.inside():
            attributes = _metric_attributes(facts)
            self._instruments.record_tokens(record.usage, attributes)
            if record.first_after is not None:
                self._instruments.first.record(record.first_after, attributes)
            self._instruments.call.record(timed.end(more), attributes)

    def end_tool(self, record: ToolRecord, timed: _TimedSpan, facts: Attributes) -> None:
        """End the span of a tool body, and record the metrics of the tool.

        Args:
            record: the record of the execution.
            timed: the span.
            facts: attributes of the metrics.
        """
        status = record.tool.status
        more: Attributes = {names.TOOL_STATUS: type(status).__name__.lower()}
        error = record.error if record.error is not None or not isinstance(status, Failed) else InvalidResultError()
        failed = isinstance(error, (Exception, SystemExit)) and isinstance(status, Failed)
        facts = {**facts, **self._mark_failed(timed.span, error if failed else None)}
        if self._content and isinstance(status, Completed):
            more[names.TOOL_RESULT] = as_json(status.result)
        self._instruments.tool.record(timed.end(more), _metric_attributes(facts))

    def _mark_failed(self, span: Span, error: BaseException | None) -> Attributes:
        """Mark the span as failed if there is an error, and return the attribute `error.type`.

        The error message is recorded only if content is recorded, because it may quote content or an API key.
        """
        if error is None:
            return {}
        name = _error_name(error)
        span.set_status(Status(StatusCode.ERROR, message_of(error) if self._content else None))
        span.set_attribute(names.ERROR, name)
        return {names.ERROR: name}


class InvalidResultError(Exception):
    """Error type of a tool result that cannot be represented as JSON. It is never raised: only its name is recorded."""


@final
class _TimedSpan:
    """A started span with its start time."""

    __slots__ = ("_begun", "context", "span")

    def __init__(self, span: Span, context: Context | None = None) -> None:
        self.span: Span = span
        self.context: Context = context or set_span_in_context(span)
        self._begun = perf_counter()

    def inside(self) -> _AttachedContext:
        """Return a context manager that makes this span the current span."""
        return _AttachedContext(self.context)

    def end(self, attributes: Attributes) -> float:
        """Set `attributes` on the span, end the span, and return its duration in seconds."""
        seconds = perf_counter() - self._begun
        self.span.set_attributes(attributes)
        self.span.end()
        return seconds


@final
class _AttachedContext:
    """Context manager that attaches an OpenTelemetry context."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token: Token[Context] = contexts.attach(self._context)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        contexts.detach(self._token)


@final
class _Run:
    """Handle for a run in progress. Ending the handle ends the span."""

    __slots__ = ("_facts", "_observer", "_record", "_timed")

    def __init__(self, observer: OpenTelemetry, record: RunRecord, timed: _TimedSpan, facts: Attributes) -> None:
        self._observer, self._record, self._timed, self._facts = observer, record, timed, facts

    def inside(self) -> _AttachedContext:
        return self._timed.inside()

    def end(self) -> None:
        self._observer.end_run(self._record, self._timed, self._facts)


@final
class _Call:
    """Handle for a model call in progress. Ending the handle ends the span."""

    __slots__ = ("_facts", "_observer", "_record", "_timed")

    def __init__(self, observer: OpenTelemetry, record: CallRecord, timed: _TimedSpan, facts: Attributes) -> None:
        self._observer, self._record, self._timed, self._facts = observer, record, timed, facts

    def inside(self) -> _AttachedContext:
        return self._timed.inside()

    def end(self) -> None:
        self._observer.end_call(self._record, self._timed, self._facts)


@final
class _Tool:
    """Handle for a tool body in progress. Ending the handle ends the span."""

    __slots__ = ("_facts", "_observer", "_record", "_timed")

    def __init__(self, observer: OpenTelemetry, record: ToolRecord, timed: _TimedSpan, facts: Attributes) -> None:
        self._observer, self._record, self._timed, self._facts = observer, record, timed, facts

    def inside(self) -> _AttachedContext:
        return self._timed.inside()

    def end(self) -> None:
        self._observer.end_tool(self._record, self._timed, self._facts)


def _span_name(operation: str, subject: str | None) -> str:
    return f"{operation} {subject}" if subject else operation


def _provider_facts(operation: str, meta: ProviderMeta) -> Attributes:
    facts: Attributes = {names.OPERATION: operation, names.PROVIDER: names.provider_name(meta)}
    return {**facts, names.REQUEST_MODEL: meta.model} if meta.model else facts


def _conversation_attributes(run: RunRecord) -> Attributes:
    return {names.CONVERSATION: run.conversation_id} if run.conversation_id is not None else {}


def _option_facts(options: ChatOptions) -> Attributes:
    options_set: dict[str, float | int | None] = {
        names.REQUEST_TEMPERATURE: options.temperature,
        names.REQUEST_TOP_P: options.top_p,
        names.REQUEST_TOP_K: None if options.top_k is None else float(options.top_k),  # declared as a double
        names.REQUEST_MAX_TOKENS: options.max_tokens,
        names.REQUEST_SEED: options.seed,
    }
    return {name: value for name, value in options_set.items() if value is not None}


def _usage_facts(usage: Usage) -> Attributes:
    if not usage:
        return {}
    parts = {
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }
    totals: Attributes = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
    return {**totals, **{name: count for name, count in parts.items() if count}}


def _error_name(error: BaseException) -> str:
    """Return the name of the error's class, with the module if the class is of another package."""
    kind = type(error)
    is_known = kind.__module__.partition(".")[0] in {"builtins", "chat_core", SCOPE}
    return kind.__qualname__ if is_known else f"{kind.__module__}.{kind.__qualname__}"


def _failure_of(error: ChatError, meta: ProviderMeta) -> str:
    """Return the model and the class of the error of a failed attempt. A router asks several models in a call."""
    metadata = error.metadata or Metadata()
    provider = names.provider_name(ProviderMeta(metadata.provider or meta.name))
    return f"{provider}/{metadata.model or meta.model}: {_error_name(error)}"


def _response_facts(metadata: Metadata, meta: ProviderMeta) -> Attributes:
    """Return the ID of a response, and its provider if that is not the provider of the chat, which may be a router."""
    facts: Attributes = {} if metadata.id is None else {names.RESPONSE_ID: metadata.id}
    if metadata.provider is not None and metadata.provider != meta.name:
        facts[names.CALL_ANSWERED_BY] = names.provider_name(ProviderMeta(metadata.provider))
    return facts


def _metric_attributes(facts: Attributes) -> dict[str, str | bool | int | float]:
    return {name: value for name, value in facts.items() if not isinstance(value, tuple)}


def _to_nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000_000)
