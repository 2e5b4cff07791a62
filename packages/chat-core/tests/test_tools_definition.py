"""The protocol of tool scopes, which derives `names()` for custom scopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Never

from chat_core.messages import FunctionCall
from chat_core.tools import (
    Action,
    Execute,
    InvalidArgumentsError,
    ToolCollection,
    ToolDefinition,
    ToolScope,
    require_unique_names,
)


class Borrowed(ToolScope[Never]):
    """Tools of a collection in the opposite order."""

    def __init__(self, tools: ToolCollection[None]) -> None:
        self.tools = tools

    def definitions(self) -> Sequence[ToolDefinition]:
        return [definition for definition, _ in self.tools.snapshot().values()][::-1]

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[Never]:
        del call, on_error
        return Execute()


def test_names_of_a_scope_are_the_names_of_its_definitions_in_order() -> None:
    tools = ToolCollection()
    for name in ("a", "b", "c"):
        tools.register(name, {"type": "object"}, lambda arguments: arguments)
    scope = Borrowed(tools)
    assert scope.names() == ("c", "b", "a")
    require_unique_names([scope])


def test_invalid_arguments_error_is_a_value_error() -> None:
    assert issubclass(InvalidArgumentsError, ValueError)
