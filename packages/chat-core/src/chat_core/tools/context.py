"""What a strategy and a tool's body may know about the call at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from chat_core.messages import Content, Decision, Messages  # circular: see FunctionCall.context


@final
@dataclass(frozen=True, slots=True)
class CallContext:
    """The circumstances of a call, for a strategy to read.

    Attributes:
        messages: the conversation up to the call, oldest first. Read only.
        conversation_id: where the conversation is stored, `None` where it is not.
        decisions: what was decided about this call before.
    """

    messages: Sequence[Content]
    conversation_id: str | None = None
    decisions: tuple[Decision, ...] = ()


def _ignore(_value: object, /) -> None: ...


@final
@dataclass(frozen=True, slots=True)
class ToolContext:
    """The circumstances of a call, for a tool's body: a parameter annotated with it gets it, and the model sees none.

    Attributes:
        call_id: our id of the call.
        attempt: counts from 1.
        idempotency_key: the same for every attempt of this call, for services that refuse to do a thing twice.
        messages: the conversation up to the call, oldest first. Read only.
        conversation_id: where the conversation is stored, `None` where it is not.
        report: where progress goes.
        inner: the conversation that a chat used as a tool had when it paused.
    """

    call_id: str
    attempt: int = 1
    idempotency_key: str = ""
    messages: Sequence[Content] = ()
    conversation_id: str | None = None
    report: Callable[[object], None] = field(default=_ignore, repr=False)
    inner: Messages | None = field(default=None, repr=False)

    def progress(self, value: object, /) -> None:
        """Tell the stream's consumer how far it is; delivered as `ToolProgress`. Never blocks, and works in threads."""
        self.report(value)
