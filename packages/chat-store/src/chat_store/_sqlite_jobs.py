"""The queries that store, find and list jobs in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import final

from chat_store._checksums import job_from_columns, job_to_columns
from chat_store._cursor import job_parameters, list_cursor
from chat_store._job_rules import JobFilter, observed
from chat_store.jobs import StoredJob
from chat_store.sql.values import to_microseconds

JOB_MOMENT = "max(moment, ifnull(until, moment))"
"""The indexed SQL expression for the time from which a queued job can be taken."""
_COLUMNS = "kind, name, state, moment, until, job, crc"
_INSERT = (
    f"INSERT INTO chat_jobs (conversation, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608 - our own names
    "ON CONFLICT (kind, name) DO NOTHING"
)
_UPDATE = "UPDATE chat_jobs SET state = ?, moment = ?, until = ?, job = ?, crc = ? WHERE kind = ? AND name = ?"
_FIND = f"SELECT {_COLUMNS} FROM chat_jobs WHERE kind = ? AND name = ?"  # noqa: S608 - our own names
_NAMES = "SELECT kind, name FROM chat_jobs WHERE conversation = ?"
_LIST = (
    f"SELECT moment, key, {_COLUMNS} FROM chat_jobs WHERE (:kind IS NULL OR kind = :kind) "  # noqa: S608 - our own names
    "AND (:conversation IS NULL OR conversation = (SELECT key FROM chat_conversations WHERE id = :conversation)) "
    "AND (:state IS NULL OR :state = CASE WHEN state IN ('queued', 'last') AND until > :now THEN 'running' "
    "WHEN state = 'last' THEN 'failed' ELSE state END) "
    "AND substr(name, 1, length(:prefix)) = :prefix "
    "AND (:key IS NULL OR (moment, key) > (:moment, :key)) ORDER BY moment, key LIMIT ifnull(:limit, -1)"
)


@final
class SqliteJobs:
    """A `JobTransaction` on a SQLite connection that is in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, conversation: int | None, jobs: Sequence[StoredJob]) -> None:
        """Insert jobs, except jobs whose kind and key are stored already.

        Args:
            conversation: the primary key of the conversation's row.
            jobs: the jobs to insert.
        """
        self._connection.executemany(_INSERT, [(conversation, *job_to_columns(job)) for job in jobs])

    def list_names(self, conversation: int | None) -> list[tuple[str, str]]:
        """Return the kinds and keys of the jobs of a conversation.

        Args:
            conversation: the primary key of the conversation's row.
        """
        return self._connection.execute(_NAMES, (conversation,)).fetchall()

    def rewrite(self, conversation: int | None, clean: Callable[[StoredJob], StoredJob]) -> None:
        """Replace the jobs of a conversation.

        Args:
            conversation: the primary key of the conversation's row.
            clean: returns the new form of a job.
        """
        names = "SELECT kind, name FROM chat_jobs WHERE conversation = ?"
        for kind, key in self._connection.execute(names, (conversation,)).fetchall():
            job = self.find(kind, key)
            if job is not None:
                self.write(clean(job))

    def find(self, kind: str, key: str) -> StoredJob | None:
        """Implement `JobTransaction.find()`."""
        row = self._connection.execute(_FIND, (kind, key)).fetchone()
        return None if row is None else job_from_columns(row)

    def find_due(self, kinds: Sequence[str], now: datetime) -> StoredJob | None:
        """Implement `JobTransaction.find_due()`."""
        query = (
            f"SELECT {_COLUMNS} FROM chat_jobs WHERE state = 'queued' "  # noqa: S608 - our own names
            f"AND {JOB_MOMENT} <= ? AND kind IN (?{', ?' * (len(kinds) - 1)}) "
            "ORDER BY moment, key LIMIT 1"
        )
        row = self._connection.execute(query, (to_microseconds(now), *kinds)).fetchone()
        return None if row is None else job_from_columns(row)

    def write(self, job: StoredJob) -> None:
        """Implement `JobTransaction.write()`."""
        kind, name, *columns = job_to_columns(job)
        self._connection.execute(_UPDATE, (*columns, kind, name))

    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        """Implement `Backend.list_jobs()`."""
        rows = self._connection.execute(_LIST, job_parameters(filters, now)).fetchall()
        return [observed(job_from_columns(row), now, list_cursor(moment, key)) for moment, key, *row in rows]
