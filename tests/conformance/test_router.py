"""A router passes the provider suite with any of its models, in any mixture."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeAlias

import anyio
import pytest
from chat_core import ChatProvider, EmbeddingsProvider
from chat_core.testing import MockTransport
from chat_core.transport import Transport
from chat_router import Breaker, Candidate, ChatRouter, Router, RouteRequest
from chat_testing import ProviderConformance, Subject, conformance_report
from chat_testing.conformance.subject import AnyProvider

from .test_claude import TestClaude as Claude
from .test_completions import TestCompletions as Completions
from .test_gemini import TestGemini as Gemini
from .test_gemini import TestGeminiVectors as GeminiVectors
from .test_openai import TestOpenAIVectors as OpenAIVectors
from .test_responses import TestResponses as Responses

Wire: TypeAlias = type[ProviderConformance]
Mix: TypeAlias = Callable[[ChatProvider, list[ChatProvider]], ChatRouter]
WIRES: tuple[Wire, ...] = (Claude, Completions, Gemini, Responses)


def name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind)).removeprefix("Test")


def first(home: ChatProvider, others: list[ChatProvider]) -> ChatRouter:
    return Router([home, *others])


def chosen(home: ChatProvider, others: list[ChatProvider]) -> ChatRouter:
    def last(request: RouteRequest) -> Sequence[Candidate]:
        return request.candidates[::-1]

    return Router([*others, home], last)


def after_open_circuits(home: ChatProvider, others: list[ChatProvider]) -> ChatRouter:
    router = Router([*others, home], breaker=Breaker(failures=1))
    for item in router.candidates[:-1]:
        permit = item.circuit.enter()
        assert permit is not None
        item.circuit.fail(permit)
    return router


def inner(home: ChatProvider, others: list[ChatProvider]) -> ChatRouter:
    return Router([Router([home, others[0]]), *others[1:]])


def chat_model(wire: Wire, transport: Transport) -> ChatProvider:
    model = wire().make_provider(transport)
    assert isinstance(model, ChatProvider)
    return model


MIXES: tuple[Mix, ...] = (first, chosen, after_open_circuits, inner)
SAMPLE = list(zip(WIRES, MIXES, strict=True))
EVERY = list(product(WIRES, MIXES))
"""The thorough suite tests each wire in each mixture."""


@pytest.mark.parametrize(("home", "mix"), EVERY if os.environ.get("CHAT_THOROUGH") else SAMPLE, ids=name)
def test_a_router_passes_the_provider_suite_like_the_model_that_it_chooses(home: Wire, mix: Mix) -> None:
    others = [chat_model(wire, MockTransport()) for wire in WIRES if wire is not home]
    subject = home().subject()

    def make_router(transport: Transport) -> AnyProvider:
        return mix(chat_model(home, transport), others)

    # The other models do not embed, so the router does not either.
    claims = replace(subject.capabilities, embeddings=False)
    routed = Subject(make_router, claims, replace(subject.tapes, embeddings=None), subject.owner_name)
    report = anyio.run(conformance_report, routed)

    assert report.broken == {}
    assert len(report.kept) > 30


@pytest.mark.parametrize("home", [OpenAIVectors, GeminiVectors], ids=name)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_router_of_one_embedding_model_passes_the_embeddings_suite(home: Wire, backend: str) -> None:
    subject = home().subject()
    second = home().make_provider(MockTransport())

    def make_router(transport: Transport) -> EmbeddingsProvider:
        model = home().make_provider(transport)
        assert isinstance(model, EmbeddingsProvider)
        assert isinstance(second, EmbeddingsProvider)
        return Router([model, second])

    routed = Subject(make_router, subject.capabilities, subject.tapes, subject.owner_name)
    report = anyio.run(conformance_report, routed, backend=backend)

    assert report.broken == {}
    assert report.kept
