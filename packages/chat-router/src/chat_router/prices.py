"""Prices of models, and the cost of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, final

from chat_core import ProviderMeta, Usage, UsageError
from chat_core.arguments import require_type

PER: Final = 1_000_000
"""Number of tokens to which a price applies."""


@final
@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model in US dollars per million tokens, as `Price("3", "15")`.

    A router reads the price from `ProviderMeta.data["price"]`:

        model = model.with_metadata(data={"price": Price("3", "15")})

    Attributes:
        input: price of input tokens.
        output: price of output tokens.
        cache_read: price of input tokens read from a cache. Default: `input`.
        cache_write: price of input tokens written to a cache. Default: `input`.

    Raises:
        UsageError: a price is not a non-negative number.
    """

    input: Decimal | str | float
    output: Decimal | str | float
    cache_read: Decimal | str | float | None = None
    cache_write: Decimal | str | float | None = None

    def __post_init__(self) -> None:
        caches = [value for value in (self.cache_read, self.cache_write) if value is not None]
        for value in (self.input, self.output, *caches):
            _to_decimal(value)

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost of `usage` in US dollars.

        Raises:
            UsageError: `usage` is not a `Usage`.
        """
        require_type("usage", usage, Usage, "a Usage")
        reading, writing = usage.cache_read_tokens, usage.cache_write_tokens
        dollars = (
            _to_decimal(self.input) * max(0, usage.input_tokens - reading - writing)
            + _to_decimal(self.input if self.cache_read is None else self.cache_read) * reading
            + _to_decimal(self.input if self.cache_write is None else self.cache_write) * writing
            + _to_decimal(self.output) * usage.output_tokens
        )
        return dollars / PER


def price_of(meta: ProviderMeta) -> Price | None:
    """Return the price in `meta.data`, or `None` if it contains no price.

    Raises:
        UsageError: the value is not a `Price`.
    """
    price = meta.data.get("price")
    if price is None or isinstance(price, Price):
        return price
    msg = f"the price of {meta.name}/{meta.model} must be a Price, such as Price('3', '15'), not {price!r}"
    raise UsageError(msg)


def known_cost(usage: Usage, model: str) -> Decimal | None:
    """Return the cost of tokens according to `genai-prices`, or `None` if it is unknown or not installed.

    Args:
        usage: the tokens.
        model: name of the model.
    """
    try:
        return usage.cost(model)
    except ImportError:
        return None


def _to_decimal(value: Decimal | str | float) -> Decimal:
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite() or number < 0:
        msg = f"a price must be a number of at least 0, not {value!r}"
        raise UsageError(msg)
    return number
