"""Error raised by the conformance suites."""

from __future__ import annotations

from typing import NoReturn


class NonconformingError(AssertionError):
    """Violation of a rule by a provider or transport. The message names the rule and the observed behavior."""


def fail(sentence: str) -> NoReturn:
    """Raise `NonconformingError` with `sentence` as its message."""
    raise NonconformingError(sentence)
