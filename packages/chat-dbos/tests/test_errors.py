"""A failed workflow says what failed, to whoever reads it."""

from __future__ import annotations

import pickle

from chat_dbos import ConversationFailedError


def test_a_failure_says_what_it_was_and_survives_a_copy() -> None:
    error = ConversationFailedError("c", "Overloaded", "full", 3)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert str(again) == "Overloaded: full"
    assert again.data == {"conversation": "c", "error": "Overloaded", "message": "full", "failures": 3}
