"""An observer that logs one line for each finished run, model call, tool execution and wait, without any content."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import TypeAlias, final

from chat_core.messages import Completed
from chat_core.observer.records import CallRecord, RunRecord, ToolRecord, WaitRecord
from chat_core.usage import Usage

_NOTHING = nullcontext()
Fields: TypeAlias = dict[str, object]


@final
class LoggingObserver:
    """Observer that logs the outcome and duration of each run, model call, tool execution and wait.

    A line contains no messages, arguments or results. For an error, it contains only the class, because the error text
    may quote them. The fields are also attributes of the log record, prefixed with `chat_`, for JSON formatters.

    Args:
        logger: logger that receives the lines, `chat_core.observer` by default.
        level: level of the lines. Failures are logged with at least `logging.WARNING`.
        clock: function that returns seconds, for durations.
    """

    def __init__(
        self,
        logger: logging.Logger | None = None,
        *,
        level: int = logging.INFO,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._logger = logger or logging.getLogger("chat_core.observer")
        self._level = level
        self._clock = clock

    def run(self, record: RunRecord, /) -> _LineObservation:
        """Implement `Observer.run`: log a line when the run ends."""

        def fields() -> Fields:
            waiting = len(record.pause.waiting) if record.pause is not None else 0
            details: Fields = {"outcome": record.outcome, "steps": record.steps, "waiting": waiting or None}
            return {
                **_conversation_fields(record),
                **details,
                **_usage_fields(record.usage),
                "error": _class_name(record.error),
            }

        return _LineObservation(self, "run", fields)

    def model_call(self, record: CallRecord, /) -> _LineObservation:
        """Implement `Observer.model_call`: log a line when the model call ends."""

        def fields() -> Fields:
            meta = record.provider
            details: Fields = {
                "operation": record.operation,
                "provider": meta.name,
                "model": record.model or meta.model,
            }
            answer: Fields = {
                "finish_reason": record.turn.finish_reason if record.turn is not None else None,
                "failures": len(record.failures) or None,
                "first_seconds": record.first_after,
            }
            error = {"error": _class_name(record.error)}
            return {**_conversation_fields(record.run), **details, **answer, **_usage_fields(record.usage), **error}

        return _LineObservation(self, "model call", fields)

    def tool(self, record: ToolRecord, /) -> _LineObservation:
        """Implement `Observer.tool`: log a line when the tool execution ends."""

        def fields() -> Fields:
            tool = record.tool
            status = type(tool.status).__name__.lower()
            error = _class_name(record.error) or (None if isinstance(tool.status, Completed) else status)
            details: Fields = {"tool": tool.name, "tool_id": tool.id, "attempt": record.attempt, "status": status}
            return {**_conversation_fields(record.run), **details, "error": error if status == "failed" else None}

        return _LineObservation(self, "tool", fields)

    def decided(self, record: WaitRecord, /) -> None:
        """Implement `Observer.decided`: log a line for the wait."""
        tool = record.tool
        seconds = (record.ended_at - record.asked_at).total_seconds()
        details: Fields = {"tool": tool.name, "tool_id": tool.id, "kind": record.kind, "outcome": record.outcome}
        edited: Fields = {"edited": record.edited or None}
        self.write("wait", {**_conversation_fields(record.run), **details, **edited}, seconds)

    def warning(self, record: RunRecord, message: str, /) -> None:
        """Implement `WarningObserver.warning`: log a line at the level `WARNING`."""
        self._logger.warning("warning: %s", message, extra={"chat_conversation": record.conversation_id})

    def seconds(self) -> float:
        """Return the current time of the clock in seconds."""
        return self._clock()

    def write(self, subject: str, fields: Fields, seconds: float) -> None:
        """Log one line.

        Args:
            subject: operation that ended: `run`, `model call`, `tool` or `wait`.
            fields: the fields of the line. Fields that are `None` are omitted.
            seconds: duration in seconds.
        """
        level = self._level if fields.get("error") is None else max(self._level, logging.WARNING)
        if not self._logger.isEnabledFor(level):
            return
        present = {name: value for name, value in fields.items() if value is not None}
        text = " ".join([f"{name}={value}" for name, value in present.items()])
        extra = {f"chat_{name}": value for name, value in present.items()}
        self._logger.log(
            level,
            "%s: %s, %.3f s",
            subject,
            text,
            seconds,
            extra={**extra, "chat_what": subject, "chat_seconds": seconds},
        )


@final
class _LineObservation:
    """Observation that logs one line when the observed operation ends."""

    __slots__ = ("_fields", "_observer", "_started_at", "_subject")

    def __init__(self, observer: LoggingObserver, subject: str, fields: Callable[[], Fields]) -> None:
        self._observer = observer
        self._subject = subject
        self._fields = fields
        self._started_at = observer.seconds()

    def inside(self) -> AbstractContextManager[object]:
        return _NOTHING

    def end(self) -> None:
        self._observer.write(self._subject, self._fields(), self._observer.seconds() - self._started_at)


def _conversation_fields(run: RunRecord | None) -> Fields:
    return {"conversation": run.conversation_id if run is not None else None}


def _usage_fields(usage: Usage) -> Fields:
    return {"input_tokens": usage.input_tokens or None, "output_tokens": usage.output_tokens or None}


def _class_name(error: BaseException | None) -> str | None:
    return type(error).__name__ if error is not None else None
