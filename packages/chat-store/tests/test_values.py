"""Values are read from columns as they were written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from chat_core.response import Wait
from chat_store.sql.values import (
    call_id_to_column,
    from_microseconds,
    to_microseconds,
    wait_from_columns,
    wait_to_column,
)

NOON = datetime(2030, 1, 1, 12, 0, 0, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time", "number"),
    [
        (NOON, 1893499200000007),
        (NOON.astimezone(timezone(timedelta(hours=5))), 1893499200000007),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1_000_000),
        (None, None),
    ],
)
def test_a_time_is_converted_to_microseconds_and_back(time: datetime | None, number: int | None) -> None:
    assert to_microseconds(time) == number
    assert from_microseconds(number) == time


@pytest.mark.parametrize(
    "wait",
    [
        Wait("approval", "inner", ("outer", "inner"), "pay", {"cents": 1}, NOON, conversation="c", owner="ana"),
        Wait("schedule", "a", ("a",), "pay", {}, at=NOON, conversation="c"),
        Wait("interrupted", "a", ("a",), "pay", {"to": "\ud83d"}, error="its process is gone", conversation="c"),
    ],
    ids=lambda wait: wait.kind,
)
def test_a_wait_is_decoded_as_it_was_encoded(wait: Wait) -> None:
    for stored in (wait, replace(wait, revision=3)):
        found = wait_from_columns(stored.kind, wait_to_column(stored), "c", stored.owner)
        assert (found, found.revision) == (stored, stored.revision)


def test_a_name_is_encoded_as_text_that_every_database_can_store() -> None:
    assert call_id_to_column("a\0\ud83d").encode().isascii()
    assert "\0" not in call_id_to_column("a\0b")
