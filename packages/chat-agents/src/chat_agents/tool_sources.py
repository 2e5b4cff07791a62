"""Tools that an application adds to one run, in addition to those of the flow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, final

from chat_core import Action, FunctionCall, Paused, ToolDefinition, ToolScope
from chat_core.arguments import require_items
from typing_extensions import TypeVar

PauseT = TypeVar("PauseT", bound=Paused)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

_LOG = logging.getLogger("chat_agents")


def drop_duplicate_tools(sources: Sequence[ToolScope[PauseT]], names: Iterable[str]) -> list[ToolScope[PauseT]]:
    """Return the scopes with only those tools whose name is not used by the flow or an earlier scope.

    Each omitted tool is logged. Scopes without remaining tools are omitted.

    Args:
        sources: the scopes, in order of precedence.
        names: names of the flow's tools.

    Raises:
        UsageError: a source is not a tool scope.
    """
    expected = "a list of tool scopes, such as [ScopedCollection(tools, policy)]"
    require_items("sources", sources, ToolScope, expected)
    taken = set(names)
    found: list[ToolScope[PauseT]] = []
    for source in sources:
        definitions: list[ToolDefinition] = []
        for item in source.definitions():
            name = item.declaration.name
            if name in taken:
                _LOG.warning("the tool %r of a source is left out: the flow or an earlier source has this name", name)
            else:
                taken.add(name)
                definitions.append(item)
        if definitions:
            found.append(_PartialScope(source, definitions))
    return found


@final
class _PartialScope(ToolScope[PauseT_co], Generic[PauseT_co]):
    """Some of the tools of another scope, with that scope's policy."""

    __slots__ = ("_definitions", "_scope")

    def __init__(self, scope: ToolScope[PauseT_co], definitions: Sequence[ToolDefinition]) -> None:
        self._scope = scope
        self._definitions = definitions

    def definitions(self) -> Sequence[ToolDefinition]:
        return self._definitions

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[PauseT_co]:
        return await self._scope.decide(call, on_error=on_error)

    @property
    def always(self) -> Action[PauseT_co] | None:
        return self._scope.always
