"""`Candidate`, a model of a router with its health, latency and price."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, final

from chat_core import ProviderMeta, Usage
from chat_core.arguments import require_type

from chat_router.breaker import Breaker, Circuit, Health
from chat_router.prices import Price, known_cost, price_of

LATENCY_SECONDS: Final = 300.0
"""Seconds after which a measured latency expires, so that a model that was slow is tried again."""
_SMOOTHING: Final = 0.3
"""Weight of the newest measurement in the average latency."""


@final
class Candidate:
    """One model of a router. Its attributes reflect its current state, so do not store copies of them.

    Attributes:
        name: name that identifies the model, such as `claude/claude-sonnet-4-5`.
        meta: metadata of the model.
        model: the provider.
        price: the price from `meta.data`, or `None`.
        circuit: state of the circuit breaker.
    """

    __slots__ = ("_clock", "_latency", "_measured_at", "circuit", "meta", "model", "name", "price")

    def __init__(self, model: object, meta: ProviderMeta, name: str, breaker: Breaker) -> None:
        """Create the candidate. Routers create the candidates that strategies receive."""
        require_type("meta", meta, ProviderMeta, "a ProviderMeta")
        require_type("breaker", breaker, Breaker, "a Breaker")
        self.model: object = model
        self.meta: ProviderMeta = meta
        self.name: str = name
        self.price: Price | None = price_of(meta)
        self.circuit: Circuit = Circuit(breaker)
        self._clock = breaker.clock
        self._latency: float | None = None
        self._measured_at = 0.0

    def __repr__(self) -> str:
        return f"Candidate({self.name!r}, {self.health})"

    @property
    def health(self) -> Health:
        """The state of the model's circuit: `closed`, `open` or `half-open`."""
        return self.circuit.health

    @property
    def latency(self) -> float | None:
        """Average seconds until the first event, or until the end of a response without a stream; `None` if unknown.

        Newer responses have more weight. The value expires 300 seconds after the last response.
        """
        if self._latency is not None and self._clock() - self._measured_at > LATENCY_SECONDS:
            return None
        return self._latency

    def measure(self, started_at: float) -> None:
        """Add a measurement to the latency.

        Args:
            started_at: time of the breaker's clock at which the request was sent.
        """
        now = self._clock()
        seconds, known = now - started_at, self._latency
        if known is None or now - self._measured_at > LATENCY_SECONDS:
            self._latency = seconds
        else:
            self._latency = known + _SMOOTHING * (seconds - known)
        self._measured_at = now

    def cost(self, usage: Usage) -> Decimal | None:
        """Return the cost of tokens in US dollars, or `None` if the price of the model is unknown.

        Args:
            usage: the tokens.
        """
        return known_cost(usage, self.meta.model) if self.price is None else self.price.cost(usage)

    def wrote(self, provider: str | None, model: str | None) -> bool:
        """Return whether this model wrote a response. Providers may append a date to the name of a model.

        Args:
            provider: name of the provider in the metadata of the response.
            model: name of the model in the metadata of the response.
        """
        name = self.meta.model
        if provider != self.meta.name or model is None:
            return False
        return model == name or re.fullmatch(rf"{re.escape(name)}[-@]\d.*", model) is not None


def create_candidates(
    models: Sequence[object], metas: Sequence[ProviderMeta], breaker: Breaker
) -> tuple[Candidate, ...]:
    """Return a candidate for each model. Models with the same name and provider are numbered.

    Args:
        models: the providers.
        metas: their metadata.
        breaker: settings of the circuits.
    """
    names: list[str] = []
    for meta in metas:
        name = f"{meta.name}/{meta.model}"
        count = sum(other == name or other.startswith(f"{name}#") for other in names)
        names.append(f"{name}#{count + 1}" if count else name)
    return tuple(
        [Candidate(model, meta, name, breaker) for model, meta, name in zip(models, metas, names, strict=True)]
    )
