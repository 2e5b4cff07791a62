"""Fixtures and helpers that the tests of the memories share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from chat_memory import SqliteMemory
from chat_store.testing.postgres_server import PostgresServer, shared_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Start a PostgreSQL server that all tests of the session share. Each test uses its own schemas."""
    with shared_server() as server:
        yield server


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[SqliteMemory]:
    async with SqliteMemory(tmp_path / "memory.db") as opened:
        yield opened
