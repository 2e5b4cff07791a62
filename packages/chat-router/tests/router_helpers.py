"""Models and clocks that the tests of this package share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chat_core import ChatOptions, Messages, ProviderMeta, ToolDeclarations
from chat_core.testing import ScriptedProvider
from chat_router import Breaker, Candidate, Router, RouteRequest
from chat_router.candidate import create_candidates


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def model(name: str, *script: Any, **meta: Any) -> ScriptedProvider:
    """Return a scripted model whose provider is `name`."""
    vectors = meta.pop("vectors", None)
    return ScriptedProvider(*script, meta=ProviderMeta(name, meta.pop("model", "m"), **meta), vectors=vectors)


def request(
    *models: ScriptedProvider, text: str = "hello", breaker: Breaker | None = None, **changes: Any
) -> RouteRequest:
    """Return a request of a user for these models."""
    candidates = create_candidates(models, [item.metadata for item in models], breaker or Breaker())
    messages = changes.pop("messages", Messages.from_user(text))
    fields: dict[str, Any] = {"tools": ToolDeclarations(), "options": ChatOptions(), **changes}
    return RouteRequest(candidates, messages, **fields)


def names(candidates: Sequence[Candidate]) -> list[str]:
    """Return the provider names of candidates."""
    return [item.meta.name for item in candidates]


def asked(*models: ScriptedProvider) -> list[int]:
    """Return how many requests each model has received."""
    return [len(item.asked) for item in models]


def candidate(router: Router, name: str) -> Candidate:
    """Return the candidate of a provider."""
    return next(item for item in router.candidates if item.meta.name == name)
