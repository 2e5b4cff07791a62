"""Circuits: when they open, and how they close again."""

from __future__ import annotations

from threading import Barrier, Thread
from typing import Any

import pytest
from chat_core import UsageError
from chat_router.breaker import PROBE_WAIT, Breaker, Circuit
from router_helpers import Clock


def circuit(clock: Clock) -> Circuit:
    return Circuit(Breaker(3, 30.0, clock=clock))


def fail(subject: Circuit, times: int = 1) -> None:
    for _ in range(times):
        permit = subject.enter()
        assert permit is not None
        subject.fail(permit)


def test_a_circuit_opens_after_three_failures_in_a_row() -> None:
    subject = circuit(Clock())
    fail(subject, 2)
    assert (subject.health, subject.enter() is not None) == ("closed", True)
    fail(subject)
    assert (subject.health, subject.enter()) == ("open", None)


def test_a_success_resets_the_number_of_failures() -> None:
    subject = circuit(Clock())
    fail(subject, 2)
    permit = subject.enter()
    assert permit is not None
    subject.succeed(permit)
    fail(subject, 2)
    assert subject.health == "closed"


def test_a_circuit_is_half_open_after_the_recovery_time() -> None:
    clock = Clock()
    subject = circuit(clock)
    fail(subject, 3)
    clock.advance(29.9)
    assert (subject.health, subject.enter()) == ("open", None)
    assert subject.seconds_until_free() == pytest.approx(0.1)
    clock.advance(0.2)
    assert (subject.health, subject.seconds_until_free()) == ("half-open", 0.0)
    assert subject.enter() is not None


def test_a_half_open_circuit_gives_one_permit_until_the_test_request_has_ended() -> None:
    clock = Clock()
    subject = circuit(clock)
    fail(subject, 3)
    clock.advance(30)
    permit = subject.enter()
    assert permit is not None
    assert [subject.enter() for _ in range(100)] == [None] * 100
    assert subject.seconds_until_free() == PROBE_WAIT
    subject.succeed(permit)
    assert (subject.health, subject.enter() is not None) == ("closed", True)


def test_a_half_open_circuit_gives_one_permit_to_a_hundred_threads() -> None:
    clock = Clock()
    subject = circuit(clock)
    fail(subject, 3)
    clock.advance(30)
    barrier, permits = Barrier(100), list[int | None]()

    def enter() -> None:
        barrier.wait()
        permits.append(subject.enter())

    threads = [Thread(target=enter) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([permit for permit in permits if permit is not None]) == 1


def test_a_failed_test_request_opens_the_circuit_for_another_recovery_time() -> None:
    clock = Clock()
    subject = circuit(clock)
    fail(subject, 3)
    clock.advance(30)
    fail(subject)
    clock.advance(29)
    assert subject.enter() is None
    clock.advance(1)
    assert subject.enter() is not None


def test_a_cancelled_test_request_is_followed_by_another_one() -> None:
    clock = Clock()
    subject = circuit(clock)
    fail(subject, 3)
    clock.advance(30)
    permit = subject.enter()
    assert permit is not None
    subject.release(permit)
    assert subject.enter() is not None


def test_a_test_request_without_an_outcome_is_replaced_after_the_recovery_time() -> None:
    clock = Clock()
    subject = circuit(clock)
    fail(subject, 3)
    clock.advance(30)
    late = subject.enter()
    assert late is not None
    clock.advance(30)
    assert subject.enter() is not None
    subject.succeed(late)
    assert subject.health != "closed"


def test_outcomes_of_requests_from_before_the_opening_are_ignored() -> None:
    clock = Clock()
    subject = circuit(clock)
    early = subject.enter()
    assert early is not None
    fail(subject, 3)
    clock.advance(20)
    subject.fail(early)
    subject.succeed(early)
    subject.release(early)
    assert subject.health == "open"
    clock.advance(10)
    assert subject.enter() is not None


def test_a_model_receives_no_requests_during_its_retry_delay() -> None:
    clock = Clock()
    subject = circuit(clock)
    subject.rest(12)
    subject.rest(5)
    assert (subject.enter(), subject.seconds_until_free()) == (None, 12)
    clock.advance(12)
    assert subject.enter() is not None


@pytest.mark.parametrize(
    ("failures", "seconds", "problem"),
    [
        (0, 30.0, "failures must be at least 1"),
        (1.5, 30.0, "failures must be a whole number"),
        (3, 0.0, "recovery_seconds must be more than 0"),
        (3, float("nan"), "recovery_seconds must be more than 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(failures: Any, seconds: float, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Breaker(failures, seconds)
