"""Messages of a scripted server in the format of an API without these messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from chat_core import UsageError
from chat_realtime.testing import GeminiDialect, OpenAIDialect


@pytest.mark.parametrize(
    ("send", "message"),
    [
        pytest.param(
            lambda: OpenAIDialect().cancel_calls("call_1"),
            "cancels tool calls: check has_cancellation",
            id="no-cancellation",
        ),
        pytest.param(
            lambda: OpenAIDialect().resumable("handle"), "resumes a session: check has_resumption", id="no-handle"
        ),
        pytest.param(
            lambda: OpenAIDialect().go_away(), "the end of a connection: check has_resumption", id="no-go-away"
        ),
        pytest.param(lambda: GeminiDialect().warning("?"), "reports a warning: check has_warnings", id="no-warning"),
    ],
)
def test_a_dialect_refuses_messages_that_its_api_lacks(send: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        send()
