"""Interfaces for the definition of a tool and for the scope that decides about its calls."""

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
    """Error for arguments that do not satisfy the schema of a tool. The message is written for the model."""


class ToolDefinition(Protocol):
    """Tool that a model can call: its declaration, the validation of its arguments, and the function that it runs."""

    @property
    def declaration(self) -> ToolDeclaration:
        """Name, description and schema for the model."""
        ...

    @property
    def timeout(self) -> float | None:
        """Timeout of one execution in seconds; `None` for the chat's default."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether an interrupted execution may be repeated with the same idempotency key."""
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
        """Validate arguments and return their canonical form, which is JSON with defaults filled in.

        Arguments that are already canonical are returned unchanged.

        Raises:
            InvalidArgumentsError: the arguments do not satisfy the schema.
        """
        ...

    def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> Awaitable[object] | object:
        """Run the tool. If it raises an exception, the call fails, and the model receives the message.

        Args:
            arguments: canonical arguments.
            context: information about the call.

        Returns:
            The result, or an awaitable of it.
        """
        ...

    def result(self, value: object, /) -> tuple[object, tuple[File, ...]]:
        """Convert a return value of the tool, and return it as JSON together with the files in it.

        Raises:
            TypeError: the result cannot be converted.
        """
        ...


def check_arguments(definition: ToolDefinition, arguments: Mapping[str, object]) -> Mapping[str, object]:
    """Validate the arguments of a tool call and return them deeply read-only.

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
    """Base class for tool definitions whose function has `Injected` parameters."""

    __slots__ = ()

    @property
    @abstractmethod
    def injected(self) -> Sequence[Any]:
        """Types of the `Injected` parameters."""


class ToolScope(ABC, Generic[WaitT_co]):
    """Group of tools whose calls are decided by one strategy.

    The type parameter is the kind of pause that the strategy can cause.
    """

    __slots__ = ()

    @abstractmethod
    def definitions(self) -> Sequence[ToolDefinition]:
        """Return the tools, in the order of registration."""

    @abstractmethod
    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[WaitT_co]:
        """Return the action for a call. Never raises: if the strategy fails, the action does not run the call.

        Args:
            call: a call of one of the tools, with validated arguments.
            on_error: called with the exception if the strategy raises one.
        """

    @property
    def always(self) -> Action[WaitT_co] | None:
        """Action for every call, or `None` if the action depends on the call and `decide()` must be called."""
        return None

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return tuple([definition.declaration.name for definition in self.definitions()])
