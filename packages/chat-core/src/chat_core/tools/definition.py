"""A declared tool as the loop sees it, and the scope that decides about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Generic, Protocol

from chat_core.messages import File, FunctionCall
from chat_core.provider import ToolDeclaration
from chat_core.tools.action import Action, WaitT_co
from chat_core.tools.context import ToolContext


class InvalidArgumentsError(ValueError):
    """A call's arguments do not satisfy the tool's schema; the message is for the model, which may call again."""


class ToolDefinition(Protocol):
    """One tool: what the model is told, how its arguments are checked, and how it runs."""

    @property
    def declaration(self) -> ToolDeclaration:
        """Its name, description and schema."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds for one run, `None` for no limit of its own."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether running it twice with one idempotency key does no harm."""
        ...

    @property
    def sequential(self) -> bool:
        """Whether it is a barrier among the calls of one answer."""
        ...

    @property
    def blocking(self) -> bool:
        """Whether `run()` must be called in a worker thread."""
        ...

    def validate(self, arguments: Mapping[str, object], /) -> Mapping[str, object]:
        """The canonical arguments: JSON, defaults filled in. Canonical arguments are their own canonical form.

        Raises:
            InvalidArgumentsError: they do not satisfy the schema.
        """
        ...

    def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> Awaitable[object] | object:
        """Run the body with canonical arguments. What it raises is the failure that the model is told."""
        ...

    def result(self, value: object, /) -> tuple[object, tuple[File, ...]]:
        """What the body returned, as JSON and files.

        Raises:
            TypeError: it is neither.
        """
        ...


class ToolScope(ABC, Generic[WaitT_co]):
    """Tools and what decides about them; the parameter is how they may halt a chat."""

    __slots__ = ()

    @abstractmethod
    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools, in the order of registration."""

    @abstractmethod
    async def decide(self, call: FunctionCall, /) -> Action[WaitT_co]:
        """Decide about a call of one of the tools. Never raises: a strategy that fails, fails closed."""

    @property
    def always(self) -> Action[WaitT_co] | None:
        """What is decided about every call, whatever it says; `None` where `decide()` must be asked."""
        return None

    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple([definition.declaration.name for definition in self.definitions()])
