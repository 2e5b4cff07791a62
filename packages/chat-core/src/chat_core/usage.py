"""Token counts and metadata that a provider reports with a response."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, cast, final

from chat_core.frozen import mutable_twin

_INTEGER = frozenset({int})
_TEXT = frozenset({str, type(None)})


@final
@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as reported by the provider. Counts that were not reported are 0. Supports `+`.

    A `Usage` without any count is false. Every request has input tokens, so this means that nothing was reported.

    A negative count, or a value that is not a finite number, becomes 0, because an invalid count is no reason to lose
    the response.

    Attributes:
        input_tokens: input tokens, including tokens read from and written to a cache.
        output_tokens: output tokens, including reasoning.
        cache_read_tokens: part of `input_tokens` that was read from a cache.
        cache_write_tokens: part of `input_tokens` that was written to a cache.
        reasoning_tokens: part of `output_tokens` that was reasoning.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        counts = (
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
        )
        if not _INTEGER.issuperset(map(type, counts)) or min(counts) < 0:
            for name, count in zip(_COUNTS, counts, strict=True):
                object.__setattr__(self, name, _parse_whole_number(count))

    @property
    def total_tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage, /) -> Usage:
        if other is NO_USAGE:
            return self
        if self is NO_USAGE:
            return other
        return new_usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    def __bool__(self) -> bool:
        return self is not NO_USAGE and self != NO_USAGE

    def __str__(self) -> str:
        return f"{self.input_tokens} in, {self.output_tokens} out"

    def cost(self, model: str | None, *, provider: str | None = None) -> Decimal | None:
        """Return the price in US dollars, or `None` if it is unknown. Needs the extra `chat-core[prices]`.

        The prices are those of the installed version of `genai-prices`. No prices are downloaded.

        Args:
            model: name of the model, such as `turn.metadata.model`; `None` if the provider did not report it.
            provider: name of the provider in `genai-prices`, such as `"anthropic"`, if several offer the model.
                Both names are converted to strings.

        Returns:
            The price, or `None` if the prices of the model are unknown.

        Raises:
            ImportError: `genai-prices` is not installed.
        """
        if model is None:
            return None
        try:
            from genai_prices import Usage as Tokens  # noqa: PLC0415 - an extra
            from genai_prices import calc_price  # noqa: PLC0415 - as above
        except ImportError as error:
            msg = 'Usage.cost() needs prices: pip install "chat-core[prices]"'
            raise ImportError(msg) from error
        tokens = Tokens(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cache_read_tokens=self.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens,
        )
        try:
            return calc_price(tokens, str(model), provider_id=None if provider is None else str(provider)).total_price
        except LookupError:
            return None

    def to_dict(self) -> dict[str, int]:
        """Return the counts that are not 0, by field name."""
        return {name: count for name in _COUNTS if (count := getattr(self, name))}


def _is_duration(seconds: object) -> bool:
    return type(seconds) in {int, float} and 0 <= cast("float", seconds) < math.inf


def _parse_whole_number(value: object) -> int:
    if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        return 0
    return int(value)


NO_USAGE = Usage()
_COUNTS = tuple(item.name for item in fields(Usage))


@final
@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata that a provider reported with a response. Names and IDs are converted to strings.

    Attributes:
        provider: name of the provider.
        model: model that responded, as the provider names it.
        id: ID that the provider assigned to the response.
        finish_reason: finish reason as the provider reported it.
        usage: token counts.
        extra: other reported values, such as the service tier or log probabilities; JSON, stored with the conversation.
        unread: unknown fields of the stored metadata, written back unchanged.
        duration: seconds from sending the request until its response was complete, without failed attempts and waiting
            times; `None` if unknown or not a number of seconds. In a stream, this includes the time that the
            application took between events. The engine measures it; it is ignored in comparisons.
    """

    provider: str | None = None
    model: str | None = None
    id: str | None = None
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    unread: Mapping[str, object] | None = field(default=None, repr=False)
    duration: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        names = (self.provider, self.model, self.id, self.finish_reason)
        if not _TEXT.issuperset(map(type, names)):
            for name, value in zip(("provider", "model", "id", "finish_reason"), names, strict=True):
                if value is not None:
                    object.__setattr__(self, name, str(value))
        if self.duration is not None and not _is_duration(self.duration):
            object.__setattr__(self, "duration", None)

    def with_duration(self, seconds: float) -> Metadata:
        """Return a copy with the duration of the model call."""
        duration = seconds if _is_duration(seconds) else None
        return new_metadata(
            self.provider, self.model, self.id, self.finish_reason, self.usage, self.extra, duration, self.unread
        )


_UsageTwin = mutable_twin(Usage)
_MetadataTwin = mutable_twin(Metadata)


def new_usage(
    input_tokens: int, output_tokens: int, cache_read_tokens: int, cache_write_tokens: int, reasoning_tokens: int
) -> Usage:
    """Create a `Usage` faster than its constructor does, without checking the counts.

    Args:
        input_tokens: input tokens, an integer of at least 0, as are the other counts.
        output_tokens: output tokens.
        cache_read_tokens: input tokens that were read from a cache.
        cache_write_tokens: input tokens that were written to a cache.
        reasoning_tokens: output tokens that were reasoning.
    """
    instance: Any = _UsageTwin()
    instance.input_tokens = input_tokens
    instance.output_tokens = output_tokens
    instance.cache_read_tokens = cache_read_tokens
    instance.cache_write_tokens = cache_write_tokens
    instance.reasoning_tokens = reasoning_tokens
    instance.__class__ = Usage
    usage: Usage = instance
    return usage


def new_metadata(  # noqa: PLR0917 - in the order of the fields
    provider: str | None,
    model: str | None,
    id: str | None,
    finish_reason: str | None,
    usage: Usage,
    extra: Mapping[str, object],
    duration: float | None = None,
    unread: Mapping[str, object] | None = None,
) -> Metadata:
    """Create a `Metadata` faster than its constructor does, without checking the types of the values.

    Args:
        provider: name of the provider.
        model: model that responded.
        id: ID that the provider assigned to the response.
        finish_reason: finish reason as the provider reported it.
        usage: token counts.
        extra: other reported values.
        duration: duration of the model call in seconds, or `None`.
        unread: unknown fields of the stored metadata.
    """
    instance: Any = _MetadataTwin()
    instance.provider = provider
    instance.model = model
    instance.id = id
    instance.finish_reason = finish_reason
    instance.usage = usage
    instance.extra = extra
    instance.unread = unread
    instance.duration = duration
    instance.__class__ = Metadata
    metadata: Metadata = instance
    return metadata
