"""Fixtures shared by the tests of stored conversations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chat_store.testing.postgres_server import PostgresServer, shared_server


@pytest.fixture
def anyio_backend() -> str:
    """Run on one event loop: what is stored does not depend on it."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Start one PostgreSQL server for the session. Each test uses a schema of its own."""
    with shared_server() as server:
        yield server
