"""Spans and metrics of runs, model calls, tools and waits.

invoke_agent                   a run
├── chat gpt-5-mini            a model call, with all its attempts
├── await_approval transfer    a wait, from the question to the decision
├── execute_tool transfer      a tool's body
│   └── invoke_agent …         a chat that the tool is
└── chat gpt-5-mini
"""

from __future__ import annotations

from contextvars import Token
from datetime import datetime
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeAlias, final

from chat_core import Completed, Failed
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_tracer, set_span_in_context

from chat_otel import _names as names
from chat_otel._content import as_json, said_by, said_of, said_to
from chat_otel._instruments import Instruments

if TYPE_CHECKING:
    from chat_core import ChatOptions, Usage
    from chat_core.observer import CallRecord, RunRecord, ToolRecord, WaitRecord
    from chat_core.provider import ProviderMeta

Attributes: TypeAlias = dict[str, str | bool | int | float | tuple[str, ...]]

SCOPE: Final = "chat_otel"
SCHEMA: Final = "https://opentelemetry.io/schemas/1.42.0"


@final
class OpenTelemetry:
    """An observer that makes spans and metrics by the conventions for generative AI.

    They go where the application's OpenTelemetry sends them; without an SDK they go nowhere. Nothing of what was said
    is recorded: no message, no argument, no result, no text of an error, nor who decided.

    Args:
        agent_name: what the chat is called, in the names and attributes of its runs. A chat inside another one has the
            name of its tool.
        record_content: also record messages, arguments, results and the texts of errors. They may be personal.
        record_who: also record who decided, as `approve(by=…)` and its like were told.
        tracer_provider: where spans go; the global one unless given.
        meter_provider: where metrics go; the global one unless given.
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
        self._agent_name = agent_name
        self._content = record_content
        self._who = record_who
        self._tracer = get_tracer(SCOPE, tracer_provider=tracer_provider, schema_url=SCHEMA)
        self._instruments = Instruments(get_meter(SCOPE, meter_provider=meter_provider, schema_url=SCHEMA))
        self._runs: dict[RunRecord, Context] = {}

    def run(self, record: RunRecord, /) -> _Run:
        """A span `invoke_agent` around the run."""
        facts = _asked("invoke_agent", record.provider)
        name = record.name or self._agent_name
        if name is not None:
            facts[names.AGENT] = name
        more: Attributes = {**facts, **_conversation(record), names.RUN_GOES_ON: record.goes_on}
        span = self._tracer.start_span(_name("invoke_agent", name), attributes=more)
        context = self._runs[record] = set_span_in_context(span)
        return _Run(self, record, _Timed(span, context), facts)

    def model_call(self, record: CallRecord, /) -> _Call:
        """A span `chat` or `embeddings` around the call, of kind client."""
        meta = record.provider
        facts = _asked(record.operation, meta)
        more: Attributes = {**facts, **_requested(record.options), names.REQUEST_STREAM: record.streamed}
        if record.run is not None:
            more |= _conversation(record.run)
        if record.structured:
            more[names.OUTPUT_TYPE] = "json"
        name = _name(record.operation, meta.model)
        span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=more)
        if self._content and record.run is not None and span.is_recording():
            said, system = said_to(record.run.messages)
            span.set_attributes({names.INPUT_MESSAGES: said, names.SYSTEM_INSTRUCTIONS: system})
        return _Call(self, record, _Timed(span), facts)

    def tool(self, record: ToolRecord, /) -> _Tool:
        """A span `execute_tool` around the tool's body."""
        tool = record.tool
        facts: Attributes = {names.OPERATION: "execute_tool", names.TOOL_NAME: tool.name, names.TOOL_TYPE: "function"}
        more: Attributes = {
            **facts,
            **_conversation(record.run),
            names.TOOL_CALL_ID: tool.id,
            names.TOOL_DESCRIPTION: record.declaration.description,
            names.TOOL_ATTEMPT: record.attempt,
        }
        if self._content:
            more[names.TOOL_ARGUMENTS] = as_json(dict(tool.effective_arguments))
        span = self._tracer.start_span(_name("execute_tool", tool.name), attributes=more)
        return _Tool(self, record, _Timed(span), facts)

    def decided(self, record: WaitRecord, /) -> None:
        """A span from the question to the decision, in the run that goes on behind it."""
        tool = record.tool
        facts: Attributes = {
            names.TOOL_NAME: tool.name,
            names.WAIT_KIND: record.kind,
            names.WAIT_OUTCOME: record.outcome,
            names.WAIT_EDITED: record.edited,
        }
        more: Attributes = {**facts, **_conversation(record.run), names.TOOL_CALL_ID: tool.id}
        if self._who and tool.decisions and tool.decisions[-1].by is not None:
            more[names.WAIT_BY] = tool.decisions[-1].by
        parent = self._runs.get(record.run)
        name = _name(f"await_{record.kind}", tool.name)
        span = self._tracer.start_span(name, parent, attributes=more, start_time=_nanoseconds(record.asked_at))
        # The two moments may be of two machines, whose clocks differ.
        ended_at = max(record.asked_at, record.ended_at)
        span.end(_nanoseconds(ended_at))
        self._instruments.wait.record((ended_at - record.asked_at).total_seconds(), _only_words(facts))

    # What its observations do at the end

    def end_run(self, record: RunRecord, timed: _Timed, facts: Attributes) -> None:
        """The run is over."""
        self._runs.pop(record, None)
        more: Attributes = {names.RUN_OUTCOME: record.outcome, names.RUN_STEPS: record.steps, **_cost(record.usage)}
        if record.finish_reason is not None:
            more[names.RESPONSE_FINISH_REASONS] = (record.finish_reason,)
        if record.pause is not None:
            more[names.RUN_PAUSE] = record.pause.reason
            more[names.RUN_WAITING] = tuple(["/".join(wait.path) for wait in record.pause.waiting])
        facts = {**facts, **self._fail(timed.span, record.error), names.RUN_OUTCOME: record.outcome}
        self._instruments.run.record(timed.end(more), _only_words(facts))

    def end_call(self, record: CallRecord, timed: _Timed, facts: Attributes) -> None:
        """The model has answered, or will not."""
        tried_again = len(record.failures) - (bool(record.failures) and record.failures[-1] is record.error)
        more: Attributes = {**_cost(record.usage), names.CALL_ATTEMPTS: tried_again + 1}
        if record.first_after is not None:
            more[names.RESPONSE_FIRST_CHUNK] = record.first_after
        facts = {**facts, **self._fail(timed.span, record.error)}
        if record.model is not None:
            facts[names.RESPONSE_MODEL] = more[names.RESPONSE_MODEL] = record.model
        turn = record.turn
        if turn is not None:
            if turn.finish_reason is not None:
                more[names.RESPONSE_FINISH_REASONS] = (turn.finish_reason,)
            if turn.metadata is not None and turn.metadata.id is not None:
                more[names.RESPONSE_ID] = turn.metadata.id
            if self._content:
                more[names.OUTPUT_MESSAGES] = said_by(turn)
        # The metrics belong to the span: an SDK that keeps examples finds it in the context.
        with timed.inside():
            words = _only_words(facts)
            self._instruments.tokens(record.usage, words)
            if record.first_after is not None:
                self._instruments.first.record(record.first_after, words)
            self._instruments.call.record(timed.end(more), words)

    def end_tool(self, record: ToolRecord, timed: _Timed, facts: Attributes) -> None:
        """The tool's body is over."""
        status = record.tool.status
        more: Attributes = {names.TOOL_STATUS: type(status).__name__.lower()}
        error = record.error if record.error is not None or not isinstance(status, Failed) else InvalidResultError()
        failed = isinstance(error, (Exception, SystemExit)) and isinstance(status, Failed)
        facts = {**facts, **self._fail(timed.span, error if failed else None)}
        if self._content and isinstance(status, Completed):
            more[names.TOOL_RESULT] = as_json(status.result)
        self._instruments.tool.record(timed.end(more), _only_words(facts))

    def _fail(self, span: Span, error: BaseException | None) -> Attributes:
        """Say what went wrong, by its class: its text may quote what was said, or a key."""
        if error is None:
            return {}
        kind = type(error)
        name = kind.__qualname__
        if kind.__module__.partition(".")[0] not in {"builtins", "chat_core", SCOPE}:
            name = f"{kind.__module__}.{name}"
        span.set_status(Status(StatusCode.ERROR, said_of(error) if self._content else None))
        span.set_attribute(names.ERROR, name)
        return {names.ERROR: name}


