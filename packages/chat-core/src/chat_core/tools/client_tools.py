"""`ClientTools`, a scope for tools that a client declares and runs itself, such as functions of a browser page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NoReturn, cast, final

from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.messages.content import ClientToolObjects
from chat_core.response import Paused
from chat_core.tools.action import Action, Defer
from chat_core.tools.declare import ToolOptions
from chat_core.tools.definition import ToolDefinition, ToolScope
from chat_core.tools.raw import RawTool, declare_raw


@final
class ClientTools(ToolScope[Paused]):
    """Scope for tools that a client declares with a user turn: `messages.user(..., client_tools=[...])`.

    The declarations of the last user turn are sent to the model, after the tools of the chat. Each call waits for a
    result, which the client sends and the application records with `tool.complete()`. A chat has at most one such
    scope.
    """

    __slots__ = ("_defer", "_max_tools", "_tools")

    def __init__(
        self, declarations: ClientToolObjects = (), /, *, expires_in: timedelta | None = None, max_tools: int = 128
    ) -> None:
        """Create the scope, usually without tools until a user turn declares some.

        Args:
            declarations: JSON objects with a `name`, a `description` and `parameters`, a JSON Schema of an object.
            expires_in: time after which a call without a result fails; no limit by default.
            max_tools: maximum number of tools that one turn may declare.

        Raises:
            UsageError: a declaration is invalid, or there are too many.
        """
        self._defer = Defer(expires_in)
        self._max_tools = max_tools
        if type(max_tools) is not int:
            raise argument_error("max_tools", "a whole number", max_tools)
        if isinstance(declarations, (str, Mapping)) or not isinstance(declarations, Iterable):
            raise argument_error("declarations", "a list of JSON objects", cast("object", declarations))
        items = list(declarations)
        if len(items) > max_tools:
            msg = f"the client declares {len(items)} tools, but {max_tools} are allowed: raise max_tools"
            raise UsageError(msg)
        self._tools: tuple[RawTool, ...] = tuple([_parse_declaration(item) for item in items])

    def __repr__(self) -> str:
        return f"ClientTools({', '.join(self.names())})"

    def definitions(self) -> Sequence[ToolDefinition]:
        """Implement `ToolScope.definitions`: return the declared tools."""
        return self._tools

    @property
    def always(self) -> Defer:
        """Action for every call: a `Defer` with the expiry of this scope."""
        return self._defer

    async def decide(
        self,
        _call: FunctionCall,
        /,
        *,
        on_error: Callable[[BaseException], None] | None = None,  # noqa: ARG002 - nothing can fail
    ) -> Action[Paused]:
        """Implement `ToolScope.decide`: wait for the result."""
        return self._defer

    def with_declarations(self, declarations: ClientToolObjects, /) -> ClientTools:
        """Return a new scope with the declared client tools and the settings of this scope.

        Args:
            declarations: JSON objects with a `name`, a `description` and `parameters`, a JSON Schema of an object.

        Raises:
            UsageError: a declaration is invalid, or there are too many.
        """
        return ClientTools(declarations, expires_in=self._defer.expires_in, max_tools=self._max_tools)


def _parse_declaration(declaration: Mapping[str, object]) -> RawTool:
    if not isinstance(declaration, Mapping):
        raise argument_error("declarations", "a list of JSON objects", cast("object", [declaration]))
    name, description = declaration.get("name"), declaration.get("description")
    parameters = declaration.get("parameters", {"type": "object"})
    if not isinstance(name, str) or not isinstance(description, str | None) or not isinstance(parameters, Mapping):
        msg = (
            "a client tool is an object with a name, a description and parameters (a JSON Schema), not "
            f"{dict(declaration)!r}"
        )
        raise UsageError(msg)
    options = ToolOptions(name, description)
    return declare_raw(name, dict(cast("Mapping[str, object]", parameters)), _refuse_to_run, options)


def _refuse_to_run(_arguments: Mapping[str, object], /) -> NoReturn:
    msg = "the client runs this tool, not the chat: record the result that the client sends with tool.complete()"
    raise AssertionError(msg)
