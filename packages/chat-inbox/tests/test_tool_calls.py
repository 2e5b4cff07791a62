"""Tool call texts, JSON and versions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from chat_core import FunctionCall
from chat_core.messages import Interrupted, Messages, Pending, Running, Suspended, Tool
from chat_core.messages.content import Content
from chat_inbox.tool_calls import (
    build_call_document,
    compute_version,
    format_conflict,
    format_decision,
    format_relative_time,
    format_status,
    format_terms,
    format_utc,
    is_expired,
    waiting_calls,
    waits_for,
    walk_calls,
)

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def tool(**arguments: object) -> Tool:
    made = Tool(FunctionCall("transfer", arguments or {"cents": 1}, id="call_1"), call_id="call_1")
    made.await_approval()
    return made


def test_version_of_a_call_depends_on_status_and_arguments() -> None:
    one, same, other, moved = tool(), tool(), tool(cents=2), tool()
    moved.approve()

    assert compute_version(one) == compute_version(same)
    assert len({compute_version(item) for item in (one, other, moved)}) == 3
    # To Python these are equal.
    assert len({compute_version(tool(cents=value)) for value in (1, 1.0, True)}) == 3


def test_waits_for_returns_the_kind_of_decision_that_a_call_needs() -> None:
    one = tool()
    assert (waits_for(one), format_status(one)) == ("approval", "waits for approval")
    one.adopt(one.with_status(Pending("schedule", at=NOW)))
    assert (waits_for(one), format_status(one)) == ("schedule", "waits for its scheduled time")
    one.adopt(one.with_status(Interrupted("a", reason="gone")))
    assert (waits_for(one), format_status(one)) == ("interrupted", "was interrupted")
    one.adopt(one.with_status(Suspended(Messages())))
    assert (waits_for(one), format_status(one)) == (None, "waits inside")
    one.adopt(one.with_status(Running("a")))
    assert (waits_for(one), format_status(one)) == (None, "running")


def test_walk_calls_includes_calls_of_inner_conversations() -> None:
    inner = tool()
    outer = Tool(FunctionCall("ask", {}), id="outer", status=Suspended(Messages([Content.of("model", inner)])))
    messages = Messages([Content.of("model", outer)])

    assert [path for path, _ in walk_calls(messages)] == [("outer",), ("outer", "call_1")]
    assert waiting_calls(messages) == [(("outer", "call_1"), inner)]


def test_format_conflict_names_who_decided_and_how() -> None:
    one = tool()
    assert format_conflict(one).startswith("transfer has changed")
    one.approve(by="ana", arguments={"cents": 2}, at=NOW)
    assert format_conflict(one).startswith(
        "ana approved transfer with other arguments at 2030-01-01 12:00 UTC. Nothing else was stored"
    )
    one.start()
    one.lost("gone")
    assert "and it waits again" in format_conflict(one)
    one.retry()
    assert format_conflict(one).startswith("Somebody let transfer run again")
    late = tool()
    late.adopt(late.with_status(Running("a")))
    assert format_conflict(late) == "transfer is running already; nothing was changed."


@pytest.mark.parametrize(
    ("left", "words"),
    [
        ({"seconds": 20}, "in less than a minute"),
        ({"minutes": 5, "seconds": 59}, "in 5 min"),
        ({"hours": 23, "minutes": 59}, "in 23 h 59 min"),
        ({"days": 3, "hours": 4}, "in 3 d 4 h"),
        ({"minutes": -5}, "5 min ago"),
        ({"days": -2}, "2 d 0 h ago"),
    ],
)
def test_relative_time_is_formatted(left: dict[str, float], words: str) -> None:
    assert format_relative_time(NOW + timedelta(**left), NOW) == words


@pytest.mark.parametrize(
    ("at", "expires_at", "text"),
    [
        (None, None, ""),
        (5, 9, "runs in 5 min"),
        (None, 9, "expires in 9 min"),
        (None, -9, "expired 9 min ago"),
    ],
)
def test_terms_are_the_start_time_or_the_deadline(at: int | None, expires_at: int | None, text: str) -> None:
    times = [None if minutes is None else NOW + timedelta(minutes=minutes) for minutes in (at, expires_at)]
    assert format_terms(times[0], times[1], NOW) == text


def test_approval_expires_at_its_deadline() -> None:
    one = tool()
    assert not is_expired(one, NOW)
    one.adopt(one.with_status(Pending("approval", expires_at=NOW)))
    assert is_expired(one, NOW)
    assert not is_expired(one, NOW - timedelta(seconds=1))


def test_call_document_contains_decisions() -> None:
    one = tool()
    one.approve(by="ana", note="as agreed", arguments={"cents": 2})
    document = build_call_document(one, ("outer", "call_1"), "outer,call_1", may_decide=True)

    assert json.loads(json.dumps(document)) == document
    assert (document["arguments"], document["asked"]) == ({"cents": 2}, {"cents": 1})
    assert document["path"] == ["outer", "call_1"]
    assert [format_decision(decision) for decision in one.decisions] == ["approved it with other arguments"]


def test_times_are_formatted_in_utc() -> None:
    assert format_utc(datetime(2030, 1, 31, 9, 40, tzinfo=timezone(timedelta(hours=2)))) == "2030-01-31 07:40 UTC"
