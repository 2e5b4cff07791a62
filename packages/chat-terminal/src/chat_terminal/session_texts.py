"""Formatting of a session's texts and calls as lines, and a search in the lines of all sessions."""

from __future__ import annotations

from typing import Final

from chat_core.messages import Content, Text, Tool
from chat_store import UnknownConversationError

from chat_terminal.screen import format_call
from chat_terminal.sessions import Session, Sessions

_WIDTH: Final = 100
"""Number of characters that are shown around a match."""


def format_content(content: Content) -> list[str]:
    """Return the lines of the texts and calls of a message, in the order in which they were written.

    Args:
        content: message of one role.
    """
    lines: list[str] = []
    for part in [part for turn in content.turns for part in turn.parts]:
        if isinstance(part, Tool):
            lines.append(f"{format_call(part.name, part.effective_arguments)}: {type(part.status).__name__.lower()}")
        elif isinstance(part, Text):
            lines += part.text.splitlines()
    return lines


async def find_sessions(sessions: Sessions, text: str) -> list[tuple[Session, str]]:
    """Return the sessions that contain a text in any case, last used first. Each has an excerpt around the first match.

    Args:
        sessions: session file. Every conversation is loaded.
        text: text to find in one line.
    """
    found: list[tuple[Session, str]] = []
    async with sessions.store() as store:
        for session in sessions.list_all():
            try:
                messages = (await store.load(session.id)).messages
            except UnknownConversationError:  # its first run failed before anything was stored
                continue
            lines = [line for content in messages for line in format_content(content)]
            line = next((line for line in lines if text.casefold() in line.casefold()), None)
            if line is not None:
                found.append((session, _shorten(line, line.casefold().find(text.casefold()))))
    return found


def _shorten(line: str, position: int) -> str:
    """Return the part of a line around a position, with an ellipsis at each end where text is left out."""
    first = max(position - _WIDTH // 2, 0)
    last = first + _WIDTH
    return f"{'…' if first else ''}{line[first:last]}{'…' if last < len(line) else ''}"
