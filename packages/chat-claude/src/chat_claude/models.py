"""Capabilities of Claude models, derived from the model names.

Each platform names a model differently (`claude-sonnet-4-5-20250929`, `us.anthropic.claude-sonnet-4-5-20250929-v1:0`,
`claude-sonnet-4-5@20250929`, `anthropic/claude-sonnet-4.5`), but every name contains the family and version. A name
without a version is treated as a current model that supports both thinking modes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

from chat_core.arguments import require_text

_FAMILY_FIRST: Final = re.compile(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_VERSION_FIRST: Final = re.compile(r"claude-(\d)(?:[-.](\d{1,2}))?-[a-z]+|claude-(?:v?[12]\b|instant)")

ADAPTIVE_SINCE: Final = (4, 6)
LIMIT_128K_SINCE: Final = (4, 6)
LARGE_OPUS_SINCE: Final = (4, 5)
LIMIT_KNOWN_SINCE: Final = (4, 0)
NO_BUDGET_SINCE: Final = (4, 7)
SCHEMAS_SINCE: Final = (4, 5)
THINKING_SINCE: Final = (3, 7)
ONE_SAMPLER_SINCE: Final = (4, 1)
NO_SAMPLING_SINCE: Final = (4, 7)
FORCED_TOOL_SINCE: Final = (4, 8)
NO_FORCED_TOOL_SINCE: Final = (5, 1)
ALWAYS_THINKS_SINCE: Final = (5, 1)
LIMIT_8K_SINCE: Final = (3, 5)

DEFAULT_MAX_TOKENS: Final = 16_000
"""Default limit of output tokens: enough for long responses, and few enough for requests without a stream.

Longer responses could exceed the idle timeouts of connections.
"""

UNKNOWN: Final = (99, 0)
"""Version assumed for model names without a version, later than any other version."""


NoThinkingType: TypeAlias = Literal["disabled", "between_tools"]
"""A value of `thinking.type` that turns thinking off, or off except for short notes between tool calls."""
Sampling: TypeAlias = Literal["all", "one", "none"]
"""Whether a model accepts `temperature` and `top_p` together, only one of them, or no sampling options."""


@final
@dataclass(frozen=True, slots=True)
class Abilities:
    """Capabilities of one Claude model.

    Sources (2026-11-29): https://platform.claude.com/docs/en/models/overview for `output_limit`, and for `sampling` and
    `forced` https://platform.claude.com/docs/en/build-with-claude/thinking#limits-and-feature-compatibility and the
    migration guides of the models. For `no_thinking`:
    https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting.

    Attributes:
        max_tokens: default limit of output tokens.
        output_limit: largest `max_tokens` that the API accepts. `None` if it is unknown, or if beta features raise it.
        budget: whether the model supports thinking with a token budget.
        adaptive: whether the model supports adaptive thinking, whose length the model chooses.
        schemas: whether the API can enforce an output schema.
        forced: whether a tool call can be forced.
        forced_adaptive: whether a tool call can be forced during adaptive thinking on all platforms. Before 4.8,
            the platforms differ.
        sampling: which sampling options the model accepts together.
        no_thinking: the value that turns thinking off, or `None` for a model that always thinks.
    """

    max_tokens: int
    output_limit: int | None
    budget: bool
    adaptive: bool
    schemas: bool
    forced: bool
    forced_adaptive: bool
    sampling: Sampling
    no_thinking: NoThinkingType | None


def abilities(model: str) -> Abilities:
    """Return the capabilities of the model named `model`."""
    require_text(model=model)
    version = _parse_version(model)
    if version < LIMIT_8K_SINCE:
        max_tokens = 4_096
    elif version < THINKING_SINCE:
        max_tokens = 8_192
    else:
        max_tokens = DEFAULT_MAX_TOKENS
    return Abilities(
        max_tokens,
        _output_limit(model, version),
        budget=THINKING_SINCE <= version < NO_BUDGET_SINCE or version == UNKNOWN,
        adaptive=version >= ADAPTIVE_SINCE,
        schemas=version >= SCHEMAS_SINCE or "opus-4-1" in model or "opus-4.1" in model,
        forced=version < NO_FORCED_TOOL_SINCE or version == UNKNOWN or "haiku" in model,
        forced_adaptive=version >= FORCED_TOOL_SINCE,
        sampling=_sampling(version),
        no_thinking=_no_thinking(model, version),
    )


def _sampling(version: tuple[int, int]) -> Sampling:
    if version < ONE_SAMPLER_SINCE or version == UNKNOWN:
        return "all"
    return "one" if version < NO_SAMPLING_SINCE else "none"


def _no_thinking(model: str, version: tuple[int, int]) -> NoThinkingType | None:
    if "fable" in model or "mythos" in model:
        return None
    if version < ALWAYS_THINKS_SINCE or version == UNKNOWN or "haiku" in model:
        return "disabled"
    return "between_tools" if "sonnet" in model else None


def _output_limit(model: str, version: tuple[int, int]) -> int | None:
    if version < LIMIT_KNOWN_SINCE or version == UNKNOWN:
        return None
    if version >= LIMIT_128K_SINCE:
        return 128_000
    return 32_000 if "opus" in model and version < LARGE_OPUS_SINCE else 64_000


def _parse_version(model: str) -> tuple[int, int]:
    if match := _VERSION_FIRST.search(model):
        return (int(match[1]), int(match[2] or 0)) if match[1] else (2, 0)
    if match := _FAMILY_FIRST.search(model):
        return int(match[1]), int(match[2] or 0)
    return UNKNOWN
