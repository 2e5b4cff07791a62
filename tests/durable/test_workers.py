"""Conversations survive workers that are killed with `kill -9`. A separate ledger records the effects."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from chat_core.messages import Completed, Interrupted, Rejected, Running
from chat_store.testing.postgres_server import PostgresServer, shared_server

from .processes import Server, Shop, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with shared_server() as postgres:
        yield postgres


@contextmanager
def in_sqlite(server: Server, folder: Path) -> Generator[Shop]:
    with Shop(server, folder, f"sqlite:///{folder}/dbos.db") as shop:
        yield shop


@pytest.fixture
def small(server: Server, tmp_path: Path) -> Iterator[Shop]:
    """DBOS in a file."""
    with in_sqlite(server, tmp_path) as shop:
        yield shop


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Shop]:
    """DBOS in a file and in PostgreSQL."""
    if request.param == "sqlite":
        with in_sqlite(server, tmp_path) as shop:
            yield shop
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    folder = postgres.dsn.split()[0].removeprefix("host=")
    with Shop(server, tmp_path, f"postgresql://postgres@/shop_{uuid4().hex}?host={folder}") as shop:
        yield shop


def test_another_worker_resumes_after_one_is_killed_while_it_waits(shop: Shop) -> None:
    first = shop.worker("one", start=True, lease=0.5)
    wait_until(lambda: shop.waits("approval"), "an approval to wait for")
    shop.kill(first)
    shop.worker("two", take=["one"])
    assert shop.until("taken")["taken"] == ["orders/17"]
    assert not shop.paid()
    shop.person()
    shop.require_finished()
    assert [item.executor_id for item in shop.workflows()] == ["two"]
    assert [decision.by for decision in shop.call().decisions] == ["ana"]


def test_a_worker_killed_inside_a_tool_leaves_an_interrupted_call_that_is_not_rerun(shop: Shop) -> None:
    first = shop.worker("one", start=True, stop="done", lease=0.5)
    wait_until(lambda: shop.waits("approval"), "an approval to wait for")
    shop.person()
    assert shop.until("reached")["pid"] == first
    assert shop.paid() == 1
    shop.kill(first)
    # The lease of the dead run may still be good: then the second worker finds it busy, and tries until it has run out.
    shop.worker("two", take=["one"])
    wait_until(lambda: shop.waits("interrupted"), "an interruption to be told of")
    assert isinstance(shop.call().status, Interrupted)
    assert shop.paid() == 1
    shop.person()
    shop.require_finished()
    assert shop.call().status == Completed("looked up: it was paid")


def test_a_decision_is_found_even_if_its_process_died_before_waking_the_workflow(shop: Shop) -> None:
    shop.worker("one", start=True, look=1)
    wait_until(lambda: shop.waits("approval"), "an approval to wait for")
    person = shop.person(until="reached", stop="decided")
    shop.kill(person)
    shop.require_finished()


def test_a_worker_of_the_same_name_continues_automatically(small: Shop) -> None:
    small.kill(small.worker("one", start=True, lease=0.5))
    small.worker("one")
    wait_until(lambda: small.waits("approval"), "an approval to wait for")
    small.person()
    small.require_finished()


def test_a_worker_that_starts_wakes_what_was_decided_in_the_dark(small: Shop) -> None:
    first = small.worker("one", start=True, lease=0.5)
    wait_until(small.rests, "a run that has ended")
    small.kill(first)
    small.kill(small.person(until="reached", stop="decided"))
    small.worker("one", wake=True)
    assert small.until("woken")["workflows"] == 1
    small.require_finished()


def test_a_scheduled_call_runs_at_its_time(small: Shop) -> None:
    small.worker("one", start=True, at=1)
    small.require_finished()
    assert small.call().status == Completed("paid")


def test_an_undecided_approval_expires_and_the_conversation_continues(small: Shop) -> None:
    small.worker("one", start=True, expires=1)
    small.require_finished(paid=0)
    assert isinstance(small.call().status, Rejected)


def test_taking_over_from_an_active_worker_repeats_no_effect(small: Shop) -> None:
    small.worker("one", start=True)
    wait_until(lambda: small.waits("approval"), "an approval to wait for")
    small.worker("two", take=["one"])
    small.worker("three", take=["one", "two"])
    small.person()
    small.require_finished()


def test_a_tool_that_runs_on_an_active_worker_is_not_repeated_after_a_takeover(small: Shop) -> None:
    first = small.worker("one", start=True, stop="done")
    wait_until(lambda: small.waits("approval"), "an approval to wait for")
    small.person()
    small.until("reached")
    # The worker is inside its tool with a valid lease, and another worker considers it dead.
    small.worker("two", take=["one"])
    wait_until(small.found_busy, "a run that was refused")
    assert small.paid() == 1
    small.kill(first)
    assert isinstance(small.call().status, Running)
    assert small.paid() == 1


def test_a_worker_of_another_version_takes_over_only_the_named_workers(small: Shop) -> None:
    first = small.worker("one", start=True, version="old", lease=0.5)
    wait_until(lambda: small.waits("approval"), "an approval to wait for")
    small.kill(first)
    small.kill(small.worker("one", version="new"))
    assert [(item.app_version, item.status) for item in small.workflows()] == [("old", "PENDING")]
    small.worker("two", version="new", take=["one"])
    small.person()
    small.require_finished()
    ends = {item.app_version: item.status for item in small.workflows()}
    assert ends == {"old": "CANCELLED", "new": "SUCCESS"}


def test_a_conversation_survives_more_restarts_than_dbos_allows_by_default(small: Shop) -> None:
    first = small.worker("one", start=True, lease=0.5)
    wait_until(lambda: small.waits("approval"), "an approval to wait for")
    small.kill(first)
    with closing(sqlite3.connect(small.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE workflow_status SET recovery_attempts = 500")
    small.worker("one")
    small.person()
    small.require_finished()
