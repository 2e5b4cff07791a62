"""What a workflow fails with.

ChatError
└── ConversationFailedError
"""

from __future__ import annotations

from typing import final

from chat_core.errors import ChatError


@final
class ConversationFailedError(ChatError):
    """The runs of a conversation failed, for good or too often. It is valid, and can be started again.

    In another process than the one that ran it, DBOS gives this error as a `PortableWorkflowError` of the same message
    and the same `data`: plain values, which need no class.

    Attributes:
        data: `conversation`, the name of the last `error`, its `message`, and how many `failures` there were in a row.
    """

    def __init__(self, conversation_id: str, error: str, message: str, failures: int) -> None:
        super().__init__(f"{error}: {message}")
        self.data: dict[str, str | int] = {
            "conversation": conversation_id,
            "error": error,
            "message": message,
            "failures": failures,
        }