class InvalidResultError(Exception):
    """The tool returned what cannot be told to a model. It is never raised: its name is an `error.type`."""


@final
class _Timed:
    """A span that has begun, and since when."""

    __slots__ = ("_begun", "context", "span")

    def __init__(self, span: Span, context: Context | None = None) -> None:
        self.span = span
        self.context = context or set_span_in_context(span)
        self._begun = perf_counter()

    def inside(self) -> _Current:
        """Where the span is the current one."""
        return _Current(self.context)

    def end(self, attributes: Attributes) -> float:
        """End the span. Returns the seconds that it took."""
        seconds = perf_counter() - self._begun
        self.span.set_attributes(attributes)
        self.span.end()
        return seconds


@final
class _Current:
    """A context in which another one of OpenTelemetry is current."""

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
    """A run that is observed."""

    __slots__ = ("_facts", "_observer", "_record", "_timed")

    def __init__(self, observer: OpenTelemetry, record: RunRecord, timed: _Timed, facts: Attributes) -> None:
        self._observer, self._record, self._timed, self._facts = observer, record, timed, facts

    def inside(self) -> _Current:
        return self._timed.inside()

    def end(self) -> None:
        self._observer.end_run(self._record, self._timed, self._facts)


@final
class _Call:
    """A model call that is observed."""

    __slots__ = ("_facts", "_observer", "_record", "_timed")

    def __init__(self, observer: OpenTelemetry, record: CallRecord, timed: _Timed, facts: Attributes) -> None:
        self._observer, self._record, self._timed, self._facts = observer, record, timed, facts

    def inside(self) -> _Current:
        return self._timed.inside()

    def end(self) -> None:
        self._observer.end_call(self._record, self._timed, self._facts)


