"""What a provider call cost, and what the provider said about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counted them. Sums with `+`; a count that nobody reported is 0.

    `input_tokens` includes what was read from a cache and what was written to one; `output_tokens` includes
    reasoning. The other counts are parts of those two.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage, /) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    def __bool__(self) -> bool:
        return self != NO_USAGE

    def __str__(self) -> str:
        return f"{self.input_tokens} in, {self.output_tokens} out"

    def to_dict(self) -> dict[str, int]:
        """The counts that are not 0, by name."""
        return {name: count for name in _COUNTS if (count := getattr(self, name))}


NO_USAGE = Usage()
_COUNTS = tuple(item.name for item in fields(Usage))


@final
@dataclass(frozen=True, slots=True)
class Metadata:
    """What a provider reported beside an answer.

    `finish_reason` is the provider's own word, `extra` whatever else it said that a caller may want (a service tier,
    log probabilities, a system fingerprint): JSON values only, since it is stored with the conversation. `unread` holds
    the fields of a stored document that this version does not know; they are written back.
    """

    provider: str | None = None
    model: str | None = None
    id: str | None = None
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    unread: Mapping[str, object] | None = field(default=None, repr=False)
