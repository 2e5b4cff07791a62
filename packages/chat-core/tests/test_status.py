from __future__ import annotations

from typing import get_args

import pytest
from chat_core.messages import (
    TRANSITIONS,
    Approved,
    Completed,
    Failed,
    Interrupted,
    Messages,
    Pending,
    Rejected,
    Running,
    Suspended,
    ToolEvent,
    ToolStatus,
)

# The documented transitions, written here independently of the code.
PROMISED = {
    "Pending": {
        "approve": "Approved",
        "start": "Running",
        "reject": "Rejected",
        "expire": "Rejected",
        "cancel": "Rejected",
        "fail": "Failed",
        "schedule": "Pending",
        "await approval": "Pending",
        "await result": "Pending",
        "complete": "Completed",
    },
    "Approved": {
        "start": "Running",
        "reject": "Rejected",
        "cancel": "Rejected",
        "fail": "Failed",
        "reconsider": "Pending",
    },
    "Running": {
        "complete": "Completed",
        "fail": "Failed",
        "lost": "Interrupted",
        "again": "Running",
        "suspend": "Suspended",
    },
    "Suspended": {"start": "Running", "cancel": "Rejected"},
    "Interrupted": {
        "complete": "Completed",
        "retry": "Approved",
        "fail": "Failed",
        "cancel": "Rejected",
        "await outcome": "Interrupted",
    },
    "Completed": {},
    "Failed": {},
    "Rejected": {},
}


def test_transition_table_matches_the_specification() -> None:
    table = {
        start.__name__: {event.value: end.__name__ for event, end in row.items()} for start, row in TRANSITIONS.items()
    }
    assert table == PROMISED


def test_every_status_has_a_row_and_every_event_a_transition() -> None:
    assert set(TRANSITIONS) == set(get_args(ToolStatus))
    assert {event for row in TRANSITIONS.values() for event in row} == set(ToolEvent)


def test_final_statuses_have_no_transitions() -> None:
    assert [status.__name__ for status, row in TRANSITIONS.items() if not row] == ["Completed", "Failed", "Rejected"]


@pytest.mark.parametrize(
    "status",
    [
        Pending(),
        Approved(),
        Running("a"),
        Suspended(Messages()),
        Interrupted(),
        Completed(1),
        Failed("no"),
        Rejected("no"),
    ],
    ids=repr,
)
def test_status_is_immutable(status: ToolStatus) -> None:
    with pytest.raises(AttributeError):
        status.extra = {}  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue] - that is the test
