"""Interfaces of a declared tool, and of the scope that decides about its calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol

from chat_core import model_texts
from chat_core.frozen import freeze
from chat_core.messages import File, FunctionCall
from chat_core.provider import ToolDeclaration
from chat_core.tools.action import Action, WaitT_co
from chat_core.tools.context import ToolContext


class InvalidArgumentsError(ValueError):
    """The arguments of a call do not satisfy the tool's schema. The message is written for the model."""


class ToolDefinition(Protocol):
    """Tool: its declaration for the model, the validation of its arguments, and its body."""

    @property
    def declaration(self) -> ToolDeclaration:
        """Name, description and schema for the model."""
        ...

    @property
    def timeout(self) -> float | None:
        """Timeout of one run in seconds; `None` for the chat's default."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether the body may run twice with the same idempotency key."""
        ...

    @property
    def sequential(self) -> bool:
        """Whether the call waits for all earlier calls of the response, and all later calls wait for it."""
        ...

    @property
    def blocking(self) -> bool:
        """Whether `run()` must be called in a worker thread."""
        ...

    def validate(self, arguments: Mapping[str, object], /) -> Mapping[str, object]:
        """Return the canonical arguments: JSON with defaults filled in. Canonical arguments are returned unchanged.

        Raises:
            InvalidArgumentsError: the arguments do not satisfy the schema.
        """
        ...

    def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> Awaitable[object] | object:
        """Run the body. The model receives an exception of the body as the failure of the call.

        Args:
            arguments: canonical arguments.
            context: circumstances of the call.

        Returns:
            The result, or an awaitable of it.
        """
        ...

    def result(self, value: object, /) -> tuple[object, tuple[File, ...]]:
        """Return a result of the body as JSON and files.

        Raises:
            TypeError: the result cannot be converted.
        """
        ...


def check_arguments(definition: ToolDefinition, arguments: Mapping[str, object]) -> Mapping[str, object]:
    """Return the validated arguments, deeply read-only.

    Args:
        definition: definition of the tool.
        arguments: arguments to validate.

    Raises:
        InvalidArgumentsError: the arguments are invalid, or their validation raised any other error.
    """
    try:
        return freeze(definition.validate(arguments))
    except InvalidArgumentsError:
        raise
    except Exception as error:
        raise InvalidArgumentsError(model_texts.arguments_not_checked(error)) from error


class TakesInjected(ABC):
    """A `ToolDefinition` whose body has `Injected` parameters."""

    __slots__ = ()

    @property
    @abstractmethod
    def injected(self) -> Sequence[Any]:
        """The types of the parameters."""


class ToolScope(ABC, Generic[WaitT_co]):
    """Tools under one strategy. The type parameter is the kind of pause that the strategy can cause."""

    __slots__ = ()

    @abstractmethod
    def definitions(self) -> Sequence[ToolDefinition]:
        """Return the tools, in the order of registration."""

    @abstractmethod
    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[WaitT_co]:
        """Return the action for a call of one of the tools. Never raises: after an error the call does not run.

        Args:
            call: the call, with validated arguments.
            on_error: called with the error of the strategy, if it raises.
        """

    @property
    def always(self) -> Action[WaitT_co] | None:
        """Action for every call, if it does not depend on the call; otherwise `None`, and `decide()` must be called."""
        return None

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return tuple([definition.declaration.name for definition in self.definitions()])
