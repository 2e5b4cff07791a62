"""What is known of the tools of a chat: by the names that lead to them through the chats that tools are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chat_core import AnyChat
from chat_core.messages import Messages
from chat_core.tools import InvalidArgumentsError, ToolDefinition


def names_of(messages: Messages, path: Sequence[str]) -> tuple[str, ...]:
    """The names of the tools on a path.

    Raises:
        KeyError: it leads nowhere.
    """
    return tuple([messages.tool(*path[:end]).name for end in range(1, len(path) + 1)])


def definition_of(chat: AnyChat | None, names: Sequence[str]) -> ToolDefinition | None:
    """The declared tool, `None` where the chat is not known or has none of this name."""
    holder: Any = chat
    definition: ToolDefinition | None = None
    for name in names:
        # A chat shows its tools to nobody but the loop; a chat that is a tool keeps its own under the same name.
        plan: Any = getattr(holder, "_plan", None)
        owners = cast("Mapping[str, tuple[ToolDefinition, object]]", plan.owners if plan is not None else {})
        if name not in owners:
            return None
        definition = owners[name][0]
        holder = definition
    return definition


def problems_of(definition: ToolDefinition, arguments: Mapping[str, object]) -> dict[str, str]:
    """What the tool has against arguments, by their place; nothing where they will do."""
    try:
        definition.validate(arguments)
    except InvalidArgumentsError as error:
        return _by_place(str(error))
    return {}


def _by_place(text: str) -> dict[str, str]:
    """The lines of the message, `- place: what is wrong`; what has no place is about all of them."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        place, colon, told = line.removeprefix("- ").partition(": ")
        if not line.startswith("- ") or not colon:
            continue
        found[place] = f"{found[place]}; {told}" if place in found else told
    return found or {"": text}
