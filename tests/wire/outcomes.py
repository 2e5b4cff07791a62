"""Comparison of what a provider returned over a connection with what its decoder returned for the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from chat_core.errors import ChatError, StreamTruncatedError
from chat_core.messages import Turn
from chat_core.transport.provider_errors import with_next_step


def same_outcome(got: object, expected: object, summary: Callable[[Any], object]) -> bool:
    """Return whether two outcomes are equal: turns with equal summaries, or errors of equal type, text and `retryable`.

    Args:
        got: the turn, other response or error of a provider. The provider adds the address of the request to errors,
            and a next step to errors for truncated streams.
        expected: the same of a decoder, which does not know the address.
        summary: a function that returns what is compared of a turn.
    """
    if isinstance(got, Turn) and isinstance(expected, Turn):
        return summary(got) == summary(expected)
    if isinstance(got, ChatError) and isinstance(expected, ChatError):
        text = re.sub(r" \(POST https?://[^\s;)]+(; the response has [^)]*)?\)", "", str(got), count=1)
        wanted = str(expected)
        if isinstance(expected, StreamTruncatedError):
            wanted = with_next_step(wanted, StreamTruncatedError)
        return (type(got), text, got.retryable) == (type(expected), wanted, expected.retryable)
    return not isinstance(got, (Turn, ChatError)) and got == expected
