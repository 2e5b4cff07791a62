"""Random delay before a connection attempt that follows failed attempts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import final

from chat_core.arguments import require_whole

_DOUBLINGS = 62


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Exponential backoff with full jitter between connection attempts.

    After the first failure, the delay is random, up to `first` seconds. Each further failure in a row doubles the upper
    bound, to at most `longest`. A successful exchange resets the count of failures.

    Attributes:
        first: the longest delay after the first failure, in seconds.
        longest: the longest delay, in seconds.
        sleep: function that waits for a number of seconds.
        uniform: returns a random number between its two arguments.
    """

    first: float = 0.5
    longest: float = 15.0
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)
    uniform: Callable[[float, float], float] = field(default=random.uniform, repr=False)

    async def wait(self, failures: int) -> None:
        """Wait before the next attempt, after `failures` failed attempts in a row."""
        require_whole("failures", failures, 0)
        if failures:
            upper_bound = min(self.longest, self.first * 2 ** min(failures - 1, _DOUBLINGS))
            await self.sleep(self.uniform(0.0, upper_bound))
