"""An observer that writes a line for each thing that is over, without a word of what was said."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias, final

from chat_core.messages import Completed

if TYPE_CHECKING:
    from chat_core.observer.records import CallRecord, RunRecord, ToolRecord, WaitRecord
    from chat_core.usage import Usage

_NOTHING = nullcontext()
Facts: TypeAlias = dict[str, object]


@final
class LoggingObserver:
    """Logs each run, model call, tool and wait when it is over: what it was, how it ended, how long it took.

    A line holds no message, no argument, no result, and of an error its class alone: its text may quote any of them.
    The facts are attributes of the record as well, for a formatter that writes JSON; their names begin with `chat_`.

    Args:
        logger: where the lines go; `chat_core.observer` by default.
        level: of a line. One about what failed is a warning at least.
        clock: tells seconds.
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

    def run(self, record: RunRecord, /) -> _Line:
        """A line when the run is over."""

        def facts() -> Facts:
            waiting = len(record.pause.waiting) if record.pause is not None else 0
            about: Facts = {"outcome": record.outcome, "steps": record.steps, "waiting": waiting or None}
            return {**_conversation(record), **about, **_cost(record.usage), "error": _class_of(record.error)}

        return _Line(self, "run", facts)

    def model_call(self, record: CallRecord, /) -> _Line:
        """A line when the model has answered, or will not."""

        def facts() -> Facts:
            meta = record.provider
            about: Facts = {"operation": record.operation, "provider": meta.name, "model": record.model or meta.model}
            answer: Facts = {
                "finish_reason": record.turn.finish_reason if record.turn is not None else None,
                "failures": len(record.failures) or None,
                "first_seconds": record.first_after,
            }
            error = {"error": _class_of(record.error)}
            return {**_conversation(record.run), **about, **answer, **_cost(record.usage), **error}

        return _Line(self, "model call", facts)

    def tool(self, record: ToolRecord, /) -> _Line:
        """A line when the tool's body is over."""

        def facts() -> Facts:
            tool = record.tool
            status = type(tool.status).__name__.lower()
            error = _class_of(record.error) or (None if isinstance(tool.status, Completed) else status)
            about: Facts = {"tool": tool.name, "tool_id": tool.id, "attempt": record.attempt, "status": status}
            return {**_conversation(record.run), **about, "error": error if status == "failed" else None}

        return _Line(self, "tool", facts)

    def decided(self, record: WaitRecord, /) -> None:
        """A line for the wait."""
        tool = record.tool
        seconds = (record.ended_at - record.asked_at).total_seconds()
        about: Facts = {"tool": tool.name, "tool_id": tool.id, "kind": record.kind, "outcome": record.outcome}
        edited: Facts = {"edited": record.edited or None}
        self.write("wait", {**_conversation(record.run), **about, **edited}, seconds)

    def seconds(self) -> float:
        """What its clock says."""
        return self._clock()

    def write(self, what: str, facts: Facts, seconds: float) -> None:
        """Write a line."""
        level = self._level if facts.get("error") is None else max(self._level, logging.WARNING)
        if not self._logger.isEnabledFor(level):
            return
        told = {name: value for name, value in facts.items() if value is not None}
        words = " ".join([f"{name}={value}" for name, value in told.items()])
        extra = {f"chat_{name}": value for name, value in told.items()}
        self._logger.log(
            level, "%s: %s, %.3f s", what, words, seconds, extra={**extra, "chat_what": what, "chat_seconds": seconds}
        )


@final
class _Line:
    """A line to be written at the end."""

    __slots__ = ("_begun", "_facts", "_observer", "_what")

    def __init__(self, observer: LoggingObserver, what: str, facts: Callable[[], Facts]) -> None:
        self._observer = observer
        self._what = what
        self._facts = facts
        self._begun = observer.seconds()

    def inside(self) -> AbstractContextManager[object]:
        return _NOTHING

    def end(self) -> None:
        self._observer.write(self._what, self._facts(), self._observer.seconds() - self._begun)


def _conversation(run: RunRecord | None) -> Facts:
    return {"conversation": run.conversation_id if run is not None else None}


def _cost(usage: Usage) -> Facts:
    return {"input_tokens": usage.input_tokens or None, "output_tokens": usage.output_tokens or None}


def _class_of(error: BaseException | None) -> str | None:
    return type(error).__name__ if error is not None else None
