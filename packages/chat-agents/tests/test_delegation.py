"""The settings of a delegation."""

from __future__ import annotations

from typing import Any

import pytest
from chat_agents import Budget, Delegation, SubAgent
from chat_core import UsageError


def agent(**settings: Any) -> SubAgent:
    given: dict[str, Any] = {"name": "clerk", "description": "", "instructions": "", **settings}
    return SubAgent(**given)


def delegation(*agents: SubAgent, **settings: Any) -> Delegation:
    return Delegation(agents=agents, **settings)


@pytest.mark.parametrize(
    "limit",
    [
        {"tokens": 0},
        {"calls": -1},
        {"seconds": 0.0},
        {"tokens": 1.5},
        {"calls": True},
        {"seconds": float("inf")},
        {"seconds": float("nan")},
    ],
)
def test_a_budget_must_be_positive_and_finite(limit: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"must be a positive .* number, or None for no limit, not"):
        Budget(**limit)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": " "}, {"max_turns": 0}, {"max_turns": True}])
def test_an_invalid_agent_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        agent(**wrong)


def test_invalid_delegation_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="two agents are named 'clerk'"):
        delegation(agent(), agent())
    with pytest.raises(UsageError, match="max_depth"):
        delegation(agent(), max_depth=0)
    with pytest.raises(UsageError, match="max_result"):
        delegation(agent(), max_result=10)
