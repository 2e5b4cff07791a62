"""The messages of a stored conversation in the form that front ends display, each with a stable id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from chat_core.arguments import require_type
from chat_core.messages import Messages, Part, Reasoning, Tool, Turn

ID_PREFIX = "turn-"
"""Prefix of generated message ids. It is followed by the index of the turn in the history."""

ShownRole: TypeAlias = Literal["user", "model"]


@final
@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message from a user or a model, as a front end shows it.

    Attributes:
        id: the id that the client chose, or a generated id that contains the index of the first turn.
        role: `"user"` or `"model"`.
        turns: the turns of the message: one turn, or consecutive model turns.
    """

    id: str
    role: ShownRole
    turns: tuple[Turn, ...]

    @property
    def text(self) -> str:
        """Concatenated text of the turns."""
        return "".join([turn.text for turn in self.turns])

    @property
    def reasoning(self) -> str:
        """Concatenated reasoning of the turns."""
        return "".join([part.text for part in self.parts if isinstance(part, Reasoning)])

    @property
    def parts(self) -> list[Part]:
        """Parts of all turns, in order."""
        return [part for turn in self.turns for part in turn.parts]

    @property
    def tools(self) -> list[Tool]:
        """Tool calls of all turns, in order."""
        return [tool for turn in self.turns for tool in turn.tools]


def shown_messages(messages: Messages, /, *, join_model_turns: bool = False) -> list[ShownMessage]:
    """Return the messages of users and models in a conversation, oldest first.

    System turns, turns that the engine wrote, and turns that a rewind removed are not shown.

    Args:
        messages: the conversation.
        join_model_turns: whether consecutive model turns form one message, which has the id of the first.
    """
    require_type("messages", messages, Messages, "a Messages object")
    live = {id(turn) for _, turn in messages.live_turns}
    shown: list[ShownMessage] = []
    for index, (role, turn) in enumerate(messages.turns):
        if role == "system" or turn.by == "engine" or id(turn) not in live:
            continue
        if join_model_turns and role == "model" and shown and shown[-1].role == "model":
            last = shown.pop()
            shown.append(ShownMessage(last.id, role, (*last.turns, turn)))
        else:
            shown.append(ShownMessage(message_id(index, turn), role, (turn,)))
    return shown


def message_id(index: int, turn: Turn | None = None, /) -> str:
    """Return the id of a displayed message, given the index of its first turn.

    Args:
        index: index of the turn in the history, or the number of turns for a turn that is still being received.
        turn: the turn, if it is already in the history.
    """
    if turn is not None:
        require_type("turn", turn, Turn, "a Turn")
    return f"{ID_PREFIX}{index}" if turn is None or turn.client_id is None else turn.client_id
