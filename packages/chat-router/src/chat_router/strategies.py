"""Built-in strategies that order a router's models for each request.

You can also write your own: any function that takes a `RouteRequest` and returns a sequence of `Candidate` objects.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, cast, final

from chat_core import ProviderMeta, Usage, UsageError

from chat_router.abilities import needed_abilities
from chat_router.candidate import Candidate
from chat_router.request import RouteRequest, Strategy

_OUTPUT_TOKENS: Final = 1_000
"""Number of output tokens for which prices are compared if `max_tokens` is not set."""


def _keep_order(request: RouteRequest, /) -> Sequence[Candidate]:
    return request.candidates


@final
@dataclass(frozen=True, slots=True)
class ByKeyword:
    """Strategy that prefers the model with the most keywords in the last user message.

    The keywords of a model are words or phrases in `ProviderMeta.data["keywords"]`. Case is ignored. Models with
    equally many keywords keep their order, so list a model without keywords last, as the default.
    """

    def __call__(self, request: RouteRequest, /) -> Sequence[Candidate]:
        """Return the models ordered by the number of their keywords in the message."""
        text = request.question.casefold()
        return sorted(request.candidates, key=lambda item: -_count_keywords(text, item.meta))


def _count_keywords(text: str, meta: ProviderMeta) -> int:
    keywords: object = meta.data.get("keywords", ())
    if isinstance(keywords, str) or not isinstance(keywords, (Sequence, set, frozenset)):
        msg = f"the keywords of {meta.name}/{meta.model} must be a list of strings, not {keywords!r}"
        raise UsageError(msg)
    words = [str(word).casefold() for word in cast("Sequence[object]", keywords)]
    return sum(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None for word in words if word)


@final
@dataclass(frozen=True, slots=True)
class ByAbility:
    """Strategy that prefers models that declare all abilities that the request needs.

    Models that declare a needed ability as missing never receive the request, whatever the strategy. This strategy also
    ranks a model lower for each needed ability that it does not declare, and if it does not enforce the schema of
    structured output. Models whose context window is smaller than the request come last.
    """

    def __call__(self, request: RouteRequest, /) -> Sequence[Candidate]:
        """Return the models ordered by the number of their missing or unknown abilities, fewest first."""
        needed = needed_abilities(request.messages, request.tools, streamed=False)
        if request.structured_output is not None:
            needed.add("structured")
        tokens = 0 if request.texts else request.messages.view().tokens + (request.options.max_tokens or 0)
        return sorted(request.candidates, key=lambda item: _count_doubts(item.meta, needed, tokens))


def _count_doubts(meta: ProviderMeta, needed: set[str], tokens: int) -> int:
    doubts = sum(getattr(meta.abilities, name) is not True for name in needed)
    window = meta.abilities.context_window
    return doubts + (len(needed) + 1 if window is not None and window < tokens else 0)


@final
@dataclass(frozen=True, slots=True)
class ByPrice:
    """Strategy that prefers the cheapest model for the request. Models without a known price come last.

    The cost is that of the estimated input and of `max_tokens` output tokens, or 1,000 if `max_tokens` is not set.
    """

    def __call__(self, request: RouteRequest, /) -> Sequence[Candidate]:
        """Return the models ordered by their cost."""
        limit = request.options.max_tokens
        output = 0 if request.texts else _OUTPUT_TOKENS if limit is None else limit
        tokens = len(request.question) if request.texts else request.messages.view().tokens
        usage = Usage(max(tokens, 1), output)
        return sorted(request.candidates, key=lambda item: _cost_or_infinity(item, usage))


def _cost_or_infinity(candidate: Candidate, usage: Usage) -> Decimal:
    cost = candidate.cost(usage)
    return Decimal("Infinity") if cost is None else cost


@final
@dataclass(frozen=True, slots=True)
class ByLatency:
    """Strategy that prefers the model with the lowest latency.

    A model without a recent measurement comes first, so that it is measured.
    """

    def __call__(self, request: RouteRequest, /) -> Sequence[Candidate]:
        """Return the models ordered by their latency."""
        return sorted(request.candidates, key=lambda item: item.latency or 0.0)


@final
@dataclass(frozen=True, slots=True)
class Sticky:
    """Strategy that prefers the model of the last response in the conversation.

    This strategy makes use of provider caches, and a resumed conversation keeps its model in any process. If that model
    is unavailable, another model responds, and the conversation then stays with the other model.

    Attributes:
        otherwise: strategy for conversations without a response, and for the order of the other models. Default: the
            order of the router.
    """

    otherwise: Strategy = _keep_order

    async def __call__(self, request: RouteRequest, /) -> Sequence[Candidate]:
        """Return the model of the last response, followed by the other models."""
        chosen = self.otherwise(request)
        order = chosen if isinstance(chosen, Sequence) else await chosen
        for role, turn in reversed(request.messages.view().turns):
            if role == "model" and (metadata := turn.metadata) is not None:
                return sorted(order, key=lambda item: not item.wrote(metadata.provider, metadata.model))
        return order


@final
@dataclass(frozen=True, slots=True)
class Weighted:
    """Strategy that distributes requests at random by the weights of the models.

    The weight of a model is the number `ProviderMeta.data["weight"]`; the default is 1. A model with the weight 0 is
    tried only after all other models.

    Attributes:
        random: function that returns a number from 0 to 1. Tests replace it.
    """

    random: Callable[[], float] = field(default=random.random, repr=False)

    def __call__(self, request: RouteRequest, /) -> Sequence[Candidate]:
        """Return the models in a random order. A model with a higher weight is more likely to be first."""
        # The algorithm of Efraimidis and Spirakis: a weighted order without replacement.
        keys = {id(item): self._draw_sort_key(_weight_of(item.meta)) for item in request.candidates}
        return sorted(request.candidates, key=lambda item: -keys[id(item)])

    def _draw_sort_key(self, weight: float) -> float:
        return float(self.random() ** (1 / weight)) if weight else -1.0


def _weight_of(meta: ProviderMeta) -> float:
    weight: object = meta.data.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < float("inf"):
        msg = f"the weight of {meta.name}/{meta.model} must be a number of at least 0, not {weight!r}"
        raise UsageError(msg)
    return weight
