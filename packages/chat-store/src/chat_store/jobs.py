"""Durable jobs: work that is queued in the same transaction as a change to a conversation.

    async with store.take_job("index") as job:
        if job is not None:
            await index(job.conversation, job.payload)

A job is done when the block ends without an error. If the block raises, the job is tried again later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, cast, final

from chat_core.clock import to_utc

from chat_store._arguments import require_seconds, require_whole, type_error

JobState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
"""The states of a job. A `queued` job waits for its start time, for a worker, or for its next attempt."""

MAX_BACKOFF = timedelta(hours=1)
"""The longest time between two attempts."""
MAX_ERROR_CHARACTERS = 2000
"""Maximum number of characters of an error that is stored with a job."""


@final
@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work to queue together with a change to a conversation.

    Attributes:
        kind: the kind of the job. A worker takes jobs of the kinds that it can do.
        key: the name of the job within its kind. A job whose kind and key are stored already is not queued again.
        payload: the input of the job: a JSON object.
        at: time at which the job may start. Default: now.
        max_attempts: maximum number of attempts. An attempt whose worker died counts.
        backoff_seconds: the time between the first two attempts. It doubles with each attempt, up to `MAX_BACKOFF`.
    """

    kind: str
    key: str
    payload: Mapping[str, object] = field(default_factory=dict[str, object])
    at: datetime | None = None
    max_attempts: int = 5
    backoff_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("kind", "key"):
            if not isinstance(getattr(self, name), str):
                raise type_error(name, "a string", getattr(self, name))
        if not isinstance(cast("object", self.payload), Mapping):
            raise type_error("payload", "a dict that is a JSON object", self.payload)
        require_whole("max_attempts", self.max_attempts, least=1)
        require_seconds("backoff_seconds", self.backoff_seconds)
        if self.at is not None:
            to_utc(self.at, "at")


@final
@dataclass(frozen=True, slots=True)
class StoredJob:
    """A stored job with its state, attempts and lease.

    Attributes:
        conversation: the id of the conversation that the job was queued with.
        kind: the kind of the job. A worker takes jobs of the kinds that it can do.
        key: the name of the job within its kind.
        payload: the input of the job.
        at: time at which the job may start, or start again.
        state: `queued`, `running`, or one of the final states `done`, `failed` and `cancelled`.
        attempts: the number of attempts so far, including the current attempt.
        max_attempts: maximum number of attempts.
        backoff_seconds: the time between the first two attempts.
        error: the error of the last attempt that failed, if any.
        fence: number of times that the job was taken or cancelled. A worker with an earlier fence can no longer change
            the job.
        holder: host name and process id of the last worker.
        lease_until: time at which the worker's lease expires, None if no worker has the job.
        cursor: the position in the list, for `jobs(after=...)`.
    """

    conversation: str
    kind: str
    key: str
    payload: Mapping[str, object]
    at: datetime
    state: JobState = "queued"
    attempts: int = 0
    max_attempts: int = 5
    backoff_seconds: float = 10.0
    error: str | None = None
    fence: int = 0
    holder: str = ""
    lease_until: datetime | None = None
    cursor: str = field(default="", compare=False, repr=False)
