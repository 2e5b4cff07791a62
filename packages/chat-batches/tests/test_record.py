from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from chat_batches import BatchHandle, BatchMember, BatchReport
from chat_batches.record import BatchRecord
from chat_core import Batch
from chat_store import ConversationMeta

HANDLE = BatchHandle("claude", "m", Batch("batch_1", "abc"), (BatchMember("a", 1),))
BASE = {"conversations": ["a"], "name": "abc"}
SUBMITTED = {**BASE, "submitted_at": "2026-11-23T00:00:00+00:00", "members": [["a", 1, 0]]}


def test_a_record_is_read_from_the_description_of_a_conversation() -> None:
    record = BatchRecord.of(ConversationMeta("nightly", data={**SUBMITTED, "decision": "batch_1", "cancelled": True}))
    assert record.submitted_at == datetime(2026, 11, 23, tzinfo=UTC)
    assert record.members == (BatchMember("a", 1),)
    assert (record.decision, record.cancelled, record.handle) == ("batch_1", True, None)


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (BASE, "queued"),
        (SUBMITTED, "submitting"),
        ({**SUBMITTED, "handle": HANDLE.to_json()}, "running"),
        ({**SUBMITTED, "handle": HANDLE.to_json(), "outcome": "completed"}, "ended"),
    ],
    ids=["queued", "submitting", "running", "ended"],
)
def test_a_report_names_the_state_of_a_batch(data: dict[str, Any], state: str) -> None:
    assert BatchReport.of(BatchRecord.of(ConversationMeta("nightly", data=data))).state == state
