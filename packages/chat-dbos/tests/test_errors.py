"""A failed workflow reports its error to everyone who reads its result."""

from __future__ import annotations

import pickle

from chat_dbos import ConversationFailedError


def test_a_conversation_failed_error_can_be_pickled() -> None:
    error = ConversationFailedError("c", "OverloadedError", "full", 3)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert str(again) == "OverloadedError: full"
    assert again.data == {"conversation": "c", "error": "OverloadedError", "message": "full", "failures": 3}
