"""Fixtures of the service tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

import pytest
from chat_store import MemoryStore
from chat_store.testing.postgres_server import PostgresServer, shared_server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def store() -> AsyncGenerator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of the session. Each test has a schema of its own."""
    with shared_server() as server:
        yield server
