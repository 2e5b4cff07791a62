"""Fixtures and helpers that the tests of the memories share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chat_store.testing.postgres_server import PostgresServer, shared_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Start a PostgreSQL server that all tests of the session share. Each test uses its own schemas."""
    with shared_server() as server:
        yield server
