"""Delays between the polls of a batch."""

from __future__ import annotations

from typing import Final

FIRST_DELAY: Final = 30.0
"""Seconds between the first two polls. The delay doubles each time."""
MAX_DELAY: Final = 300.0
"""Maximum number of seconds between two polls."""
MAX_FAILURES: Final = 5
"""Number of consecutive failed polls after which the next failure is raised."""


def next_delay(delay: float) -> float:
    """Return twice the delay, but at most `MAX_DELAY` seconds."""
    return min(2 * delay, MAX_DELAY)