@final
class _Tool:
    """A tool's body that is observed."""

    __slots__ = ("_facts", "_observer", "_record", "_timed")

    def __init__(self, observer: OpenTelemetry, record: ToolRecord, timed: _Timed, facts: Attributes) -> None:
        self._observer, self._record, self._timed, self._facts = observer, record, timed, facts

    def inside(self) -> _Current:
        return self._timed.inside()

    def end(self) -> None:
        self._observer.end_tool(self._record, self._timed, self._facts)


def _name(operation: str, of: str | None) -> str:
    return f"{operation} {of}" if of else operation


def _asked(operation: str, meta: ProviderMeta) -> Attributes:
    facts: Attributes = {names.OPERATION: operation, names.PROVIDER: names.provider_name(meta)}
    return {**facts, names.REQUEST_MODEL: meta.model} if meta.model else facts


def _conversation(run: RunRecord) -> Attributes:
    return {names.CONVERSATION: run.conversation_id} if run.conversation_id is not None else {}


def _requested(options: ChatOptions) -> Attributes:
    asked: dict[str, float | int | None] = {
        names.REQUEST_TEMPERATURE: options.temperature,
        names.REQUEST_TOP_P: options.top_p,
        names.REQUEST_MAX_TOKENS: options.max_tokens,
        names.REQUEST_SEED: options.seed,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _cost(usage: Usage) -> Attributes:
    if not usage:
        return {}
    parts = {
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }
    told: Attributes = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
    return {**told, **{name: count for name, count in parts.items() if count}}


def _only_words(facts: Attributes) -> dict[str, str | bool | int | float]:
    return {name: value for name, value in facts.items() if not isinstance(value, tuple)}


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000_000)
