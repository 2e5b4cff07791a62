"""What is known of the models by their names.

The vendors' names differ (`claude-sonnet-4-5-20250929`, `us.anthropic.claude-sonnet-4-5-20250929-v1:0`,
`claude-sonnet-4-5@20250929`, `anthropic/claude-sonnet-4.5`), the family and the version in them do not. A name that
says neither is taken for a model of today that can think in either way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, final

_NEW: Final = re.compile(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_OLD: Final = re.compile(r"claude-(\d)(?:[-.](\d{1,2}))?-[a-z]+|claude-(?:v?[12]\b|instant)")

ADAPTIVE_SINCE: Final = (4, 6)
ADAPTIVE_ALONE_SINCE: Final = (4, 7)
SCHEMAS_SINCE: Final = (4, 5)
THINKING_SINCE: Final = (3, 7)
FORCED_SINCE: Final = (4, 8)
SMALL_BEFORE: Final = (3, 5)

DEFAULT_MAX_TOKENS: Final = 16_000
"""Room for a long answer, and little enough that it comes whole before a connection without a stream grows stale."""

UNKNOWN: Final = (99, 0)
"""The version in a name that has none: later than any."""


@final
@dataclass(frozen=True, slots=True)
class Abilities:
    """What a model can do.

    Attributes:
        max_tokens: how long an answer may be where nobody says it.
        budget: whether it thinks within a number of tokens.
        adaptive: whether it decides by itself how long it thinks.
        schemas: whether it can be held to a schema while it writes.
        forced: whether it can be made to call a tool while it thinks adaptively.
    """

    max_tokens: int
    budget: bool
    adaptive: bool
    schemas: bool
    forced: bool


def abilities(model: str) -> Abilities:
    """What the model of this name can do."""
    version = _version(model)
    if version < SMALL_BEFORE:
        max_tokens = 4_096
    elif version < THINKING_SINCE:
        max_tokens = 8_192
    else:
        max_tokens = DEFAULT_MAX_TOKENS
    return Abilities(
        max_tokens,
        budget=THINKING_SINCE <= version < ADAPTIVE_ALONE_SINCE or version == UNKNOWN,
        adaptive=version >= ADAPTIVE_SINCE,
        schemas=version >= SCHEMAS_SINCE or "opus-4-1" in model or "opus-4.1" in model,
        forced=version >= FORCED_SINCE,
    )


def _version(model: str) -> tuple[int, int]:
    if found := _OLD.search(model):
        return (int(found[1]), int(found[2] or 0)) if found[1] else (2, 0)
    if found := _NEW.search(model):
        return int(found[1]), int(found[2] or 0)
    return UNKNOWN
