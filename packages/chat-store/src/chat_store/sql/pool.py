"""A connection pool for PostgreSQL that replaces broken connections and limits every wait."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeAlias, final

import psycopg
from chat_core.errors import InvalidDocumentError, UsageError
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

Connection: TypeAlias = psycopg.Connection[TupleRow]

_RETRY_SECONDS = 0.05
"""Seconds between attempts to reach an unavailable server."""
_MAX_AGE = 5.0
"""The time in seconds for which a reading of the server's clock is valid."""
_MAX_DELAY = 0.1
"""Maximum response time in seconds of a clock reading. A slower reading does not replace an earlier one."""
MAX_IDLE_TRANSACTION = 60
"""Seconds after which the server aborts the transaction of a stalled process, because others wait for its locks."""
_BUSY = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.QueryCanceled,
)


@final
class ServerClock:
    """The clock of the server, used to compare leases so that the clocks of the client machines need not agree.

    Each write reads the clock together with the row of the conversation. `now()` adds the local time elapsed since
    then. The result is behind the server by the latency of the response, never ahead.
    """

    def __init__(self) -> None:
        # One tuple, because several threads read and set it: a time and the local moment at which it was read.
        self._reading: tuple[datetime, float] | None = None

    def now(self) -> datetime | None:
        """Return the current time of the server, or None if the last reading is too old."""
        if (reading := self._reading) is None:
            return None
        server_time, read_at = reading
        elapsed = time.monotonic() - read_at
        return None if elapsed > _MAX_AGE else server_time + timedelta(seconds=elapsed)

    def set(self, server_time: datetime, requested_at: float) -> None:
        """Store a time returned by the server. A slow response is stored only if there is no valid reading.

        Args:
            server_time: the time in the response.
            requested_at: time at which the request was sent, as a value of `time.monotonic()`.
        """
        now = time.monotonic()
        if now - requested_at < _MAX_DELAY or self.now() is None:
            self._reading = server_time, now


@final
class Pool:
    """Connections to one server, safe to use from any thread.

    If a server that was reached before becomes unavailable, connecting is retried for `busy_seconds`. A server that was
    never reached is not retried, because its address or the password may be wrong.

    Args:
        dsn: the address, as a libpq connection string.
        busy_seconds: maximum number of seconds to wait for a free connection or for an unavailable server.
        max_connections: the maximum number of connections, excluding dedicated connections.
        prepare: called with each new connection.
    """

    def __init__(
        self, dsn: str, busy_seconds: float, max_connections: int, prepare: Callable[[Connection], None]
    ) -> None:
        self._address = bounded_dsn(dsn, busy_seconds)
        self._busy_seconds = busy_seconds
        self._max_connections = max_connections
        self._prepare = prepare
        self._pid = os.getpid()
        self._free = threading.Semaphore(max_connections)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False
        self._reached = False

    @contextmanager
    def connection(self, begin: Callable[[], bytes]) -> Generator[Connection]:
        """Return a context manager that provides a connection in a transaction, rolled back unless the block commits.

        Args:
            begin: returns the statement that begins the transaction. Called for each attempt.

        Raises:
            TimeoutError: all connections are in use, or another transaction holds a lock.
            OSError: the server cannot be reached, or a statement failed.
            InvalidDocumentError: a table is missing or damaged.
            UsageError: the pool is closed, or was created before `os.fork()`.
        """
        self._require_this_process()
        if not self._free.acquire(timeout=self._busy_seconds):
            limit = self._max_connections
            msg = f"all {limit} connections of the store were in use for {self._busy_seconds:g} s: raise `connections`"
            raise TimeoutError(msg)
        try:
            with self._translate_errors():
                connection = self._begin_transaction(begin)
                try:
                    yield connection
                finally:
                    self._return_connection(connection)
        finally:
            self._free.release()

    @contextmanager
    def dedicated_connection(self) -> Generator[Connection]:
        """Return a context manager for an additional connection in autocommit mode, which is closed on exit."""
        self._require_this_process()
        with self._translate_errors():
            connection = self._open_connection()
            try:
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        """Close all connections. A connection in use is closed when it is returned."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begin_transaction(self, begin: Callable[[], bytes]) -> Connection:
        while True:
            connection = self._take_idle()
            fresh = connection is None
            if connection is None:
                connection = self._open_connection()
            try:
                connection.execute(begin(), prepare=False)
            except BaseException as error:
                connection.close()
                # Idle connections break when the server restarts: try the next connection.
                if fresh or not isinstance(error, psycopg.OperationalError):
                    raise
            else:
                return connection

    def _take_idle(self) -> Connection | None:
        with self._lock:
            if self._closed:
                msg = "the store is closed"
                raise UsageError(msg)
            return self._idle.pop() if self._idle else None

    def _return_connection(self, connection: Connection) -> None:
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            try:
                connection.execute("ROLLBACK")
            except psycopg.Error:
                connection.close()
        with self._lock:
            if not self._closed and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()

    def _open_connection(self) -> Connection:
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                connection = psycopg.connect(self._address, autocommit=True)
            except psycopg.OperationalError:
                if not self._reached or time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
                continue
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._reached = True
            return connection

    def _require_this_process(self) -> None:
        if self._pid != os.getpid():
            msg = "the store was created before os.fork(): create another store in the child process"
            raise UsageError(msg)

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except _BUSY as error:
            msg = (
                f"another transaction has locked the conversation in PostgreSQL for {self._busy_seconds:g} seconds: "
                f"check whether its process is stopped"
            )
            raise TimeoutError(msg) from error
        except errors.ProgramLimitExceeded as error:
            msg = f"an id or a person is too long for an index of PostgreSQL: {error}"
            raise UsageError(msg) from error
        except (errors.DataCorrupted, errors.IndexCorrupted, errors.UndefinedTable, errors.UndefinedColumn) as error:
            msg = f"a table of the store is missing or has the wrong columns: restore a backup ({error})"
            raise InvalidDocumentError(msg) from error
        except psycopg.Error as error:
            msg = f"PostgreSQL cannot be reached, or a statement failed: {error}"
            raise OSError(msg) from error


def bounded_dsn(dsn: str, busy_seconds: float) -> str:
    """Return a connection string with default timeouts added. Timeouts in the original string take precedence.

    Args:
        dsn: the address, as a libpq connection string.
        busy_seconds: the value from which the timeouts are derived.

    Raises:
        UsageError: the connection string is invalid, or contains a password that is not percent-encoded.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # The message excludes the address and the original error, because both may contain a password.
        msg = "PostgresStore() needs an address that libpq can read, such as postgresql://user@host/database"
        raise UsageError(msg) from None
    if _has_unquoted_password(given):
        # Later errors would show the part of the password that libpq takes for the host name.
        msg = "the password in the address must be percent-encoded, as by urllib.parse.quote(password, safe='')"
        raise UsageError(msg)
    bounds = {
        "application_name": "chat-store",
        "connect_timeout": str(max(2, round(busy_seconds))),
        # Without this setting, a request to an unreachable machine would wait forever.
        "tcp_user_timeout": str(max(2000, round(busy_seconds * 1000))),
        "keepalives_idle": "30",
    }
    return make_conninfo("", **{**bounds, **given, "client_encoding": "UTF8"})


def _has_unquoted_password(given: Mapping[str, object]) -> bool:
    """Return whether the host or the port looks like part of a password that is not percent-encoded."""
    host, port = str(given.get("host") or ""), str(given.get("port") or "")
    # A host that begins with "/" is a socket path. A host that begins with "@" is an abstract socket.
    return ("@" in host[1:] and not host.startswith("/")) or bool(port.strip("0123456789, "))
