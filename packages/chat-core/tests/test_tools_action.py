"""The actions of strategies, and the pauses that they can cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.response import Paused, Wait
from chat_core.tools import Defer, Execute, Reject, RequireApproval, Schedule

WAIT = Wait("approval", "call_1", ("call_1",), "pay", {})


def test_pause_of_an_action_contains_its_wait() -> None:
    assert RequireApproval().pause(WAIT) == Paused((WAIT,))
    assert Schedule(datetime(2026, 1, 2, tzinfo=UTC)).pause(WAIT) == Paused((WAIT,))


def test_executed_or_rejected_action_has_no_pause() -> None:
    with pytest.raises(AssertionError, match="the policy executes the call 'call_1', so the call does not wait"):
        Execute().pause(WAIT)
    with pytest.raises(AssertionError, match="the policy rejects the call 'call_1', so the call does not wait"):
        Reject("no").pause(WAIT)


def test_schedule_without_a_time_zone_raises() -> None:
    with pytest.raises(UsageError, match="a time needs a time zone"):
        Schedule(datetime(2026, 1, 2))  # noqa: DTZ001 - that is the mistake


@pytest.mark.parametrize("hours", [0, -1])
def test_approval_that_expires_immediately_raises(hours: int) -> None:
    with pytest.raises(UsageError, match="expires_in must be a positive duration"):
        RequireApproval(timedelta(hours=hours))


def test_an_action_whose_values_could_not_be_stored_raises() -> None:
    number: Any = 17
    with pytest.raises(UsageError, match=r"the reason of Reject\(\) must be a string, not 17"):
        Reject(number)
    with pytest.raises(UsageError, match="of must be a string that is not empty, not 17"):
        RequireApproval(of=number)
    for action in (RequireApproval, Defer):
        with pytest.raises(UsageError, match=r"expires_in must be a duration, such as timedelta\(hours=1\), not 17"):
            action(number)


def test_actions_compare_by_value_and_are_hashable() -> None:
    assert RequireApproval(timedelta(hours=1)) == RequireApproval(timedelta(hours=1))
    assert len({Execute(), Execute(), Reject("a"), Reject("a")}) == 2
