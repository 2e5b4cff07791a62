"""Error that the conformance suites raise."""

from __future__ import annotations

from typing import NoReturn


class NonconformingError(AssertionError):
    """Error for a provider or transport that violates a rule.

    The message names the rule and the observed behavior.
    """


def fail(sentence: str) -> NoReturn:
    """Raise `NonconformingError` with `sentence` as its message."""
    raise NonconformingError(sentence)
