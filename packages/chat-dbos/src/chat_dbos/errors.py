"""Errors that workflows raise.

ChatError
└── ConversationFailedError
"""

from __future__ import annotations

from typing import final

from chat_core.errors import ChatError


@final
class ConversationFailedError(ChatError):
    """A conversation failed permanently, or too many times in a row. It is unchanged, and can be started again.

    In a process other than the one that ran the workflow, DBOS raises a `PortableWorkflowError` with the same message
    and `data` instead.

    Attributes:
        data: JSON values: `conversation` (id), `error` (class name of the last error), `message`, and `failures`
            (number of consecutive failures).
    """

    def __init__(self, conversation_id: str, error: str, message: str, failures: int) -> None:
        super().__init__(f"{error}: {message}")
        self.data: dict[str, str | int] = {
            "conversation": conversation_id,
            "error": error,
            "message": message,
            "failures": failures,
        }
