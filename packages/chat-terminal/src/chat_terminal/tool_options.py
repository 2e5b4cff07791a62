"""Tools from a module of the user's, and who decides about their calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import click
from chat_core import (
    Execute,
    FunctionCall,
    NamedTool,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolChoice,
    ToolCollection,
)
from chat_core.tools import ToolScope

from chat_terminal.models import load

Approve: TypeAlias = Literal["ask", "all", "none"]
"""Who decides about calls that have no policy: a person, nobody (they run), or somebody later."""


def scopes(places: Iterable[str], approve: Approve) -> list[ToolScope[Paused]]:
    """The tools of some modules: `module`, `file.py`, or `file.py:name` for one collection of it.

    A `ScopedCollection` keeps its own policy. The calls of a `ToolCollection` wait for a person, unless all may run.

    Raises:
        click.UsageError: there is no such module, or there are no tools in it.
    """
    return [scope for place in places for scope in _scopes_of(place, approve)]


def chosen(said: str | None, found: Sequence[ToolScope[Paused]]) -> ToolChoice | None:
    """What was said of the choice of tools: a word, or the name of one.

    Raises:
        click.UsageError: there are no tools, or none of that name.
    """
    if said is None:
        return None
    names = [tool.declaration.name for scope in found for tool in scope.definitions()]
    if not names:
        msg = "--tool-choice is about tools, and there are none: name some with --tools"
        raise click.UsageError(msg)
    match said:
        case "auto" | "required" | "none":
            return said
        case name if name in names:
            return NamedTool(name)
        case _:
            msg = f"--tool-choice takes auto, required, none, or one of {', '.join(names)}; not {said!r}"
            raise click.UsageError(msg)


def _scopes_of(place: str, approve: Approve) -> list[ToolScope[Paused]]:
    # A path of Windows has a colon behind its drive.
    module, name = (place, "") if place.endswith(".py") or ":" not in place else place.rsplit(":", 1)
    values = vars(load(module))
    if name and name not in values:
        msg = f"there is no {name!r} in {module}"
        raise click.UsageError(msg)
    # One that has two names is one all the same.
    found = [values[name]] if name else list({id(value): value for value in values.values()}.values())
    scoped: list[ToolScope[Paused]] = [value for value in found if isinstance(value, ScopedCollection)]
    bare: list[ToolCollection[Any]] = [value for value in found if isinstance(value, ToolCollection)]
    # A collection that stands in a scope of the same module is under its policy.
    ruled = _tools_of(scoped)
    scoped += [scope for scope in [_scoped(one, approve) for one in bare] if not ruled & _tools_of([scope])]
    if not scoped:
        msg = f"there are no tools in {place}: a ToolCollection or a ScopedCollection is looked for"
        raise click.UsageError(msg)
    return scoped


def _tools_of(scopes: Iterable[ToolScope[Paused]]) -> set[int]:
    return {id(tool) for scope in scopes for tool in scope.definitions()}


def _scoped(tools: ToolCollection[Any], approve: Approve) -> ToolScope[Paused]:
    def policy(_call: FunctionCall, _meta: object) -> Execute | RequireApproval:
        return Execute() if approve == "all" else RequireApproval()

    return ScopedCollection(tools, policy)
