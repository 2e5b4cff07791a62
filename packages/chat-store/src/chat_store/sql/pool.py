"""Connections to PostgreSQL: kept, replaced when they have died, and never waited for longer than was said."""

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

_BETWEEN = 0.05
"""Seconds between two attempts to reach a server that has gone away."""
_FRESH = 5.0
_PROMPT = 0.1
LONGEST_TRANSACTION = 60
"""Seconds after which the server ends a transaction of a process that stands still: others wait for its locks."""
_BUSY = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.QueryCanceled,
)


@final
class ServerClock:
    """The clock of the server, by which all processes compare their leases, whatever the clocks of their machines say.

    It is read with the row that a write begins with, and goes on from there by the time that has passed here. An answer
    takes a moment to come: this clock is behind by that, and never ahead.
    """

    def __init__(self) -> None:
        # One value, as several threads read and set it: a time goes with the moment at which it was read.
        self._said: tuple[datetime, float] | None = None

    def now(self) -> datetime | None:
        """The time; `None` where it was not read for so long that this machine may have slept since."""
        if (told := self._said) is None:
            return None
        said, read = told
        passed = time.monotonic() - read
        return None if passed > _FRESH else said + timedelta(seconds=passed)

    def set(self, said: datetime, asked: float) -> None:
        """What the server has said since it was asked, by the monotonic clock. An answer that was late is old."""
        now = time.monotonic()
        if now - asked < _PROMPT or self.now() is None:
            self._said = said, now


@final
class Pool:
    """Connections to one server.

    A server that cannot be reached any more is waited for as long as for a lock: nothing was sent to it yet. One that
    never answered is not: its name or a password may be wrong.
    """

    def __init__(self, dsn: str, busy_seconds: float, most: int, prepare: Callable[[Connection], None]) -> None:
        self._address = address_of(dsn, busy_seconds)
        self._busy_seconds = busy_seconds
        self._most = most
        self._prepare = prepare
        self._pid = os.getpid()
        self._free = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False
        self._reached = False

    @contextmanager
    def connection(self, begin: Callable[[], bytes]) -> Generator[Connection]:
        """A connection that is alive, in a transaction that this begins. It is rolled back unless committed.

        Raises:
            TimeoutError: all connections are in use, or somebody keeps a lock.
            OSError: the server cannot be reached, or does not do what it is told.
            InvalidDocumentError: a table is damaged.
        """
        self._require_this_process()
        if not self._free.acquire(timeout=self._busy_seconds):
            msg = f"all {self._most} connections of the store have been in use for {self._busy_seconds:g} seconds"
            raise TimeoutError(msg)
        try:
            with self._translated():
                connection = self._begun(begin)
                try:
                    yield connection
                finally:
                    self._give_back(connection)
        finally:
            self._free.release()

    @contextmanager
    def own(self) -> Generator[Connection]:
        """One that is nobody else's, outside of transactions."""
        self._require_this_process()
        with self._translated():
            connection = self._connect()
            try:
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        """Close every connection; one in use, as soon as it is not."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begun(self, begin: Callable[[], bytes]) -> Connection:
        while True:
            connection = self._take()
            fresh = connection is None
            if connection is None:
                connection = self._connect()
            try:
                connection.execute(begin(), prepare=False)
            except BaseException as error:
                connection.close()
                # One that has died in the pool, as all did when the server was started again: the next one, then.
                if fresh or not isinstance(error, psycopg.OperationalError):
                    raise
            else:
                return connection

    def _take(self) -> Connection | None:
        with self._lock:
            if self._closed:
                msg = "the store is closed"
                raise UsageError(msg)
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Connection) -> None:
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
                time.sleep(_BETWEEN)
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
    def _translated(self) -> Generator[None]:
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


def address_of(dsn: str, busy_seconds: float) -> str:
    """What `psycopg.connect()` is told: the caller's, and bounds where the caller has none.

    Raises:
        UsageError: this is no address of a server.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # Neither the address nor what was said about it: there may be a password in them.
        msg = "PostgresStore() needs an address that libpq can read, as postgresql://user@host/database"
        raise UsageError(msg) from None
    if _misread(given):
        # A password of which a part was taken for the name of the server, which errors tell.
        msg = "PostgresStore() needs an address whose password is quoted, as by urllib.parse.quote(password, safe='')"
        raise UsageError(msg)
    bounds = {
        "application_name": "chat-store",
        "connect_timeout": str(max(2, round(busy_seconds))),
        # A server whose machine is gone answers nothing: those who wait for it are told, and do not wait for ever.
        "tcp_user_timeout": str(max(2000, round(busy_seconds * 1000))),
        "keepalives_idle": "30",
    }
    return make_conninfo("", **{**bounds, **given, "client_encoding": "UTF8"})


def _misread(given: Mapping[str, object]) -> bool:
    """Whether a server is named in a way that only the rest of a password is."""
    host, port = str(given.get("host") or ""), str(given.get("port") or "")
    # Sockets are named by their path, or begin so.
    return ("@" in host[1:] and not host.startswith("/")) or bool(port.strip("0123456789, "))
