"""Errors of routers."""

from __future__ import annotations

import pickle
from decimal import Decimal

from chat_core import ChatError
from chat_router import FALLBACK_ERRORS, BudgetExceededError, NoModelAvailableError


def test_a_budget_error_has_its_numbers_after_it_was_pickled() -> None:
    error = BudgetExceededError("no", scope="run", limit=Decimal(1), spent=Decimal(2), needed=Decimal(3))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    assert (copy.scope, copy.limit, copy.spent, copy.needed, str(copy)) == ("run", 1, 2, 3, "no")
    assert not copy.retryable


def test_only_errors_of_a_model_cause_a_fallback() -> None:
    assert NoModelAvailableError.retryable
    assert BudgetExceededError not in FALLBACK_ERRORS
    assert ChatError not in FALLBACK_ERRORS
