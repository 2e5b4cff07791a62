"""Selection of the model for a request, and recording of the outcome for later requests."""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, cast, final
from weakref import WeakKeyDictionary

from chat_core import (
    Attempt,
    ChatError,
    ChatOptions,
    Messages,
    Metadata,
    OutputSchema,
    ToolDeclarations,
    UsageError,
)
from chat_core.provider import AttemptAware

from chat_router.abilities import Needs, fits, options_for, require_accepted
from chat_router.breaker import Breaker
from chat_router.budget import Budget
from chat_router.candidate import Candidate
from chat_router.errors import BLAMELESS_ERRORS, NoModelAvailableError
from chat_router.request import RouteRequest, Strategy

Failures: TypeAlias = tuple[tuple[Candidate, ChatError], ...]
"""The failed models of a call with their errors, oldest first."""


@final
class Selector:
    """Object that chooses the model for each request of a router. One instance serves all requests and retries."""

    __slots__ = ("_budget", "_choose", "_errors", "_failed", "_is_simple", "_needs", "candidates", "clock")

    def __init__(
        self,
        candidates: tuple[Candidate, ...],
        choose: Strategy | None,
        breaker: Breaker,
        budget: Budget | None,
        errors: tuple[type[ChatError], ...],
    ) -> None:
        self.candidates: tuple[Candidate, ...] = candidates
        self.clock: Callable[[], float] = breaker.clock
        self._choose = choose
        self._budget = budget
        self._errors = errors
        self._needs = Needs.of(candidates)
        self._is_simple = choose is None and budget is None and not self._needs.missing
        self._failed: WeakKeyDictionary[ChatError, tuple[Candidate, ...]] = WeakKeyDictionary()

    def select_at_once(self, options: ChatOptions, attempt: Attempt) -> Selected | None:
        """Choose a model for a request that needs no further checks, or return `None`.

        This is the fast path of `select()` for routers without strategy and budget.

        Args:
            options: options of the request.
            attempt: number of the attempt, and the errors of earlier attempts.
        """
        if self._is_simple and not options.extras and not attempt.failed:
            for candidate in self.candidates:
                permit = candidate.circuit.enter()
                if permit is not None:
                    return Selected(self, candidate, permit, self.candidates, ())
        return None

    async def select(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
        attempt: Attempt,
        *,
        streamed: bool = False,
        texts: Sequence[str] = (),
    ) -> Selected:
        """Choose the model that serves a request.

        Args:
            messages: conversation of the request.
            tools: tools of the request.
            options: options of the request.
            structured_output: schema of the structured output, or `None` for text.
            attempt: number of the attempt, and the errors of earlier attempts.
            streamed: whether the response is streamed.
            texts: texts to embed.

        Raises:
            UsageError: no model can serve the request, or the strategy returned something other than candidates.
            NoModelAvailableError: all models that can serve the request are temporarily unavailable.
            BudgetExceededError: the request could exceed the budget.
        """
        ordered: Sequence[Candidate] = self._needs.capable(messages, tools, streamed=streamed)
        if options.extras:
            require_accepted(ordered, options)
        if self._choose is not None or self._budget is not None:
            request = RouteRequest(ordered, messages, tools, options, structured_output, attempt, texts)
            ordered = await self._order_candidates(request)
        failures = self._failures_of(attempt) if attempt.failed else ()
        if failures:
            ordered = _order_after_failures(ordered, failures)
        for candidate in ordered:
            permit = candidate.circuit.enter()
            if permit is not None:
                return Selected(self, candidate, permit, ordered, failures)
        raise _unavailable_error(ordered, attempt)

    async def _order_candidates(self, request: RouteRequest) -> Sequence[Candidate]:
        """Return the candidates that the budget allows, in the order of the strategy."""
        if self._budget is not None:
            request = replace(request, candidates=self._budget.affordable(request, self.candidates))
        if self._choose is None:
            return request.candidates
        chosen = self._choose(request)
        return self._require_candidates(await chosen if isinstance(chosen, Awaitable) else chosen, request.candidates)

    def _require_candidates(self, chosen: object, allowed: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the order of a strategy without repeated candidates.

        Raises:
            UsageError: the order is empty, or contains something other than candidates of the request.
        """
        if not isinstance(chosen, Sequence) or isinstance(chosen, str):
            msg = f"the strategy must return a sequence of candidates, not {reprlib.repr(chosen)}"
            raise UsageError(msg)
        order: list[Candidate] = []
        for item in cast("Sequence[Candidate]", chosen):
            if not any(item is candidate for candidate in allowed):
                msg = f"the strategy returned {reprlib.repr(item)}, which is not a candidate of the request"
                raise UsageError(msg)
            if item not in order:
                order.append(item)
        if not order:
            msg = f"the strategy returned no candidate: return some of {', '.join([item.name for item in allowed])}"
            raise UsageError(msg)
        return order

    def _failures_of(self, attempt: Attempt) -> Failures:
        found: list[tuple[Candidate, ChatError]] = []
        seen: dict[int, int] = {}
        for error in reversed(attempt.failed):
            # One object may be the error of several attempts.
            place = seen[id(error)] = seen.get(id(error), 0) + 1
            failed = self._failed.get(error, ())
            if place <= len(failed):
                found.append((failed[-place], error))
        return tuple(reversed(found))

    def record_failure(self, error: ChatError, candidate: Candidate) -> None:
        """Remember the model that raised an error, and add the model's name to the error.

        Args:
            error: the error that the model raised. Its metadata is changed.
            candidate: the model.
        """
        self._failed[error] = (*self._failed.get(error, ()), candidate)[-len(self.candidates) :]
        metadata = error.metadata or Metadata()
        if metadata.provider is None or metadata.model is None:
            meta = candidate.meta
            provider, model = metadata.provider or meta.name, metadata.model or meta.model
            error.metadata = replace(metadata, provider=provider, model=model)

    def may_fall_back(self, error: ChatError) -> bool:
        """Return whether another model may serve a request that failed with `error`."""
        return error.retryable or isinstance(error, self._errors)


@final
class Selected:
    """The model that serves a request. Call `succeed()`, `fail()`, `release()` or `end()` at its end.

    Attributes:
        candidate: the model.
    """

    __slots__ = ("_failures", "_is_ended", "_is_measured", "_order", "_permit", "_selector", "_started_at", "candidate")

    def __init__(
        self,
        selector: Selector,
        candidate: Candidate,
        permit: int,
        order: Sequence[Candidate],
        failures: Failures,
    ) -> None:
        self._selector = selector
        self.candidate: Candidate = candidate
        self._permit = permit
        self._order = order
        self._failures = failures
        self._started_at = selector.clock()
        self._is_ended = False
        self._is_measured = False

    def model(self) -> object:
        """Return the provider to use. If the model is itself a router, it receives the errors of its own models."""
        model = self.candidate.model
        if not self._failures:
            return model
        own = tuple([error for candidate, error in self._failures if candidate is self.candidate])
        if own and isinstance(model, AttemptAware):
            return model.with_attempt(Attempt(len(own) + 1, own))
        return model

    def options(self, options: ChatOptions) -> ChatOptions:
        """Return the options of the request that the model accepts."""
        return options_for(self.candidate.meta, options)

    def measure(self) -> None:
        """Record the latency. Called at the first event, or at the end of a response without a stream."""
        if not self._is_measured:
            self._is_measured = True
            self.candidate.measure(self._started_at)

    def succeed(self) -> None:
        """Record that the response is complete."""
        self._is_ended = True
        self.candidate.circuit.succeed(self._permit)

    def release(self) -> None:
        """Record that the request ended without an outcome, unless an outcome was already recorded."""
        if not self._is_ended:
            self._is_ended = True
            self.candidate.circuit.release(self._permit)

    def end(self, error: BaseException) -> None:
        """Record the outcome of a request that raised an error: a failure if it is a `ChatError`, otherwise none.

        Args:
            error: the error. A `ChatError` is changed as by `fail()`.
        """
        if isinstance(error, ChatError):
            self.fail(error)
        self.release()

    def fail(self, error: ChatError) -> None:
        """Record that the request failed.

        If another model can serve the request, make the error retryable without a delay.

        Args:
            error: the error, which is changed.
        """
        if self._is_ended:
            return
        self._is_ended = True
        candidate, selector = self.candidate, self._selector
        can_go_on = isinstance(candidate.model, AttemptAware) and error.fallback
        may_fall_back = selector.may_fall_back(error)
        if can_go_on or not may_fall_back or isinstance(error, BLAMELESS_ERRORS):
            candidate.circuit.release(self._permit)
        else:
            candidate.circuit.fail(self._permit)
        if error.retry_after is not None and not can_go_on:
            candidate.circuit.rest(error.retry_after)
        selector.record_failure(error, candidate)
        error.fallback = can_go_on or (may_fall_back and self._has_other_model(error))

    def _has_other_model(self, error: ChatError) -> bool:
        """Return whether another model is available, apart from models that have failed permanently in this call."""
        failed = {id(candidate) for candidate, _ in self._failures} | {id(self.candidate)}
        others = [
            item for item in self._order if id(item) not in failed and fits(error, self.candidate.meta, item.meta)
        ]
        if not others and not error.retryable:
            others = [item for item, earlier in self._failures if earlier.retryable and item is not self.candidate]
        return any(not item.circuit.seconds_until_free() for item in others)


def _order_after_failures(ordered: Sequence[Candidate], failures: Failures) -> Sequence[Candidate]:
    """Return the models to try after failures. Models that have not failed in this call come first.

    A model is left out if its error would occur again, or if its context window is too small.
    """
    counts: dict[int, int] = {}
    excluded: set[int] = set()
    for candidate, error in failures:
        can_go_on = isinstance(candidate.model, AttemptAware) and error.fallback
        if can_go_on and error is failures[-1][1]:
            continue
        counts[id(candidate)] = counts.get(id(candidate), 0) + 1
        if not error.retryable:
            excluded.add(id(candidate))
        excluded |= {id(item) for item in ordered if not fits(error, candidate.meta, item.meta)}
    remaining = [item for item in ordered if id(item) not in excluded]
    return sorted(remaining or ordered, key=lambda item: counts.get(id(item), 0))


def _unavailable_error(ordered: Sequence[Candidate], attempt: Attempt) -> NoModelAvailableError:
    states = ", ".join([f"{item.name} ({item.health})" for item in ordered])
    msg = f"no model is available, because all of them failed recently: {states}"
    error = NoModelAvailableError(msg)
    error.retry_after = min([item.circuit.seconds_until_free() for item in ordered])
    error.__cause__ = attempt.failed[-1] if attempt.failed else None
    return error
