"""Instructions of a request, prepared for the encoders of providers.

The instructions of a chat (`ChatOptions.instructions`) are not part of the messages. An encoder sends them where its
API expects system text: `fixed` before the system turns at the beginning of the conversation, `changing` after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from chat_core.messages import Role, Text, Turn, View
from chat_core.options import ChatOptions, Instructions, join_instructions


def leading_system_turns(view: View, /) -> Sequence[Turn]:
    """Return the system turns at the beginning of a request."""
    return [turn for _, turn in takewhile(lambda item: item[0] == "system", view.turns)]


def instruction_turns(options: ChatOptions, /) -> tuple[list[Turn], list[Turn]]:
    """Return the instructions as system turns, for APIs that accept several system texts.

    Returns:
        A tuple of the turns to send before the system turns of the conversation, and the turns to send after them.
    """
    if options.instructions is None:
        return [], []
    instructions = Instructions.of(options.instructions)
    return _to_turns(instructions.fixed), _to_turns(instructions.changing)


def turns_with_instructions(view: View, options: ChatOptions, /) -> Sequence[tuple[Role, Turn]]:
    """Return the turns of a request and their roles, with the instructions added as system turns.

    Args:
        view: the turns of the conversation to send.
        options: settings of the request, such as `temperature`.
    """
    before, after = instruction_turns(options)
    first = len(leading_system_turns(view))
    before_roles: list[tuple[Role, Turn]] = [("system", turn) for turn in before]
    after_roles: list[tuple[Role, Turn]] = [("system", turn) for turn in after]
    return [*before_roles, *view.turns[:first], *after_roles, *view.turns[first:]]


def instruction_text(options: ChatOptions, stored: Iterable[str] = (), /) -> str:
    """Join the instructions and the stored system texts, for APIs that accept a single system text.

    Args:
        options: settings of the request, such as `temperature`.
        stored: texts of the system turns of the conversation.
    """
    instructions = Instructions.of(options.instructions)
    return join_instructions([instructions.fixed, *stored, instructions.changing])


def _to_turns(text: str) -> list[Turn]:
    return [Turn([Text(text)])] if text else []
