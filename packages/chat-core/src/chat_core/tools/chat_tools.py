"""`ChatTools`, the tools of a chat with the scopes that decide about their calls. It is available as `chat.tools`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeAlias, cast, final

from typing_extensions import TypeVar

from chat_core.arguments import require_callable, require_items, require_text, require_type
from chat_core.clock import utc_clock
from chat_core.errors import UsageError
from chat_core.messages import Grant, Messages
from chat_core.response import Paused, Wait
from chat_core.run_context import ValueFactory
from chat_core.tools.action import Action
from chat_core.tools.client_tools import ClientTools
from chat_core.tools.definition import TakesInjected, ToolDefinition, ToolScope
from chat_core.tools.scope import require_unique_names

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Paused)

GrantRule: TypeAlias = Callable[[Grant, Wait], bool]
"""Function that returns whether a grant may replace the approval of a call. If it raises, the call is not approved."""


@final
class ChatTools(Generic[PauseT_co]):
    """Immutable collection of a chat's tools and of the scopes that decide about their calls.

    Attributes:
        scopes: the scopes, in the order in which they were added to the builder.
        interrupted: the action for interrupted calls; `None` if a run raises `InterruptedToolsError` instead.
        now: function that returns the current time in UTC, to check expiry times and schedules.
        owners: each tool's definition and scope by the tool's name, in the order of registration.
        factories: the factories of the chat's values by type, in the order in which they were added.
        required: a pair of tool name and type for each injected parameter without a factory in this chat or the inner
            chat of the tool. Each run must pass a value of the type. Names of tools in inner chats are joined by `/`.
        grant_rule: rule that each grant must satisfy for each call, see `ChatBuilder.with_grant_rule()`, or `None`.
    """

    __slots__ = ("factories", "grant_rule", "interrupted", "now", "owners", "required", "scopes", "uses_values")

    def __init__(
        self,
        scopes: Sequence[ToolScope[PauseT_co]],
        interrupted: Action[PauseT_co] | None,
        now: Callable[[], datetime],
        factories: Mapping[Any, ValueFactory[Any]] | None = None,
        grant_rule: GrantRule | None = None,
    ) -> None:
        """Collect the tools of `scopes`. The caller checks that their names are unique."""
        require_items("scopes", scopes, ToolScope, "a sequence of scopes of tools")
        require_callable("now", now, "a function that returns the time")
        self.scopes: tuple[ToolScope[PauseT_co], ...] = tuple(scopes)
        self.interrupted: Action[PauseT_co] | None = interrupted
        self.now: Callable[[], datetime] = utc_clock(now)
        self.owners: dict[str, tuple[ToolDefinition, ToolScope[PauseT_co]]] = {
            definition.declaration.name: (definition, scope) for scope in scopes for definition in scope.definitions()
        }
        self.factories: Mapping[Any, ValueFactory[Any]] = factories or {}
        self.grant_rule: GrantRule | None = grant_rule
        definitions = [definition for definition, _ in self.owners.values()]
        self.required: tuple[tuple[str, Any], ...] = tuple(
            [
                item
                for definition in definitions
                for item in _required_values(definition)
                if item[1] not in self.factories
            ]
        )
        self.uses_values: bool = bool(self.factories or self.required) or any(
            isinstance(definition, SubchatDefinition) and definition.tools.uses_values for definition in definitions
        )

    def for_messages(self, messages: Messages, /) -> ChatTools[PauseT_co]:
        """Return these tools together with the client tools that the last user turn of a conversation declares.

        Args:
            messages: the conversation.

        Raises:
            UsageError: the chat has no `ClientTools`, a declaration is invalid, its name is taken, or `messages` is not
                a `Messages` object.
        """
        require_type("messages", messages, Messages, "a Messages object")
        declared = (
            turn.client_tools
            for content in reversed(messages.contents)
            if content.role == "user"
            for turn in reversed(content.turns)
            if turn.by is None
        )
        declarations = next(declared, ())
        if not declarations:
            return self
        # A chat with `ClientTools` can pause, so its type of pause includes that of the scope.
        scopes = [
            cast("ToolScope[PauseT_co]", scope.with_declarations(declarations))
            if isinstance(scope, ClientTools)
            else scope
            for scope in self.scopes
        ]
        if not any(isinstance(scope, ClientTools) for scope in scopes):
            msg = "the last user turn declares client tools: build the chat with_scoped_tools(ClientTools())"
            raise UsageError(msg)
        require_unique_names(scopes)
        return ChatTools(scopes, self.interrupted, self.now, self.factories, self.grant_rule)

    def __repr__(self) -> str:
        return f"ChatTools({', '.join(self.owners)})"

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools, in the order of registration."""
        return tuple(self.owners)

    def definition(self, name: str, *path: str) -> ToolDefinition | None:
        """Return the definition of a tool, or None if the chat has no tool of this name.

        Further names select a tool inside a chat used as a tool: `definition("ask_bank", "transfer")`.
        """
        require_text(name=name)
        definition, _ = self.owners.get(name, (None, None))
        if not path:
            return definition
        return definition.tools.definition(*path) if isinstance(definition, SubchatDefinition) else None


class SubchatDefinition(ABC):
    """Tool definition of a chat used as a tool. Such a tool can resume the conversation in which it paused."""

    __slots__ = ()

    @property
    @abstractmethod
    def tools(self) -> ChatTools[Paused]:
        """The tools of the chat, or of all chats if the definition runs one of several chats."""

    def tools_for(self, inner: Messages, /) -> ChatTools[Paused]:
        """Return the tools of the chat that runs a conversation.

        A definition that runs one of several chats overrides this method.

        Args:
            inner: the conversation that `InnerChat.begin()` created, in its current state.
        """
        del inner
        return self.tools


def _required_values(definition: ToolDefinition) -> Sequence[tuple[str, Any]]:
    """Return the injected values that a tool or its inner chat needs, as pairs of tool name and type."""
    name = definition.declaration.name
    if isinstance(definition, SubchatDefinition):
        return [(f"{name}/{inner}", kind) for inner, kind in definition.tools.required]
    return [(name, kind) for kind in definition.injected] if isinstance(definition, TakesInjected) else []
