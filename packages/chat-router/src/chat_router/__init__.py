"""A router that combines several models: routing, fallback, circuit breakers and budgets."""

from chat_router.breaker import Breaker, Health
from chat_router.budget import Budget
from chat_router.candidate import Candidate
from chat_router.errors import FALLBACK_ERRORS, BudgetExceededError, NoCapableModelError, NoModelAvailableError
from chat_router.meaning import ByMeaning
from chat_router.prices import Price
from chat_router.request import RouteRequest, Strategy
from chat_router.router import (
    ChatEmbeddingsRouter,
    ChatRouter,
    CompletionEmbeddingsRouter,
    CompletionRouter,
    EmbeddingsRouter,
    Router,
)
from chat_router.strategies import ByAbility, ByKeyword, ByLatency, ByPrice, Sticky, Weighted

__all__ = [
    "FALLBACK_ERRORS",
    "Breaker",
    "Budget",
    "BudgetExceededError",
    "ByAbility",
    "ByKeyword",
    "ByLatency",
    "ByMeaning",
    "ByPrice",
    "Candidate",
    "ChatEmbeddingsRouter",
    "ChatRouter",
    "CompletionEmbeddingsRouter",
    "CompletionRouter",
    "EmbeddingsRouter",
    "Health",
    "NoCapableModelError",
    "NoModelAvailableError",
    "Price",
    "RouteRequest",
    "Router",
    "Sticky",
    "Strategy",
    "Weighted",
]
