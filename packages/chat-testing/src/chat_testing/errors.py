"""The error that a conformance suite raises."""

from __future__ import annotations

from typing import NoReturn


class NonconformingError(AssertionError):
    """A provider or a transport breaks a promise; the message says which one, in a sentence."""


def fail(sentence: str) -> NoReturn:
    """Raise `NonconformingError` with this message."""
    raise NonconformingError(sentence)
