"""`SqlitePool`: a pool of connections for tables of any package. `test_sqlite.py` tests its files and locks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from chat_core.errors import NewerVersionError
from chat_store.sql.sqlite_pool import SqlitePool

NOTES = (("CREATE TABLE notes (text TEXT)",),)


def test_a_database_that_cannot_use_write_ahead_logging_is_refused(tmp_path: Path) -> None:
    pool = SqlitePool(tmp_path / "notes.db", 1, NOTES)
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(OSError, match="journal mode 'memory'"):
        pool._use_wal(connection)  # pyright: ignore[reportPrivateUsage] - such a place is hard to find


def test_two_packages_keep_separate_tables_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    notes, names = SqlitePool(path, 1, NOTES), SqlitePool(path, 1, (("CREATE TABLE names (n TEXT)",),), "schema_b")
    with notes.write() as connection:
        connection.execute("INSERT INTO notes VALUES ('a')")
    with names.write() as connection:
        connection.execute("INSERT INTO names VALUES ('b')")
    with names.read() as connection:
        assert connection.execute("SELECT text, n FROM notes, names").fetchall() == [("a", "b")]
    assert notes.close()
    assert names.close()
    with pytest.raises(NewerVersionError), SqlitePool(path, 1, (), "schema_b").read():
        pass


def test_an_exception_in_a_write_block_rolls_back(tmp_path: Path) -> None:
    pool = SqlitePool(tmp_path / "notes.db", 1, NOTES)
    with pytest.raises(KeyError), pool.write() as connection:
        connection.execute("INSERT INTO notes VALUES ('a')")
        raise KeyError
    with pool.read() as connection:
        assert connection.execute("SELECT * FROM notes").fetchall() == []
    pool.close()
