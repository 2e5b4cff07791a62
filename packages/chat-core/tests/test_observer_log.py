from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import count

import pytest
from chat_core import ChatBuilder, FunctionCall, Messages, RequireApproval, ScopedCollection, ToolCollection
from chat_core.errors import RateLimitedError
from chat_core.observer import LoggingObserver
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret"


class Lines(logging.Handler):
    """Log handler that stores the records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def facts(self) -> list[dict[str, object]]:
        """Return the attributes of each log record."""
        return [
            {name.removeprefix("chat_"): value for name, value in vars(record).items() if name.startswith("chat_")}
            for record in self.records
        ]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("test.observer")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)


def observer() -> LoggingObserver:
    ticks = count()
    return LoggingObserver(logging.getLogger("test.observer"), clock=lambda: float(next(ticks)))


async def test_logging_observer_logs_one_line_per_operation_without_content(lines: Lines) -> None:
    tools = ToolCollection()

    @tools.tool
    async def pay(note: str) -> str:
        return f"{note} is paid"

    scope = ScopedCollection(tools, lambda call, meta: RequireApproval())
    call = FunctionCall("pay", {"note": SECRET}, id="p1")
    model = ScriptedProvider([SECRET, call], SECRET, by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).with_observer(observer()).build()
    messages = Messages.from_user(SECRET)
    conversation = MemoryConversation(messages)
    await chat.complete(conversation)
    messages.tool("p1").approve(by=SECRET, note=SECRET, arguments={"note": SECRET * 2})
    await chat.complete(conversation)

    facts = lines.facts()
    assert [line.pop("conversation") for line in facts] == [conversation.id] * 6
    assert [line.pop("what") for line in facts] == ["model call", "run", "wait", "tool", "model call", "run"]
    call_line, run, wait, tool, last, answered = facts
    cost = {"input_tokens": 10, "output_tokens": 5}
    assert call_line == {
        "operation": "chat", "provider": "scripted", "model": "script", "finish_reason": "tool_calls", **cost,
        "seconds": 1.0,
    }  # fmt: skip
    assert run == {"outcome": "paused", "steps": 1, "waiting": 1, **cost, "seconds": 3.0}
    assert wait.pop("seconds") is not None
    assert wait == {"tool": "pay", "tool_id": "p1", "kind": "approval", "outcome": "approved", "edited": True}
    assert tool == {"tool": "pay", "tool_id": "p1", "attempt": 1, "status": "completed", "seconds": 1.0}
    assert last["finish_reason"] == "stop"
    assert answered["outcome"] == "answered"
    assert all(record.levelno == logging.INFO for record in lines.records)
    assert SECRET not in str([vars(record) for record in lines.records])
    assert lines.records[3].getMessage() == (
        f"tool: conversation={conversation.id} tool=pay tool_id=p1 attempt=1 status=completed, 1.000 s"
    )


async def test_logging_observer_logs_failures_as_warnings_with_the_error_class(lines: Lines) -> None:
    tools = ToolCollection()

    @tools.tool
    async def pay() -> None:
        raise ZeroDivisionError(SECRET)

    busy = Answer(error=RateLimitedError(SECRET, status=429, retry_after=0.0))
    model = ScriptedProvider([FunctionCall("pay", {}, id="p1")], busy, busy)
    chat = ChatBuilder().with_model(model).with_tools(tools).with_retry(1).with_observer(observer()).build()
    with pytest.raises(RateLimitedError):
        await chat.complete(Messages.from_user("hi"))

    assert [record.levelno for record in lines.records] == [logging.INFO, *[logging.WARNING] * 3]
    _, tool, failed, run = lines.facts()
    assert (tool["error"], tool["status"]) == ("ZeroDivisionError", "failed")
    assert (failed["error"], failed["failures"]) == ("RateLimitedError", 2)
    assert (run["error"], run["outcome"]) == ("RateLimitedError", "failed")
    assert SECRET not in str([vars(record) for record in lines.records])


async def test_logging_observer_formats_nothing_if_its_level_is_disabled(lines: Lines) -> None:
    quiet = LoggingObserver(logging.getLogger("test.observer"), level=logging.DEBUG)
    await (
        ChatBuilder().with_model(ScriptedProvider("hi")).with_observer(quiet).build().complete(Messages.from_user("?"))
    )
    assert lines.records == []
