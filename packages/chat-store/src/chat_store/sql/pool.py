"""A pool of connections to PostgreSQL, which replaces broken ones and bounds every wait."""

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

Connection: TypeAlias = "psycopg.Connection[TupleRow]"

_RETRY_SECONDS = 0.05
"""The time between two attempts to reach a server that has gone away."""
_MAX_AGE = 5.0
"""Seconds for which a reading of the server's clock is used."""
_MAX_DELAY = 0.1
"""Seconds within which a response is precise enough to replace an earlier reading of the server's clock."""
MAX_IDLE_TRANSACTION = 60
"""Seconds after which the server ends the transaction of a stalled process, since others wait for its locks."""
_BUSY = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.QueryCanceled,
)


@final
class ServerClock:
    """The clock of the server, by which all processes compare their leases, whatever the clocks of their machines show.

    It is read together with the row that a write begins with, and extrapolated by the time that has passed here since.
    It is behind the server by the latency of the response, and never ahead.
    """

    def __init__(self) -> None:
        # One tuple, because several threads read and set it: a time and the local moment at which it was read.
        self._reading: tuple[datetime, float] | None = None

    def now(self) -> datetime | None:
        """Return the time, or None if the last reading is so old that this machine may have slept since."""
        if (reading := self._reading) is None:
            return None
        server_time, read_at = reading
        passed = time.monotonic() - read_at
        return None if passed > _MAX_AGE else server_time + timedelta(seconds=passed)

    def set(self, server_time: datetime, requested_at: float) -> None:
        """Use a time that the server returned. A late response is used only if there is no better reading.

        Args:
            server_time: the time in the response.
            requested_at: when the request was sent, by the local monotonic clock.
        """
        now = time.monotonic()
        if now - requested_at < _MAX_DELAY or self.now() is None:
            self._reading = server_time, now


@final
class Pool:
    """Connections to one server, safe to use from any thread.

    A server that was reached before and cannot be reached now is retried for as long as a lock is waited for. A server
    that was never reached is not retried: its name or a password may be wrong.

    Args:
        dsn: the address, as libpq reads it.
        busy_seconds: how long to wait for a connection or for the server.
        max_connections: how many connections there are at most, without dedicated ones.
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
        """Lend a connection in a transaction, which is rolled back unless the block commits it.

        Args:
            begin: returns the statement that begins the transaction.

        Raises:
            TimeoutError: all connections are in use, or somebody keeps a lock.
            OSError: the server cannot be reached, or does not do what it is told.
            InvalidDocumentError: a table is damaged.
        """
        self._require_this_process()
        if not self._free.acquire(timeout=self._busy_seconds):
            waited = f"{self._busy_seconds:g} seconds"
            msg = f"all {self._max_connections} connections of the store have been in use for {waited}"
            raise TimeoutError(msg)
        try:
            with self._translate_errors():
                connection = self._begin(begin)
                try:
                    yield connection
                finally:
                    self._return(connection)
        finally:
            self._free.release()

    @contextmanager
    def dedicated_connection(self) -> Generator[Connection]:
        """Open a further connection for the block, outside of transactions."""
        self._require_this_process()
        with self._translate_errors():
            connection = self._connect()
            try:
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        """Close every connection. One in use is closed when it is returned."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begin(self, begin: Callable[[], bytes]) -> Connection:
        while True:
            connection = self._take_idle()
            fresh = connection is None
            if connection is None:
                connection = self._connect()
            try:
                connection.execute(begin(), prepare=False)
            except BaseException as error:
                connection.close()
                # An idle connection may have died, as all do when the server restarts: try the next one.
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

    def _return(self, connection: Connection) -> None:
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

    def _connect(self) -> Connection:
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
            msg = "the store was made before this process was forked; make one here"
            raise UsageError(msg)

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except _BUSY as error:
            msg = f"somebody else has been writing to PostgreSQL for {self._busy_seconds:g} seconds; is it stopped?"
            raise TimeoutError(msg) from error
        except errors.ProgramLimitExceeded as error:
            msg = f"an id, or the name of a person, is too long for an index of PostgreSQL: {error}"
            raise UsageError(msg) from error
        except (errors.DataCorrupted, errors.IndexCorrupted, errors.UndefinedTable, errors.UndefinedColumn) as error:
            msg = f"the tables of the store are damaged, or gone: {error}"
            raise InvalidDocumentError(msg) from error
        except psycopg.Error as error:
            msg = f"PostgreSQL cannot be reached, or does not do what it is told: {error}"
            raise OSError(msg) from error


def bounded_dsn(dsn: str, busy_seconds: float) -> str:
    """Return an address with timeouts for those that the caller did not set.

    Raises:
        UsageError: libpq cannot read the address, or takes a part of the password for the name of the server.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # Without the address and the original error: both may contain a password.
        msg = "PostgresStore() needs an address that libpq can read, as postgresql://user@host/database"
        raise UsageError(msg) from None
    if _has_unquoted_password(given):
        # Errors would show the part of the password that was taken for the name of the server.
        msg = "PostgresStore() needs an address whose password is quoted, as by urllib.parse.quote(password, safe='')"
        raise UsageError(msg)
    bounds = {
        "application_name": "chat-store",
        "connect_timeout": str(max(2, round(busy_seconds))),
        # Without it, a request to a machine that is gone would wait forever.
        "tcp_user_timeout": str(max(2000, round(busy_seconds * 1000))),
        "keepalives_idle": "30",
    }
    return make_conninfo("", **{**bounds, **given, "client_encoding": "UTF8"})


def _has_unquoted_password(given: Mapping[str, object]) -> bool:
    """Whether the host or port looks like the rest of a password."""
    host, port = str(given.get("host") or ""), str(given.get("port") or "")
    # A path names a socket, and "@" an abstract one.
    return ("@" in host[1:] and not host.startswith("/")) or bool(port.strip("0123456789, "))
