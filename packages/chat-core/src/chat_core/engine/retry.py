"""The retry policy of a chat, and the wait time that a run may spend on retries."""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias, final

import anyio

from chat_core.arguments import argument_error, require_type
from chat_core.errors import ChatError, UsageError

_LOG = logging.getLogger("chat_core")
_MOST_DOUBLINGS = 1000
"""A higher power of 2 would not be a finite float."""


@final
@dataclass(frozen=True, slots=True)
class RetryAttempt:
    """A failed attempt that can be retried, as passed to the retry strategy.

    Attributes:
        error: error of the attempt. `error.retryable` or `error.fallback` is True.
        attempt: number of attempts so far, starting at 1.
        delay: seconds that the library would wait by default.
        delivered: whether the consumer has received events of the failed attempt.
    """

    error: ChatError
    attempt: int
    delay: float
    delivered: bool


RetryStrategy: TypeAlias = Callable[[RetryAttempt], float | Awaitable[float | None] | None]
"""Function that returns the seconds to wait before the next attempt, or `None` to give up. May be async."""


@final
@dataclass(frozen=True, slots=True)
class Retry:
    """The retry policy for provider calls. A failed provider call never causes a tool to run again.

    Attributes:
        times: number of retries of each provider call.
        budget: maximum total wait of one run in seconds. A run fails at once if the next wait would exceed it.
        base, cap: the n-th delay is random between 0 and `min(cap, base * 2 ** (n - 1))` seconds ("full jitter"),
            unless the provider specifies the delay.
        after_delivery: whether to retry after events of the failed attempt were delivered. The new attempt starts with
            an `AttemptReset` event.
        strategy: function that can change the delay or give up. Called for retryable failures only.
        jitter: function that returns a random number between its two arguments. Tests replace it.
    """

    times: int = 2
    budget: float = 60.0
    base: float = 0.5
    cap: float = 20.0
    after_delivery: bool = False
    strategy: RetryStrategy | None = None
    jitter: Callable[[float, float], float] = field(default=random.uniform, repr=False)

    def __post_init__(self) -> None:
        if type(self.times) is not int:
            raise argument_error("times", "a whole number", self.times)
        for name, seconds in (("budget", self.budget), ("base", self.base), ("cap", self.cap)):
            if type(seconds) not in {int, float} or not seconds >= 0:
                raise argument_error(name, "a number of seconds from 0", seconds)
        require_type("after_delivery", self.after_delivery, bool, "True or False")
        for name, function in (("strategy", self.strategy), ("jitter", self.jitter)):
            if not callable(function) and (function is not None or name == "jitter"):
                raise argument_error(name, "a function", function)
        if self.times < 0:
            msg = f"times must be at least 0, not {self.times!r}: 0 disables retries"
            raise UsageError(msg)

    def delay(self, error: ChatError, attempt: int) -> float:
        """Return the seconds to wait after a failed attempt.

        Args:
            error: the failure. Its `retry_after`, set by the provider, takes precedence over the computed delay. If
                its `fallback` is set, the delay is 0.
            attempt: number of attempts so far, starting at 1.

        Raises:
            UsageError: `error` is not a `ChatError`, or `attempt` is not a number from 1.
        """
        require_type("error", error, ChatError, "a ChatError")
        if type(attempt) is not int or attempt < 1:
            raise argument_error("attempt", "a number from 1", attempt)
        if error.fallback:
            return 0.0
        if error.retry_after is not None:
            return error.retry_after
        return self.jitter(0.0, min(self.cap, self.base * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS)))


@final
class RetryBudget:
    """Remaining time that a run may wait for retries. If `failures` is a list, the errors of failed attempts are added.

    Attributes:
        failures: errors of the failed attempts, or `None` if they are not recorded.
        delivered: whether events of the last failed attempt were delivered.
    """

    __slots__ = ("_retry", "_seconds_left", "delivered", "failures")

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self.delivered: bool = False
        self.failures: list[ChatError] | None = None
        self._seconds_left = retry.budget

    @property
    def after_delivery(self) -> bool:
        """Whether a call may be retried after some of its events were delivered."""
        return self._retry.after_delivery

    async def wait(self, error: ChatError, failed: list[ChatError], *, delivered: bool) -> None:
        """Wait until the next attempt of a failed call may start, and append the error to `failed`.

        Args:
            error: error of the failed attempt.
            failed: errors of the earlier attempts of the call.
            delivered: whether events of the failed attempt were delivered.

        Raises:
            ChatError: `error` itself, if the call must not be retried.
        """
        retry = self._retry
        attempt = error.attempts = len(failed) + 1
        error.earlier = tuple([earlier for earlier in failed if earlier is not error])
        failed.append(error)
        self.delivered = delivered
        if self.failures is not None:
            self.failures.append(error)
        may_retry = error.retryable or error.fallback
        if not may_retry or attempt > retry.times or (delivered and not retry.after_delivery):
            raise error
        delay: float | None = retry.delay(error, attempt)
        if retry.strategy is not None:
            delay = await self._ask_strategy(retry.strategy, RetryAttempt(error, attempt, delay or 0.0, delivered))
        if delay is None or not delay <= self._seconds_left:
            raise error
        if delay > 0:
            self._seconds_left -= delay
            await anyio.sleep(delay)

    @staticmethod
    async def _ask_strategy(strategy: RetryStrategy, attempt: RetryAttempt) -> float | None:
        """Return the delay chosen by the strategy, or `None` if the strategy raises or its value is invalid."""
        try:
            answer = strategy(attempt)
            delay = await answer if inspect.isawaitable(answer) else answer
            return None if delay is None else float(delay)
        except Exception:  # noqa: BLE001 - the strategy may raise anything
            _LOG.exception("the retry strategy raised an exception; the call is not retried")
            return None
