"""`RateLimits`, which limits the number of requests of each user."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, final

MAX_USERS: Final = 10_000
"""Number of users whose requests are counted at the same time. The user who was idle longest is dropped first."""
_MINUTE: Final = 60.0


@final
class RateLimits:
    """The request budgets of users in this process, as token buckets. A user can spend a minute's budget at once.

    Args:
        per_minute: number of requests that a user may send in a minute. With 0, there is no limit.
        clock: function that returns a monotonic time in seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._limit = per_minute
        self._clock = clock
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, user: str) -> int:
        """Count a request of a user. Return 0, or the seconds to wait if the budget of the user is spent.

        Args:
            user: name of the user.
        """
        if not self._limit:
            return 0
        now = self._clock()
        left, at = self._budgets.pop(user, (float(self._limit), now))
        left = min(self._limit, left + (now - at) * self._limit / _MINUTE)
        is_allowed = left >= 1
        self._budgets[user] = (left - is_allowed, now)
        if len(self._budgets) > MAX_USERS:
            self._budgets.popitem(last=False)
        return 0 if is_allowed else max(1, math.ceil((1 - left) * _MINUTE / self._limit))
