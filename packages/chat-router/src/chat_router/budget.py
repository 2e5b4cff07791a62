"""Budgets in US dollars for runs and sessions, which are checked before each call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, final

from chat_core import Attempt, Messages, Turn, Usage, UsageError
from chat_core.arguments import argument_error, require_type
from chat_core.json import dumps
from chat_core.messages import Role
from chat_core.messages.token_estimate import TURN_TOKENS, estimate_text
from chat_core.options import Instructions

from chat_router.candidate import Candidate
from chat_router.errors import BudgetExceededError
from chat_router.prices import known_cost
from chat_router.request import RouteRequest

OUTPUT_TOKENS: Final = 4_096
"""Default maximum number of output tokens that a call without `max_tokens` is expected to use."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit in US dollars on the cost of a run or a whole conversation.

    The spent amount is computed from the history, so the budget applies across pauses and processes. A router uses only
    models whose next call fits into the remaining budget. If there is no such model, it raises `BudgetExceededError`.
    The size of a request is estimated, usually too high. Each model needs a price.

    Attributes:
        run: limit for everything since the last user message, or `None`.
        session: limit for the whole conversation, or `None`.
        output_tokens: number of output tokens that a call is expected to use if `max_tokens` is not set.

    Raises:
        UsageError: no limit is set, or a value is negative.
    """

    run: Decimal | None = None
    session: Decimal | None = None
    output_tokens: int = OUTPUT_TOKENS

    def __post_init__(self) -> None:
        for name, limit in (("run", self.run), ("session", self.session), ("output_tokens", self.output_tokens)):
            if limit is not None:
                require_type(name, limit, (Decimal, int, float), "a number, such as Decimal('0.50')")
                if Decimal(limit).is_nan() or limit < 0:
                    raise argument_error(name, "at least 0", limit)
        if self.run is None and self.session is None:
            msg = "Budget() needs run=… or session=…, in US dollars: Budget(session=Decimal('0.50'))"
            raise UsageError(msg)

    def require_prices(self, candidates: Sequence[Candidate]) -> None:
        """Check that the price of each model is known.

        Args:
            candidates: models of a router.

        Raises:
            UsageError: the price of a model is unknown.
        """
        unknown = [item.name for item in candidates if item.cost(Usage(1, 1)) is None]
        if unknown:
            msg = (
                f"a budget needs the price of every model, but no price is known for {', '.join(unknown)}: set it with "
                "with_metadata(data={'price': Price('3', '15')}), or install chat-router[prices]"
            )
            raise UsageError(msg)

    def affordable(self, request: RouteRequest, models: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates whose next call fits into the remaining budget.

        Args:
            request: the request. The cost of its failed attempts is included.
            models: all models of the router.

        Raises:
            BudgetExceededError: there is no such model.
        """
        ordered = request.candidates
        failed = sum([_dearest_cost(usage, models) for usage in _failed_usages(request.attempt)], Decimal())
        usage = self._request_usage(request)
        costs = {id(item): _require_cost(item, usage) for item in ordered}
        limits: list[tuple[Literal["run", "session"], Decimal | None]] = [("run", self.run), ("session", self.session)]
        for scope, limit in limits:
            if limit is None:
                continue
            spent = failed + sum(
                [_turn_cost(turn, models) for turn in _iterate_model_turns(request.messages, scope)], Decimal()
            )
            ordered = [item for item in ordered if spent + costs[id(item)] <= limit]
            if not ordered:
                needed = min(costs.values())
                msg = (
                    f"the next call may cost ${needed:f}, but ${spent:f} of the {scope} budget of ${limit} are spent: "
                    "the call was not sent"
                )
                raise BudgetExceededError(msg, scope=scope, limit=limit, spent=spent, needed=needed)
        return ordered

    def _request_usage(self, request: RouteRequest) -> Usage:
        """Return the estimated usage of the next call."""
        if request.texts:
            return Usage(sum([estimate_text(text) for text in request.texts]))
        instructions = Instructions.of(request.options.instructions)
        extra = [instructions.fixed, instructions.changing]
        extra += [f"{tool.name} {tool.description} {dumps(dict(tool.parameters))}" for tool in request.tools]
        extra += [] if request.structured_output is None else [dumps(dict(request.structured_output.schema))]
        tokens = sum([TURN_TOKENS + estimate_text(text) for text in extra if text])
        limit = request.options.max_tokens
        return Usage(request.messages.view().tokens + tokens, self.output_tokens if limit is None else limit)


def _iterate_model_turns(messages: Messages, scope: Literal["run", "session"]) -> Iterator[Turn]:
    """Yield the model turns, latest first; for a run, only the turns after the last user message."""
    for content in reversed(messages.contents):
        for turn in reversed(content.turns):
            if scope == "run" and _is_message_of_user(content.role, turn):
                return
            yield turn


def _is_message_of_user(role: Role, turn: Turn) -> bool:
    return role == "user" and turn.by is None


def _turn_cost(turn: Turn, models: Sequence[Candidate]) -> Decimal:
    """Return the cost of a turn with its failed requests and its inner conversations."""
    cost = Decimal()
    if turn.usage:
        cost += _cost_of_response(turn, models)
    if turn.failed_usage is not None:
        cost += _dearest_cost(turn.failed_usage, models)
    for tool in turn.tools:
        if tool.usage:
            cost += _dearest_cost(tool.usage, models)
    return cost


def _cost_of_response(turn: Turn, models: Sequence[Candidate]) -> Decimal:
    metadata = turn.metadata
    assert metadata is not None  # noqa: S101 - the turn has usage
    for item in models:
        if item.wrote(metadata.provider, metadata.model):
            return _require_cost(item, turn.usage)
    cost = known_cost(turn.usage, metadata.model or "")
    return _dearest_cost(turn.usage, models) if cost is None else cost


def _dearest_cost(usage: Usage, models: Sequence[Candidate]) -> Decimal:
    """Return the cost of tokens at the price of the most expensive model.

    Used for tokens whose model is unknown.
    """
    return max([_require_cost(item, usage) for item in models])


def _failed_usages(attempt: Attempt) -> list[Usage]:
    return [error.usage or (error.partial.usage if error.partial is not None else Usage()) for error in attempt.failed]


def _require_cost(item: Candidate, usage: Usage) -> Decimal:
    cost = item.cost(usage)
    assert cost is not None  # noqa: S101 - checked when the router was made
    return cost
