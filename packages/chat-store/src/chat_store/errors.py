"""Errors that stores raise, in addition to those in `chat_core.errors`.

ChatError
├── UnknownConversationError (LookupError)   no conversation with this id is stored
├── ConversationExistsError                  a conversation with this id is stored already
└── ConversationClosedError                  the conversation is closed
"""

from __future__ import annotations

from typing import final

from chat_core.errors import ChatError


@final
class UnknownConversationError(ChatError, LookupError):
    """No conversation with this id is stored: it was never stored, or was deleted."""


@final
class ConversationExistsError(ChatError):
    """A conversation with this id is stored already. Nothing was written. Use `open()` to open it."""


@final
class ConversationClosedError(ChatError):
    """The conversation is closed: it cannot be run, decided or extended. Nothing was written. `reopen()` it first."""
