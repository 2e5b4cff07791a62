"""Errors of routers, and lists of the error classes that affect fallback and circuit breakers."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal, final

from chat_core import (
    AuthenticationError,
    ChatError,
    ContextLengthError,
    InvalidResponseError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
    StreamTruncatedError,
    UnsupportedOptionError,
    UnsupportedPartError,
    UsageError,
)


@final
class NoCapableModelError(UsageError):
    """No model of the router has an ability that the request needs. Nothing was sent."""


@final
class NoModelAvailableError(ChatError):
    """All models that can serve the request failed recently and are temporarily unavailable. Retryable.

    `retry_after` is the time until the first of them is tried again.
    """

    retryable = True


@final
class BudgetExceededError(ChatError):
    """The next call could exceed a budget. The call was not sent, and the history is valid.

    Attributes:
        scope: `"run"` or `"session"`.
        limit: the budget in US dollars.
        spent: US dollars spent so far.
        needed: US dollars that the cheapest possible next call may cost.
    """

    def __init__(
        self, message: str, *, scope: Literal["run", "session"], limit: Decimal, spent: Decimal, needed: Decimal
    ) -> None:
        super().__init__(message)
        self.scope: Literal["run", "session"] = scope
        self.limit = limit
        self.spent = spent
        self.needed = needed


FALLBACK_ERRORS: Final[tuple[type[ChatError], ...]] = (
    AuthenticationError,
    ContextLengthError,
    InvalidResponseError,
    NetworkError,
    NoModelAvailableError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
    StreamTruncatedError,
    UnsupportedOptionError,
    UnsupportedPartError,
)
"""Errors that may not occur with another model.

Any other error would also occur there, or is caused by the conversation.
"""

BLAMELESS_ERRORS: Final = (ContextLengthError, NoModelAvailableError, UsageError)
"""Errors that are not evidence of an outage of the model."""
