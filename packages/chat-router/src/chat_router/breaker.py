"""Circuit breaker, which sends no requests to a model for some time after several failures in a row."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal, TypeAlias, final

from chat_core.arguments import argument_error, require_number, require_whole

Health: TypeAlias = Literal["closed", "open", "half-open"]
"""The state of a circuit: requests pass (`closed`), no requests pass (`open`), or one test request passes."""

PROBE_WAIT = 1.0
"""Seconds after which a request checks again whether the current test request has succeeded."""


@final
@dataclass(frozen=True, slots=True)
class Breaker:
    """The settings of the circuit breakers of a router. Each model has a circuit of its own.

    Attributes:
        failures: number of failures in a row after which no more requests are sent to a model.
        recovery_seconds: seconds until one test request is sent to such a model. If the request succeeds, the model is
            used again. If it fails, the waiting time starts again.
        clock: function that returns the time in seconds. Tests replace it.

    Raises:
        UsageError: `failures` is less than 1, or `recovery_seconds` is not more than 0.
    """

    failures: int = 3
    recovery_seconds: float = 30.0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        require_whole("failures", self.failures, 1)
        require_number("recovery_seconds", self.recovery_seconds)
        if not self.recovery_seconds > 0:
            raise argument_error("recovery_seconds", "more than 0", self.recovery_seconds)


@final
class Circuit:
    """The circuit of one model. All methods are safe to call from several threads.

    A request begins with `enter()`, which returns a permit, and ends with `succeed()`, `fail()` or `release()`. The
    outcome of a request that began before the circuit last changed its state is ignored.
    """

    __slots__ = ("_breaker", "_failures", "_lock", "_opened_at", "_permit", "_probing_since", "_rests_until")

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._lock = Lock()
        self._failures = 0
        self._opened_at: float | None = None
        self._probing_since: float | None = None
        self._rests_until = 0.0
        self._permit = 0

    @property
    def health(self) -> Health:
        """Whether the breaker currently lets requests through: `"closed"`, `"open"` or `"half-open"`."""
        opened_at = self._opened_at
        if opened_at is None:
            return "closed"
        return "open" if self._breaker.clock() < opened_at + self._breaker.recovery_seconds else "half-open"

    def seconds_until_free(self) -> float:
        """Return the seconds until the next request may be sent; 0 if it may be sent now."""
        now, recovery = self._breaker.clock(), self._breaker.recovery_seconds
        with self._lock:
            free_at = self._rests_until
            if self._opened_at is not None:
                free_at = max(free_at, self._opened_at + recovery)
            if self._probing_since is not None and now < self._probing_since + recovery:
                free_at = max(free_at, min(now + PROBE_WAIT, self._probing_since + recovery))
        return max(0.0, free_at - now)

    def enter(self) -> int | None:
        """Return a permit for a request, or `None` if the request may not be sent.

        While the circuit is half-open, one request at a time gets a permit. If it does not end within the recovery
        time, another request gets a permit.
        """
        if self._opened_at is None and not self._rests_until:
            return self._permit
        with self._lock:
            now, recovery = self._breaker.clock(), self._breaker.recovery_seconds
            if now < self._rests_until:
                return None
            self._rests_until = 0.0
            if self._opened_at is None:
                return self._permit
            is_probing = self._probing_since is not None and now < self._probing_since + recovery
            if is_probing or now < self._opened_at + recovery:
                return None
            self._probing_since = now
            self._permit += 1
            return self._permit

    def succeed(self, permit: int) -> None:
        """Record that the model responded. The circuit is closed if the request was its test request."""
        if not self._failures:
            return
        with self._lock:
            if permit == self._permit:
                self._failures = 0
                self._opened_at = self._probing_since = None

    def fail(self, permit: int) -> None:
        """Record that the model failed. The circuit opens after `failures` failures, or if the test request failed."""
        with self._lock:
            if permit != self._permit:
                return
            self._failures += 1
            if self._failures >= self._breaker.failures:
                self._opened_at = self._breaker.clock()
                self._probing_since = None
                self._permit += 1

    def release(self, permit: int) -> None:
        """Record that a request ended without evidence about the model, for example because it was cancelled."""
        with self._lock:
            if permit == self._permit:
                self._probing_since = None

    def rest(self, seconds: float) -> None:
        """Refuse all requests for `seconds`, because the provider asked to wait.

        Args:
            seconds: the time that the provider asked for.
        """
        with self._lock:
            self._rests_until = max(self._rests_until, self._breaker.clock() + seconds)
