"""How soon a connection is opened again, where the last attempt came to nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import final

_DOUBLINGS = 62


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """How long to wait before a connection is opened, behind failures in a row: full jitter, and bounded.

    Behind the first failure that is anything up to `first` seconds, and behind each further one up to twice as many,
    but never more than `longest`. A turn that ends well forgets the failures.

    Attributes:
        first, longest: seconds.
        sleep: how to wait.
        uniform: a random number between two.
    """

    first: float = 0.5
    longest: float = 15.0
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)
    uniform: Callable[[float, float], float] = field(default=random.uniform, repr=False)

    async def wait(self, failures: int) -> None:
        """Wait as long as so many failures in a row demand."""
        if failures:
            most = min(self.longest, self.first * 2 ** min(failures - 1, _DOUBLINGS))
            await self.sleep(self.uniform(0.0, most))
