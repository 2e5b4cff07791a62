"""Functions that find the definition of a tool in a chat, or in chats used as tools, and validate arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chat_core import AnyChat
from chat_core.messages import Messages
from chat_core.tools import InvalidArgumentsError, ToolDefinition


def resolve_names(messages: Messages, path: Sequence[str]) -> tuple[str, ...]:
    """Return the tool name of each call in a path.

    Args:
        messages: history that contains the calls.
        path: call ids, from the outermost call to the innermost.

    Raises:
        KeyError: there is no call at this path.
    """
    return tuple([messages.tool(*path[:end]).name for end in range(1, len(path) + 1)])


def find_definition(chat: AnyChat | None, names: Sequence[str]) -> ToolDefinition | None:
    """Return the definition of a tool, or None if the chat is unknown or does not declare the tool.

    Args:
        chat: outermost chat.
        names: tool names from the outermost chat to the tool. All names but the last are those of chats used as tools.
    """
    return chat.tools.definition(*names) if chat is not None and names else None


def find_argument_errors(definition: ToolDefinition, arguments: Mapping[str, object]) -> dict[str, str]:
    """Validate the arguments for a tool, and return error messages by argument path.

    Args:
        definition: tool that would receive the arguments.
        arguments: arguments to validate.

    Returns:
        An empty dict if the arguments are valid. Errors about the arguments as a whole have the path `""`.
    """
    try:
        definition.validate(arguments)
    except InvalidArgumentsError as error:
        return _split_by_path(str(error))
    return {}


def _split_by_path(text: str) -> dict[str, str]:
    """Parse lines of the form `- path: error`, and return the errors by path. If there are none, use the path `""`."""
    errors: dict[str, str] = {}
    for line in text.splitlines():
        path, colon, message = line.removeprefix("- ").partition(": ")
        if not line.startswith("- ") or not colon:
            continue
        errors[path] = f"{errors[path]}; {message}" if path in errors else message
    return errors or {"": text}
