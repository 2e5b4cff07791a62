"""`Run`, a request to a session and its outcome, which the store records as jobs.

A run has one or more parts. The first part answers a message. If a part pauses, the decisions start the next part. Each
part is a job, and its end is recorded as a second job with the same key. The store accepts this second job only once.
Therefore, a part that is cancelled in one process while another process answers it has only one outcome.

A redaction of a message also replaces equal strings in job payloads. It does not change job keys or the names of JSON
members. Therefore, the id of a run is read from the keys of its jobs, and strings in payloads are stored as names of
members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, cast, final

from chat_store import HistoryPosition, Job, StoredJob

from chat_service.settings import ServiceSettings

RUN_JOB: Final = "chat_service.run"
"""Kind of the jobs that are parts of runs."""
END_JOB: Final = "chat_service.end"
"""Kind of the jobs that record the end of a part. A worker that takes such a job does nothing."""

RunState: TypeAlias = Literal["queued", "running", "paused", "answered", "failed", "cancelled"]
EndState: TypeAlias = Literal["paused", "answered", "failed", "cancelled"]


@final
@dataclass(frozen=True, slots=True)
class RunEnd:
    """The outcome of a part of a run.

    Attributes:
        state: final state of the part.
        entry: number of the last entry of the session's history at the end.
        code: code of the failure, if it failed.
        truncated: whether the part ended because of the limit on rounds of tool calls.
        input_tokens: input tokens of the part.
        output_tokens: output tokens of the part.
        log: name of the history that contains the entry. A redaction starts a new history.
    """

    state: EndState
    entry: int
    code: str | None = None
    truncated: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    log: str = ""

    def to_payload(self) -> dict[str, object]:
        """Return this outcome as a job payload."""
        return {name: _encode_value(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def from_payload(cls, payload: Mapping[str, object]) -> RunEnd:
        """Parse an outcome from a job payload.

        Args:
            payload: payload that `to_payload()` created.
        """
        fields = {name: _decode_value(payload[name]) for name in cls.__slots__ if name in payload}
        return cls(**cast("dict[str, Any]", fields))


@final
@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run.

    Attributes:
        job: the job of the part.
        end: end of the part, or `None` if the part has not ended.
    """

    job: StoredJob
    end: RunEnd | None

    @property
    def state(self) -> RunState:
        """State of the part."""
        if self.end is not None:
            return self.end.state
        # A job that is done has an end, unless its session was closed.
        return "failed" if self.job.state == "done" else self.job.state


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A request to a session, and its outcome.

    Attributes:
        id: id of the run, which contains the id of its session.
        session_id: id of the session.
        created_at: time of the request.
        body_hash: hash of the body of the request.
        parts: the parts, oldest first.
        after: a position in the session's history before the message, or `None` for the beginning of the history.
        trace: headers of the trace of the request.
    """

    id: str
    session_id: str
    created_at: datetime
    body_hash: str
    parts: tuple[RunPart, ...]
    after: HistoryPosition | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def state(self) -> RunState:
        """State of the last part. A `failed` or `cancelled` run continues only if it is retried."""
        return self.parts[-1].state

    @property
    def is_active(self) -> bool:
        """Whether the run is queued or running."""
        return self.state in {"queued", "running"}

    @property
    def code(self) -> str | None:
        """Code of the failure, or `None`."""
        last = self.parts[-1]
        if last.end is None:
            return "worker_lost" if last.state == "failed" else None
        return last.end.code

    def to_dict(self) -> dict[str, object]:
        """Return the run as a JSON object for clients."""
        return {
            "id": self.id,
            "session_id": self.session_id,
            "state": self.state,
            "attempts": sum([part.job.attempts for part in self.parts]),
            "code": self.code,
            "created_at": self.created_at.isoformat(),
        }

    def next_part(self, settings: ServiceSettings) -> Job:
        """Return the job of the next part. Its key is the same in every process, so the part is queued only once.

        Args:
            settings: limits and times of the service.
        """
        first = self.parts[0].job
        attempts, seconds = settings.max_attempts, settings.retry_seconds
        key = part_key(self.id, len(self.parts))
        return Job(RUN_JOB, key, first.payload, max_attempts=attempts, backoff_seconds=seconds)


def new_run_id(session_id: str, name: str) -> str:
    """Create the id of a run.

    Args:
        session_id: id of the session.
        name: name of the run, unique in the session.
    """
    return f"{session_id}.{name}"


def session_of(run_id: str) -> str:
    """Return the id of the session to which a run belongs.

    Args:
        run_id: id of the run.
    """
    return run_id.partition(".")[0]


def part_key(run_id: str, number: int) -> str:
    """Return the job key of a part.

    Args:
        run_id: id of the run.
        number: number of the part, from 0.
    """
    return f"{run_id}@{number}"


def part_number(key: str) -> int:
    """Return the number of a part, from 0.

    Args:
        key: job key of the part.
    """
    return int(key.rpartition("@")[2])


def run_of_part(key: str) -> str:
    """Return the id of the run to which a part belongs.

    Args:
        key: job key of the part.
    """
    return key.rpartition("@")[0]


def first_part(
    run_id: str,
    created_at: datetime,
    body_hash: str,
    after: HistoryPosition | None,
    settings: ServiceSettings,
    *,
    trace: Mapping[str, str] | None = None,
) -> Job:
    """Create the job for the first part of a run.

    Args:
        run_id: id of the run.
        created_at: time of the request.
        body_hash: hash of the body of the request.
        after: a position in the session's history before the message, or `None` for the beginning of the history.
        settings: limits and times of the service.
        trace: headers of the trace of the request. Default: no trace.
    """
    payload: dict[str, object] = {
        "created_at": _encode_value(created_at.isoformat()),
        "body_hash": _encode_value(body_hash),
    }
    if after is not None:
        payload |= {"log": _encode_value(after.log), "entry": after.number}
    if trace:
        payload["trace"] = {name: _encode_value(value) for name, value in trace.items()}
    attempts, seconds = settings.max_attempts, settings.retry_seconds
    return Job(RUN_JOB, part_key(run_id, 0), payload, max_attempts=attempts, backoff_seconds=seconds)


def end_job(part: StoredJob, end: RunEnd) -> Job:
    """Return the job that records the end of a part.

    Args:
        part: the job of the part.
        end: the end.
    """
    return Job(END_JOB, part.key, end.to_payload())


def read_runs(jobs: Iterable[StoredJob]) -> list[Run]:
    """Return the runs of a session, reconstructed from its jobs, oldest first.

    Args:
        jobs: all jobs of the session.
    """
    parts: dict[str, list[StoredJob]] = {}
    ends: dict[str, RunEnd] = {}
    for job in jobs:
        if job.kind == RUN_JOB:
            parts.setdefault(run_of_part(job.key), []).append(job)
        elif job.kind == END_JOB:
            ends[job.key] = RunEnd.from_payload(job.payload)
    runs = [_read_run(run_id, found, ends) for run_id, found in parts.items()]
    return sorted(runs, key=lambda run: run.created_at)


def jobs_of(runs: Iterable[Run]) -> list[StoredJob]:
    """Return the jobs of all parts of runs.

    Args:
        runs: the runs.
    """
    return [part.job for run in runs for part in run.parts]


def _read_run(run_id: str, jobs: list[StoredJob], ends: Mapping[str, RunEnd]) -> Run:
    jobs.sort(key=lambda job: part_number(job.key))
    payload = jobs[0].payload
    trace = cast("Mapping[str, object]", payload.get("trace", {}))
    return Run(
        run_id,
        session_of(run_id),
        datetime.fromisoformat(str(_decode_value(payload["created_at"]))),
        str(_decode_value(payload["body_hash"])),
        tuple([RunPart(job, ends.get(job.key)) for job in jobs]),
        HistoryPosition(str(_decode_value(payload["log"])), int(str(payload["entry"]))) if "log" in payload else None,
        {name: str(_decode_value(value)) for name, value in trace.items()},
    )


def _encode_value(value: object) -> object:
    """Encode a payload value so that a redaction does not change it. A string becomes the name of an object member."""
    return {value: True} if isinstance(value, str) else value


def _decode_value(value: object) -> object:
    """Decode a payload value that `_encode_value()` encoded."""
    return next(iter(cast("Mapping[str, object]", value))) if isinstance(value, Mapping) else value
