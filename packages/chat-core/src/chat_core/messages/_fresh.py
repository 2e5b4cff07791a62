"""Fast constructors for immutable values, for reading histories that contain thousands of them.

The `__init__` of a frozen dataclass calls `object.__setattr__` for every field, which took a third of the time of
reading a history. These constructors fill a mutable class with the same slots instead, and then assign `__class__`.
Python allows this assignment only between classes with the same layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chat_core.frozen import FrozenDict
from chat_core.messages.content import Turn
from chat_core.messages.function_call import FunctionCall
from chat_core.messages.parts import Text
from chat_core.messages.status import Completed
from chat_core.messages.tool import Tool
from chat_core.usage import NO_USAGE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from chat_core.messages.content import FinishReason, Part
    from chat_core.usage import Metadata


class _MutableText:
    __slots__ = ("extra", "opaque", "text")


class _MutableCall:
    __slots__ = ("arguments", "context", "extra", "id", "name", "opaque", "problem", "raw")


class _MutableCompleted:
    __slots__ = ("data", "extra", "files", "result", "state")


class _MutableTool:
    __slots__ = (
        "_status", "attempts", "call", "call_id", "canonical", "decisions", "edited", "extra", "id", "idempotency_key",
        "inner_usage", "revision",
    )  # fmt: skip

    def __init__(self, status: Completed) -> None:
        self._status = status


def new_text(content: str) -> Text:
    """Create the same value as `Text(content)`, but faster."""
    instance: Any = _MutableText()
    instance.text = content
    instance.opaque = instance.extra = None
    instance.__class__ = Text
    frozen: Text = instance
    return frozen


def new_call(name: str, arguments: Mapping[str, object], raw: str) -> FunctionCall:
    """Create the same value as `FunctionCall(name, arguments, raw=raw)`, but faster.

    The arguments must not contain lists or dicts, because they are not frozen recursively.
    """
    instance: Any = _MutableCall()
    instance.name = name
    instance.arguments = FrozenDict(arguments)
    instance.id = ""
    instance.raw = raw
    instance.problem = instance.opaque = instance.context = instance.extra = None
    instance.__class__ = FunctionCall
    frozen: FunctionCall = instance
    return frozen


def new_completed(result: object) -> Completed:
    """Create the same value as `Completed(result)`, but faster."""
    instance: Any = _MutableCompleted()
    instance.result = result
    instance.files = instance.data = ()
    instance.extra = instance.state = None
    instance.__class__ = Completed
    frozen: Completed = instance
    return frozen


def new_tool(  # noqa: PLR0917 - as many as a stored tool has
    call: FunctionCall,
    id: str,
    call_id: str | None,
    status: Completed,
    key: str,
    attempts: int,
    revision: int,
) -> Tool:
    """Create a completed `Tool` with the given fields, without validating them."""
    instance: Any = _MutableTool(status)
    instance.call = call
    instance.id = id
    instance.call_id = call_id
    instance.canonical = instance.edited = instance.extra = None
    instance.decisions = ()
    instance.idempotency_key = key
    instance.attempts = attempts
    instance.revision = revision
    instance.inner_usage = NO_USAGE
    instance.__class__ = Tool
    tool: Tool = instance
    return tool


def new_turn(
    parts: tuple[Part, ...],
    at: datetime,
    reason: FinishReason | None,
    metadata: Metadata | None,
    *,
    delivered: bool | None,
    view_offset: int,
) -> Turn:
    """Create a `Turn` with the given fields, without validating them."""
    instance: Any = Turn.__new__(Turn)
    instance.parts = parts
    instance.finish_reason = reason
    instance.metadata = metadata
    instance.created_at = at
    instance.by = instance.failed_usage = instance.state = instance.extra = instance.encodings = None
    instance.client_id = None
    instance.delivered = delivered
    instance.client_tools = ()
    instance.owned = False
    instance.view_offset = view_offset
    instance.failed_requests = 0
    frozen: Turn = instance
    return frozen
