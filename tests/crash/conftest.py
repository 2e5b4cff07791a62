"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chat_store.testing.postgres_server import PostgresServer, shared_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that all tests of the session share; each keeps to schemas of its own."""
    with shared_server() as server:
        yield server
