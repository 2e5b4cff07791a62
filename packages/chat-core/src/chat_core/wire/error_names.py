"""Tables that map the error names and messages of servers to error classes.

Names are compared without case, separators and a final `error`: `RateLimitError`, `rate_limit_error` and `rate-limit`
are equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from chat_core.errors import (
    AuthenticationError,
    ContentFilteredError,
    ContextLengthError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)

_NAMES: Final[Mapping[type[ProviderError], str]] = {
    ContextLengthError: """
        context_length_exceeded context_window_exceeded context_limit_exceeded exceed_context_size
        model_context_window_exceeded model_max_prompt_tokens_exceeded tokens_limit_reached string_above_max_length
    """,
    ContentFilteredError: """
        content_filter content_filtered content_policy_violation responsible_ai_policy_violation data_inspection_failed
        input_flagged moderation_blocked
    """,
    QuotaExceededError: """
        insufficient_quota exceeded_current_quota billing_hard_limit_reached billing_not_active insufficient_balance
        insufficient_credits insufficient_funds credits_exhausted payment_required arrearage usage_limit_reached
    """,
    RateLimitedError: """
        rate_limit rate_limited rate_limit_exceeded rate_limit_reached too_many_requests request_limit_exceeded
        request_quota_exceeded token_quota_exceeded resource_exhausted limit_requests limit_burst_rate throttling
        throttling_rate_quota throttling_allocation_quota throttled
    """,
    AuthenticationError: """
        invalid_api_key incorrect_api_key authentication invalid_authentication unauthorized unauthenticated
        invalid_token expired_token
    """,
    PermissionDeniedError: """
        permission permission_denied forbidden access_denied unsupported_country_region_territory usage_not_included
    """,
    NotFoundError: """
        not_found model_not_found deployment_not_found resource_not_found
    """,
    OverloadedError: """
        overloaded server_overloaded server_is_overloaded engine_overloaded model_overloaded slow_down
        service_unavailable unavailable service_tier_capacity_exceeded capacity_exceeded no_capacity
    """,
    ServerError: """
        server internal internal_server api upstream bad_gateway timeout request_timeout gateway_timeout
    """,
    InvalidRequestError: """
        invalid_request bad_request invalid_argument invalid_parameter validation unprocessable_entity
    """,
}


def normalize_name(name: str) -> str:
    """Normalize an error name for comparison: lowercase, without separators and without a final `error`."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("error")


MEANINGS: Final[Mapping[str, type[ProviderError]]] = {
    normalize_name(name): kind for kind, names in _NAMES.items() for name in names.split()
}
"""Map from normalized error names to error classes."""

FAILED_GENERATIONS: Final = frozenset({normalize_name("tool_use_failed")})
"""Names of errors in the model's output. The same request may succeed if it is sent again.

Groq reports a call that does not match its schema as `tool_use_failed`.
"""

_CONTEXT: Final = (
    r"\A(?!.*\bper (?:minute|hour|day)\b).*?(?:"
    r"maximum (?:context|prompt|model|input) length|context (?:length|window|size|limit)|too many tokens"
    r"|(?:prompt|input) (?:is )?too long|(?:prompt|input) token count|range of input length"
    r"|(?:input|prompt|request)\b[^.]{0,60}\b(?:exceed(?:s|ed)?|longer than|too (?:long|large))"
    r"[^.]{0,60}(?:tokens|token limit|context|max(?:imum)? length)"
    r"|`?inputs`? (?:must have less than|tokens \+)|token limit (?:reached|exceeded))"
)
"""Messages about the context window. Limits per minute, hour or day are excluded: they use similar words."""

_QUOTA: Final = (
    r"insufficient (?:\w+ )?(?:balance|credits?|funds|quota)|exceeded your (?:current|monthly) (?:quota|spend)"
    r"|out of credits|requires more credits|payment required|billing (?:hard )?limit|billing (?:is )?not active"
)
_KEY: Final = (
    r"api[ -]?key\b[^.]{0,40}\b(?:not valid|invalid|incorrect|expired)|(?:invalid|incorrect) api[ -]?key|login fail"
)
_FILTER: Final = (
    r"content (?:violates|policy|management policy)|usage guidelines|safety system|considered high risk"
    r"|(?:unsafe|sensitive|inappropriate) content|(?:input|prompt|request|content)\b[^.]{0,40}\bflagged|_sensitive\b"
)
_RATE: Final = r"rate.?limit|too many requests|requests per (?:second|minute|day)"
_BUSY: Final = r"overloaded|at capacity|temporarily unavailable|service unavailable"
_BAD: Final = r"invalid (?:param|argument|request)|bad request"

WORDS: Final[tuple[tuple[str, type[ProviderError], tuple[type[ProviderError] | None, ...]], ...]] = (
    (_CONTEXT, ContextLengthError, (InvalidRequestError, None)),
    (_KEY, AuthenticationError, (InvalidRequestError, PermissionDeniedError, None)),
    (_FILTER, ContentFilteredError, (InvalidRequestError, PermissionDeniedError, None)),
    (_QUOTA, QuotaExceededError, (InvalidRequestError, PermissionDeniedError, RateLimitedError, None)),
    (_RATE, RateLimitedError, (None,)),
    (_BUSY, OverloadedError, (None,)),
    (_BAD, InvalidRequestError, (None,)),
)
"""Case-insensitive patterns for messages, each with the error class that it indicates and the less specific classes
that it replaces.

Many servers distinguish these errors only by the message. None means an error without a known status or name. The
patterns are strings, so that `re` compiles them for the first error and not when this module is imported.
"""

ELSEWHERE: Final = r"Invalid '(?!messages\[\d+\]\.content|input|prompt)"
"""Pattern for messages about a field other than the conversation. Shortening the conversation does not help."""
