"""What a store can say no with, beside the errors of the core.

ChatError
├── UnknownConversationError (LookupError)   nothing is stored under this id, or not any more
└── ConversationExistsError                  something is stored under this id already
"""

from __future__ import annotations

from typing import final

from chat_core.errors import ChatError


@final
class UnknownConversationError(ChatError, LookupError):
    """Nothing is stored under this id: it never was, or was deleted."""


@final
class ConversationExistsError(ChatError):
    """Something is stored under this id already. Nothing was written; `open()` opens it."""
