"""Runs, read from the jobs that record them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from chat_service import ServiceSettings
from chat_service.run_records import END_JOB, RunEnd, RunState, end_job, first_part, new_run_id, read_runs, session_of
from chat_store import HistoryPosition, Job, JobState, StoredJob

AT = datetime(2026, 11, 23, tzinfo=UTC)
RUN = new_run_id("session", "1")
SETTINGS = ServiceSettings()
BEFORE = HistoryPosition("log", 3)


def stored(job: Job, state: JobState = "queued") -> StoredJob:
    return StoredJob("session", job.kind, job.key, job.payload, AT, state)


def part(number: int, state: JobState = "queued") -> StoredJob:
    job = first_part(RUN, AT, "hash", BEFORE, SETTINGS)
    return stored(replace(job, key=f"{RUN}@{number}"), state)


def test_a_run_id_names_its_session() -> None:
    assert (RUN, session_of(RUN)) == ("session.1", "session")


@pytest.mark.parametrize(
    ("state", "expected", "code"),
    [
        ("queued", "queued", None),
        ("running", "running", None),
        ("done", "failed", "worker_lost"),
        ("failed", "failed", "worker_lost"),
        ("cancelled", "cancelled", None),
    ],
)
def test_a_run_without_an_end_has_the_state_of_its_job(state: JobState, expected: RunState, code: str | None) -> None:
    (run,) = read_runs([part(0, state)])

    assert (run.state, run.code) == (expected, code)


def test_a_run_has_the_end_of_its_last_part() -> None:
    first, second = part(0, "done"), part(1, "done")
    ends = [
        stored(end_job(first, RunEnd("paused", 4))),
        stored(end_job(second, RunEnd("failed", 9, "llm_error"))),
    ]
    (run,) = read_runs([*ends, second, first])
    (earlier,) = read_runs([ends[0], first])

    assert (earlier.state, run.state, run.code, run.is_active) == ("paused", "failed", "llm_error", False)
    assert [part.end and part.end.entry for part in run.parts] == [4, 9]


def test_the_next_part_has_one_key_for_all_processes() -> None:
    (run,) = read_runs([part(0)])

    assert run.next_part(SETTINGS) == run.next_part(SETTINGS)
    assert (run.next_part(SETTINGS).key, run.next_part(SETTINGS).payload) == ("session.1@1", part(0).payload)
    assert (run.after, run.body_hash) == (BEFORE, "hash")


def test_jobs_of_other_kinds_are_ignored() -> None:
    job = part(0)

    assert (
        read_runs([replace(job, kind="index"), replace(job, kind=END_JOB, payload={"state": "paused", "entry": 1})])
        == []
    )
