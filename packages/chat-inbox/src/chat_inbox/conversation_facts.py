"""Facts about conversations that the application adds to the pages of the inbox, such as the workflow of a run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from chat_inbox.argument_view import ArgumentView, view_text

Describe: TypeAlias = Callable[[str], Awaitable[Sequence[tuple[str, str]]]]
"""A function that returns labels and texts about a conversation, given its id. The list shows the first two."""
_IN_LIST: Final = 2
_LENGTH: Final = 300
_LOG: Final = logging.getLogger("chat_inbox")


@final
@dataclass(frozen=True, slots=True)
class ConversationFacts:
    """The facts about a conversation, as data for the templates.

    Attributes:
        title: title of the conversation: the first two facts, or its id if there are none.
        rows: the label and the text of each fact.
    """

    title: str
    rows: tuple[tuple[str, ArgumentView], ...] = ()


async def describe_nothing(_conversation: str, /) -> Sequence[tuple[str, str]]:
    """Return no facts."""
    return ()


async def load_facts(describe: Describe, conversation: str) -> ConversationFacts:
    """Return the facts about a conversation. If the function of the application raises, there are none.

    Args:
        describe: function that returns the facts.
        conversation: id of the conversation.
    """
    try:
        found = await describe(conversation)
    except Exception:  # noqa: BLE001 - decisions must remain possible
        _LOG.warning("the facts about the conversation %r could not be loaded", conversation, exc_info=True)
        found = ()
    title = " · ".join([f"{label} {text}" for label, text in found[:_IN_LIST]])
    return ConversationFacts(
        title or conversation, tuple((label, view_text(text, limit=_LENGTH)) for label, text in found)
    )
