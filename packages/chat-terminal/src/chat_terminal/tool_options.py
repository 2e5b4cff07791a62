"""Parsing of the options `--tools`, `--tool-choice` and `--approve`."""

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

from chat_terminal.models import load_module

Approve: TypeAlias = Literal["ask", "all", "none"]
"""Value of `--approve`, which applies to calls without a policy: prompt the user, run all, or leave all undecided."""


def load_scopes(references: Iterable[str], approve: Approve) -> list[ToolScope[Paused]]:
    """Load the tool collections of modules, each with its policy.

    A `ScopedCollection` keeps its own policy. Calls of a plain `ToolCollection` need approval unless `approve` is
    `all`.

    Args:
        references: `module`, `file.py`, or `file.py:name` for one collection of the module.
        approve: value of `--approve`.

    Raises:
        click.UsageError: the module does not exist or contains no tools.
    """
    return [scope for reference in references for scope in _load_scopes_from(reference, approve)]


def parse_tool_choice(value: str | None, scopes: Sequence[ToolScope[Paused]]) -> ToolChoice | None:
    """Convert the value of `--tool-choice` to the matching chat option.

    Args:
        value: `auto`, `required`, `none`, the name of a tool, or None if the option is missing.
        scopes: tools that are available.

    Raises:
        click.UsageError: there are no tools, or no tool has this name.
    """
    if value is None:
        return None
    names = [tool.declaration.name for scope in scopes for tool in scope.definitions()]
    if not names:
        msg = "--tool-choice needs tools: name some with --tools"
        raise click.UsageError(msg)
    match value:
        case "auto" | "required" | "none":
            return value
        case name if name in names:
            return NamedTool(name)
        case _:
            msg = f"--tool-choice takes auto, required, none, or one of {', '.join(names)}; not {value!r}"
            raise click.UsageError(msg)


def _load_scopes_from(reference: str, approve: Approve) -> list[ToolScope[Paused]]:
    # Windows paths contain a colon after the drive letter.
    module, name = (reference, "") if reference.endswith(".py") or ":" not in reference else reference.rsplit(":", 1)
    values = vars(load_module(module))
    if name and name not in values:
        msg = f"there is no {name!r} in {module}"
        raise click.UsageError(msg)
    # A collection with two names is loaded once.
    candidates = [values[name]] if name else list({id(value): value for value in values.values()}.values())
    scoped: list[ToolScope[Paused]] = [value for value in candidates if isinstance(value, ScopedCollection)]
    bare: list[ToolCollection[Any]] = [value for value in candidates if isinstance(value, ToolCollection)]
    # A plain collection whose tools are already in a scope of the module is subject to that policy.
    scoped_ids = _tool_ids(scoped)
    scoped += [
        scope for scope in [_scope_with_policy(one, approve) for one in bare] if not scoped_ids & _tool_ids([scope])
    ]
    if not scoped:
        msg = f"there are no tools in {reference}: it has no ToolCollection and no ScopedCollection"
        raise click.UsageError(msg)
    return scoped


def _tool_ids(scopes: Iterable[ToolScope[Paused]]) -> set[int]:
    return {id(tool) for scope in scopes for tool in scope.definitions()}


def _scope_with_policy(tools: ToolCollection[Any], approve: Approve) -> ToolScope[Paused]:
    def policy(_call: FunctionCall, _meta: object) -> Execute | RequireApproval:
        return Execute() if approve == "all" else RequireApproval()

    return ScopedCollection(tools, policy)
