"""Limits for the number of requests of each user and of each address."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final, final

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from chat_service.problems import handle_error

MAX_USERS: Final = 10_000
"""Number of users or addresses whose requests are counted at the same time. The longest idle one is dropped first."""
_MINUTE: Final = 60.0


@final
class RateLimits:
    """The request budgets of users or addresses in this process, as token buckets.

    Args:
        per_minute: number of requests that a user may send in a minute. With 0, there is no limit.
        clock: function that returns a monotonic time in seconds.
        burst: number of requests that a user may send at once, at most `per_minute`. With 0, a user may send all of a
            minute at once.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float], burst: int = 0) -> None:
        self._limit = per_minute
        self._burst = float(min(burst or per_minute, per_minute))
        self._clock = clock
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, user: str) -> int:
        """Count a request of a user. Return 0, or the seconds to wait if the budget of the user is spent.

        Args:
            user: name of the user, or the address.
        """
        if not self._limit:
            return 0
        now = self._clock()
        left, at = self._budgets.pop(user, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._limit / _MINUTE)
        is_allowed = left >= 1
        self._budgets[user] = (left - is_allowed, now)
        if len(self._budgets) > MAX_USERS:
            self._budgets.popitem(last=False)
        return 0 if is_allowed else max(1, math.ceil((1 - left) * _MINUTE / self._limit))


def too_many_requests(seconds: int) -> HTTPException:
    """Return the error for a request above a limit.

    Args:
        seconds: time after which the client may send the next request.
    """
    text = f"There were too many requests: send the next one in {seconds} seconds"
    return HTTPException(429, text, {"retry-after": str(seconds)})


@final
class AddressLimit:
    """A middleware that limits the number of requests from each address. Health checks are not counted.

    The address is that of the connection. If the server trusts a proxy, the address is the one that the proxy reports.

    Args:
        app: application that receives the accepted requests.
        limits: budgets of the addresses.
    """

    def __init__(self, app: ASGIApp, limits: RateLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        if scope["type"] == "http" and not scope["path"].startswith("/health"):
            client = HTTPConnection(scope).client
            seconds = 0 if client is None else self._limits.count(network_of(client.host))
            if seconds:
                response = await handle_error(Request(scope), too_many_requests(seconds))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


def network_of(host: str) -> str:
    """Return the key of an address. A client usually has all IPv6 addresses with the same first 64 bits.

    Args:
        host: the address.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or int(address) >> 64)
    return host
