"""Retries of failed provider calls: the policy of a chat, and the waiting budget of one run."""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias, final

import anyio

from chat_core.errors import ChatError, UsageError

_LOG = logging.getLogger("chat_core")


@final
@dataclass(frozen=True, slots=True)
class RetryAttempt:
    """A failure that may be followed by another attempt.

    Attributes:
        error: what happened; it says whether it is `retryable`.
        attempt: how many attempts there have been, from 1.
        delay: seconds that the library would wait.
        delivered: whether events of the failed attempt have reached the consumer.
    """

    error: ChatError
    attempt: int
    delay: float
    delivered: bool


RetryStrategy: TypeAlias = Callable[[RetryAttempt], float | Awaitable[float | None] | None]
"""Returns the seconds to wait before the next attempt, or `None` to give up. It may be a coroutine function."""


@final
@dataclass(frozen=True, slots=True)
class Retry:
    """How a provider call is repeated. Never the loop: a tool that ran does not run again because a later call failed.

    Attributes:
        times: attempts after the first one, for each provider call.
        budget: seconds that all waiting of one run may take together; a longer `Retry-After` ends the run at once.
        base, cap: the n-th delay is drawn evenly from 0 to `min(cap, base * 2 ** (n - 1))` seconds ("full jitter"),
            where the provider does not say how long to wait.
        after_delivery: whether to try again when events of the failed attempt have been delivered. The new attempt
            begins with an `AttemptReset` event.
        strategy: may change the wait, or veto it. It is asked only about failures that are retryable.
        jitter: draws from an interval; replaced in tests.
    """

    times: int = 2
    budget: float = 60.0
    base: float = 0.5
    cap: float = 20.0
    after_delivery: bool = False
    strategy: RetryStrategy | None = None
    jitter: Callable[[float, float], float] = field(default=random.uniform, repr=False)

    def __post_init__(self) -> None:
        if self.times < 0:
            msg = f"a call cannot be retried {self.times!r} times: 0 means that it is tried once"
            raise UsageError(msg)

    def delay(self, error: ChatError, attempt: int) -> float:
        """Seconds to wait after the `attempt`-th attempt: what the provider asked, else back-off with full jitter."""
        if error.retry_after is not None:
            return error.retry_after
        return self.jitter(0.0, min(self.cap, self.base * 2.0 ** (attempt - 1)))


@final
class RetryBudget:
    """The waiting time that a run has left for retries. `failures`, if set, collects the failed attempts."""

    __slots__ = ("_retry", "_seconds_left", "failures")

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self.failures: list[ChatError] | None = None
        self._seconds_left = retry.budget

    @property
    def after_delivery(self) -> bool:
        """Whether a call may be repeated after part of it was delivered."""
        return self._retry.after_delivery

    async def wait(self, error: ChatError, attempt: int, *, delivered: bool) -> None:
        """Wait until the call may be repeated.

        Raises:
            ChatError: `error`, if it may not.
        """
        retry = self._retry
        error.attempts = attempt
        if self.failures is not None:
            self.failures.append(error)
        if not error.retryable or attempt > retry.times or (delivered and not retry.after_delivery):
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
        """Return the delay that the strategy decides, or None if it raises or returns something else."""
        try:
            answer = strategy(attempt)
            delay = await answer if inspect.isawaitable(answer) else answer
            return None if delay is None else float(delay)
        except Exception:  # noqa: BLE001 - whatever the caller's strategy raises
            _LOG.exception("the retry strategy failed; the call is not tried again")
            return None
