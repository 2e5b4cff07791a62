"""The parts of a chat, gathered by the builder and read by every run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeAlias, final

from typing_extensions import TypeVar

from chat_core.engine.retry import Retry
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.output import OutputSpec
from chat_core.provider import CompletionProvider, ToolDeclarations
from chat_core.response import ChatResponse, Paused
from chat_core.tools.action import Action
from chat_core.tools.chat_tools import ChatTools
from chat_core.tools.definition import ToolScope

if TYPE_CHECKING:
    from chat_core.observer import Observer

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Paused)

Hook: TypeAlias = Callable[[Messages], Awaitable[None] | None]
"""Called with the conversation before a run's first provider call, or after its answer. What it raises ends the run."""


def _now() -> datetime:
    return datetime.now(UTC)


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a chat.

    Attributes:
        max_steps: provider calls of one run, corrections included.
        corrections: how often an invalid structured answer goes back to the model.
        concurrency: how many tools of one pass run at once.
        tool_timeout: seconds for a tool that sets no limit of its own; `None` for no limit.
        now: the clock by which waits expire and schedules fall due.
    """

    options: ChatOptions = field(default_factory=ChatOptions)
    max_steps: int = 16
    corrections: int = 1
    concurrency: int = 8
    tool_timeout: float | None = None
    retry: Retry = field(default_factory=Retry)
    before: tuple[Hook, ...] = ()
    after: tuple[Hook, ...] = ()
    observers: tuple[Observer, ...] = ()
    now: Callable[[], datetime] = _now


@final
class ChatPlan(Generic[OutT_co, PauseT_co]):
    """Everything a run reads; immutable, shared by all runs of a chat."""

    __slots__ = ("declarations", "model", "output", "settings", "tools")

    def __init__(
        self,
        model: CompletionProvider,
        output: OutputSpec[OutT_co],
        scopes: tuple[ToolScope[PauseT_co], ...],
        interrupted: Action[PauseT_co] | None,
        settings: Settings,
    ) -> None:
        """The builder has checked that names are unique over all scopes."""
        self.model = model
        self.output = output
        self.settings = settings
        self.tools = ChatTools(scopes, interrupted, settings.now)
        declarations = [definition.declaration for definition, _ in self.tools.owners.values()]
        self.declarations = ToolDeclarations([declaration for declaration in declarations if declaration.told])
