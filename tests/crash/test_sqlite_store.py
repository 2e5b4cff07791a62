"""`kill -9` of processes that share a SQLite file: nothing is lost, nothing runs twice, every run ends."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar, Self, final

import pytest

from .processes import Server
from .stories import Crashes, Story
from .worker import Order


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.store_worker") as server:
        yield server


@final
class SqliteStory(Story):
    @property
    def store(self) -> Order:
        return {"store": str(self.folder / "chats.db")}

    def rows_copied(self, name: str) -> Self:
        copy = type(self)(self.folder.parent / name)
        shutil.copytree(self.folder, copy.folder, dirs_exist_ok=True)
        return copy

    def require_sound(self) -> None:
        with closing(sqlite3.connect(str(self.store["store"]))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


class TestSqliteStore(Crashes):
    database: ClassVar[str] = "SQLite"

    def story(self, folder: Path) -> SqliteStory:
        return SqliteStory(folder)
