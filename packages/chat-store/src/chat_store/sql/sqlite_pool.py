"""A connection pool for a SQLite file in WAL mode, which limits every wait and detects removed files."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

from chat_core.errors import InvalidDocumentError, UsageError

from chat_store.sql.sqlite_migrations import migrate

_MAX_IDLE = 8

_creating = threading.Lock()
"""Lock held while a thread of this process creates a file."""


def commit(connection: sqlite3.Connection) -> None:
    """Commit the transaction durably."""
    connection.execute("COMMIT")


@final
class SqlitePool:
    """A thread-safe pool of connections to one SQLite file.

    The first connection creates the file and upgrades its tables.

    The file is in WAL mode, and a commit is on disk before it returns. Only its owner can read a new file.

    Args:
        path: path of the file.
        busy_seconds: maximum number of seconds to wait for another writer before `TimeoutError` is raised.
        migrations: `migrations[n]` are the statements that upgrade version n of the tables to version n + 1.
        version_table: the table that contains the version. Each package that uses the file needs its own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        busy_seconds: float,
        migrations: Sequence[Sequence[str]],
        version_table: str = "chat_schema",
    ) -> None:
        self._path = Path(path).resolve()
        self._busy_seconds = busy_seconds
        self._migrations = migrations
        self._version_table = version_table
        self._pid = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        # Threads wait for this lock in order, instead of polling the lock of the database as processes do.
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._file: os.stat_result | None = None
        self._wal_path = self._path.with_name(f"{self._path.name}-wal")
        self._wal: os.stat_result | None = None

    @contextmanager
    def write(self, committer: Callable[[sqlite3.Connection], None] = commit) -> Generator[sqlite3.Connection]:
        """Return a context manager that provides a write transaction, rolled back if the block raises an error.

        Args:
            committer: commits the transaction.

        Raises:
            TimeoutError: another writer has locked the file.
            OSError: the file cannot be read or written.
            InvalidDocumentError: the file is damaged, or was removed or replaced.
            UsageError: the pool is closed, or was created before `os.fork()`.
        """
        if not self._writing.acquire(timeout=self._busy_seconds):
            raise self._busy_error()
        try:
            with self.connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    committer(connection)
                except BaseException:
                    # If this fails, the connection is closed, which rolls back, too.
                    with suppress(sqlite3.Error):
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                    raise
        finally:
            self._writing.release()

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """Return a context manager that provides a read transaction. Raises the same errors as `write()`."""
        with self.connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")

    def vacuum(self) -> None:
        """Rebuild the file without the data that was replaced or deleted, and empty its `-wal` file.

        Raises:
            TimeoutError: another process reads or writes the file.
        """
        with self.connection() as connection:
            connection.execute("VACUUM")
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise self._busy_error()

    def close(self) -> bool:
        """Close all connections, except in a forked child. A connection in use is closed when it is returned.

        Returns:
            Whether the pool belongs to this process. The connections of a parent process stay open, because SQLite must
            not be used across a fork.
        """
        if self._pid != os.getpid():
            return False
        with self._opening:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
        return True

    @contextmanager
    def connection(self) -> Generator[sqlite3.Connection]:
        """Return a context manager that provides an autocommit connection. Raises the same errors as `write()`."""
        if self._pid != os.getpid():
            msg = "the store was created before os.fork(): create another store in the child process"
            raise UsageError(msg)
        with self._translate_errors():
            connection = self._take_connection()
            try:
                yield connection
            finally:
                self._return_connection(connection)

    def _take_connection(self) -> sqlite3.Connection:
        with self._opening:
            if self._closed:
                msg = f"the store in {self._path} is closed"
                raise UsageError(msg)
            self._require_same_file()
            if self._idle:
                return self._idle.pop()
            if self._file is None:
                self._prepare_files()
            connection = sqlite3.connect(
                self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare_connection(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _prepare_files(self) -> None:
        """Create a missing file, readable by its owner alone. SQLite gives its permissions to `-wal` and `-shm`."""
        self._require_wal_beside_index()
        # Closing a descriptor of a database releases all locks of this process on it, so no other thread may open it.
        # If the file cannot be created, SQLite raises the error.
        with _creating, suppress(OSError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def _require_wal_beside_index(self) -> None:
        """Raise an error if the `-wal` file was removed after a crash, so that committed transactions are lost.

        SQLite creates `-wal` before `-shm`, and removes it after `-shm`. If both were removed, this cannot be detected.
        """
        index = self._path.with_name(f"{self._path.name}-shm")
        before = _stat_or_none(index)
        if before is None or _stat_or_none(self._wal_path) is not None:
            return
        after = _stat_or_none(index)
        if after is not None and os.path.samestat(before, after):
            msg = f"{self._wal_path} was removed, and with it the latest transactions: restore this file or a backup"
            raise InvalidDocumentError(msg)

    def _require_same_file(self) -> None:
        """Raise an error if a database file was removed or replaced, because SQLite would write to the removed file."""
        for path, opened in ((self._path, self._file), (self._wal_path, self._wal)):
            if opened is None:
                continue
            current = _stat_or_none(path)
            if current is None or not os.path.samestat(opened, current):
                msg = f"{path} was removed or replaced while it was open: create another store"
                raise InvalidDocumentError(msg)

    def _return_connection(self, connection: sqlite3.Connection) -> None:
        with self._opening:
            if connection.in_transaction:
                # The rollback failed. If this is the last connection, closing it removes the `-wal` file.
                connection.close()
                self._wal = _stat_or_none(self._wal_path)
            elif self._closed or len(self._idle) >= _MAX_IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    def _prepare_connection(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        # On macOS, fsync() does not flush the cache of the drive. The setting has no effect on other systems.
        connection.execute("PRAGMA fullfsync = ON")
        if self._file is None:
            self._use_wal(connection)
            migrate(connection, self._migrations, self._version_table)
            self._file = self._path.stat()
        # As long as this process has a connection, no other process removes the `-wal` file.
        self._wal = self._wal or _stat_or_none(self._wal_path)

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Switch the database to WAL mode. Retry while it is busy, because SQLite does not wait in this case."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.005)
                continue
            if mode != "wal":
                msg = f"{self._path} does not support WAL mode: SQLite uses the journal mode {mode!r} there"
                raise OSError(msg)
            return

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if _is_busy(error):
                raise self._busy_error() from error
            if _primary_error_code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                msg = f"{self._path} is damaged or is not a database of SQLite: {error}"
                raise InvalidDocumentError(msg) from error
            msg = f"{self._path} cannot be read or written: {error}"
            raise OSError(msg) from error

    def _busy_error(self) -> TimeoutError:
        msg = (
            f"{self._path} has been locked by another writer for {self._busy_seconds:g} seconds: "
            f"check whether its process is stopped"
        )
        return TimeoutError(msg)


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _primary_error_code(error: sqlite3.Error) -> int:
    # The lower byte of an extended error code is the primary error code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _primary_error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
