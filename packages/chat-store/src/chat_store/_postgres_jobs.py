"""The queries that store, find and list jobs in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import final

from chat_store._checksums import job_from_columns, job_to_columns
from chat_store._cursor import job_parameters, list_cursor
from chat_store._job_rules import JobFilter, observed
from chat_store.jobs import StoredJob
from chat_store.sql.pool import Connection
from chat_store.sql.values import to_microseconds

_INSERT = (
    "INSERT INTO chat_jobs (conversation, kind, name, state, moment, until, job, crc) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (kind, name) DO NOTHING"
)
_UPDATE = "UPDATE chat_jobs SET state = %s, moment = %s, until = %s, job = %s, crc = %s WHERE kind = %s AND name = %s"
_FIND = (
    "SELECT kind, name, state, moment, until, job, crc FROM chat_jobs WHERE kind = %s AND name = %s FOR NO KEY UPDATE"
)
_LOCK_ALL = "SELECT kind, name FROM chat_jobs WHERE conversation = %s ORDER BY kind, name FOR UPDATE"
_NAMES = "SELECT kind, name FROM chat_jobs WHERE conversation = %s"
_FIND_DUE = (
    "SELECT kind, name, state, moment, until, job, crc FROM chat_jobs WHERE state = 'queued' "
    "AND greatest(moment, until) <= %s AND kind = ANY(%s) ORDER BY moment, key LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED"
)
_LIST = (
    "SELECT moment, key, kind, name, state, moment, until, job, crc FROM chat_jobs "
    "WHERE (%(kind)s::text IS NULL OR kind = %(kind)s) AND (%(conversation)s::text IS NULL "
    "OR conversation = (SELECT key FROM chat_conversations WHERE id = %(conversation)s)) "
    "AND (%(state)s::text IS NULL OR %(state)s = CASE WHEN state IN ('queued', 'last') AND until > %(now)s "
    "THEN 'running' WHEN state = 'last' THEN 'failed' ELSE state END) AND starts_with(name, %(prefix)s) "
    "AND (%(key)s::bigint IS NULL OR (moment, key) > (%(moment)s::bigint, %(key)s::bigint)) "
    "ORDER BY moment, key LIMIT %(limit)s"
)


@final
class PostgresJobs:
    """A `JobTransaction` on a PostgreSQL connection that is in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, conversation: int | None, jobs: Sequence[StoredJob]) -> None:
        """Insert jobs, except jobs whose kind and key are stored already.

        Args:
            conversation: the primary key of the conversation's row.
            jobs: the jobs to insert.
        """
        for job in jobs:
            self._connection.execute(_INSERT, (conversation, *job_to_columns(job)))

    def list_names(self, conversation: int | None) -> list[tuple[str, str]]:
        """Return the kinds and keys of the jobs of a conversation.

        Args:
            conversation: the primary key of the conversation's row.
        """
        return self._connection.execute(_NAMES, (conversation,)).fetchall()

    def lock_all(self, conversation: int | None) -> list[tuple[str, str]]:
        """Lock the jobs of a conversation, and return their kinds and keys.

        All transactions that lock several jobs lock them in this order, so that they cause no deadlock.

        Args:
            conversation: the primary key of the conversation's row.
        """
        return self._connection.execute(_LOCK_ALL, (conversation,)).fetchall()

    def rewrite(self, conversation: int | None, clean: Callable[[StoredJob], StoredJob]) -> None:
        """Replace the jobs of a conversation.

        Args:
            conversation: the primary key of the conversation's row.
            clean: returns the new form of a job.
        """
        for kind, key in self.lock_all(conversation):
            job = self.find(kind, key)
            if job is not None:
                self.write(clean(job))

    def find(self, kind: str, key: str) -> StoredJob | None:
        """Implement `JobTransaction.find()`."""
        row = self._connection.execute(_FIND, (kind, key)).fetchone()
        return None if row is None else job_from_columns(row)

    def find_due(self, kinds: Sequence[str], now: datetime) -> StoredJob | None:
        """Implement `JobTransaction.find_due()`."""
        row = self._connection.execute(_FIND_DUE, (to_microseconds(now), list(kinds))).fetchone()
        return None if row is None else job_from_columns(row)

    def write(self, job: StoredJob) -> None:
        """Implement `JobTransaction.write()`."""
        kind, name, *columns = job_to_columns(job)
        self._connection.execute(_UPDATE, (*columns, kind, name))

    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        """Implement `Backend.list_jobs()`."""
        rows = self._connection.execute(_LIST, job_parameters(filters, now)).fetchall()
        return [observed(job_from_columns(row), now, list_cursor(moment, key)) for moment, key, *row in rows]
