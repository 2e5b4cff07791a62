"""Making the frozen values of which a history holds thousands, at half the cost.

A frozen dataclass refuses to set a field, so its own `__init__` goes round that with a call for each: that was a third
of what reading a history took. Here a value begins as its twin, which has the same slots and is open, and becomes what
it is once they are filled. Python allows that between classes of one layout, and refuses it for any others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chat_core.messages.content import Turn
from chat_core.messages.parts import Text
from chat_core.messages.status import Completed
from chat_core.messages.tool import FunctionCall, Tool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from chat_core.messages.content import FinishReason
    from chat_core.messages.parts import Part
    from chat_core.usage import Metadata


class _OpenText:
    __slots__ = ("extra", "opaque", "text")


class _OpenCall:
    __slots__ = ("arguments", "context", "extra", "id", "name", "opaque", "problem", "raw")


class _OpenCompleted:
    __slots__ = ("extra", "files", "result")


def text(words: str) -> Text:
    """`Text(words)`."""
    made: Any = _OpenText()
    made.text = words
    made.opaque = made.extra = None
    made.__class__ = Text
    done: Text = made
    return done


def call(name: str, arguments: Mapping[str, object], raw: str) -> FunctionCall:
    """`FunctionCall(name, arguments, raw=raw)`."""
    made: Any = _OpenCall()
    made.name = name
    made.arguments = arguments
    made.id = ""
    made.raw = raw
    made.problem = made.opaque = made.context = made.extra = None
    made.__class__ = FunctionCall
    done: FunctionCall = made
    return done


def completed(result: object) -> Completed:
    """`Completed(result)`."""
    made: Any = _OpenCompleted()
    made.result = result
    made.files = ()
    made.extra = None
    made.__class__ = Completed
    done: Completed = made
    return done


def tool(  # noqa: PLR0917 - as many as a stored tool has
    asked: FunctionCall,
    id: str,  # noqa: A002 - the field's own name
    call_id: str | None,
    status: Completed,
    key: str,
    attempts: int,
    revision: int,
) -> Tool:
    """A tool that is resolved, of what is known to be right."""
    made = Tool.__new__(Tool)
    made.call = asked
    made.id = id
    made.call_id = call_id
    made.status = status
    made.canonical = made.edited = made.extra = None
    made.decisions = ()
    made.idempotency_key = key
    made.attempts = attempts
    made.revision = revision
    return made


def turn(parts: tuple[Part, ...], at: datetime, reason: FinishReason | None, metadata: Metadata | None) -> Turn:
    """A turn of what is known to be right."""
    made: Any = Turn.__new__(Turn)
    made.parts = parts
    made.finish_reason = reason
    made.metadata = metadata
    made.created_at = at
    made.by = made.extra = made.encodings = None  # as `Turn.__init__` does
    done: Turn = made
    return done
