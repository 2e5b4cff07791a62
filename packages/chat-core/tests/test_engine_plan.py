"""Configuration of a chat as a run reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Never

from chat_core import FunctionCall, ToolCollection, ToolScope
from chat_core.engine.plan import ChatPlan, Settings
from chat_core.output import TextOutput
from chat_core.testing import ScriptedProvider
from chat_core.tools import Action, FunctionTool, ScopedCollection, ToolDefinition, execute_all
from chat_core.tools.action import Execute


class _Silent(ToolScope[Never]):
    """Scope that does not declare its tool `untold` to the model."""

    def __init__(self, scope: ScopedCollection[None, Never]) -> None:
        self._scope = scope

    def definitions(self) -> list[ToolDefinition]:
        return [
            replace(tool, declaration=replace(tool.declaration, declared=tool.declaration.name != "untold"))
            for tool in self._scope.definitions()
            if isinstance(tool, FunctionTool)
        ]

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[Never]:
        return await self._scope.decide(call, on_error=on_error)


def test_declarations_are_in_registration_order_across_all_scopes() -> None:
    first, second = ToolCollection(), ToolCollection()

    @first.tool
    def zebra() -> None: ...

    @first.tool
    def ape() -> None: ...

    @second.tool
    def lion() -> None: ...

    scopes = tuple([ScopedCollection(tools, lambda call, meta: Execute()) for tools in (first, second)])
    plan = ChatPlan(ScriptedProvider(), TextOutput(), scopes, None, Settings())
    assert [declaration.name for declaration in plan.declarations] == ["zebra", "ape", "lion"]
    assert plan.tools.owners["lion"][1] is scopes[1]


def test_an_undeclared_tool_has_an_owner_and_no_declaration() -> None:
    tools = ToolCollection()

    @tools.tool
    def told() -> None: ...

    @tools.tool
    def untold() -> None: ...

    plan = ChatPlan(
        ScriptedProvider(), TextOutput(), (_Silent(ScopedCollection(tools, execute_all)),), None, Settings()
    )
    assert [declaration.name for declaration in plan.declarations] == ["told"]
    assert set(plan.tools.owners) == {"told", "untold"}


def test_the_default_clock_returns_timezone_aware_times() -> None:
    assert Settings().now().utcoffset() is not None
