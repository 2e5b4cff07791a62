"""Fixtures for the store tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_store import _job_queue
from chat_store.testing.postgres_server import PostgresServer, shared_server
from postgres_database import Database


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Start a PostgreSQL server that all tests of the session share. Each test uses its own schemas."""
    with shared_server() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Database:
    return Database(postgres)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a file with a conversation."""
    return tmp_path / "chat.jsonl"


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew the leases of taken jobs again and again without pauses, so that no test waits for a part of a lease."""

    async def sleep(_seconds: float) -> None:
        await checkpoint()

    used = {"sleep": sleep, "current_time": anyio.current_time, "create_task_group": anyio.create_task_group}
    monkeypatch.setattr(_job_queue, "anyio", SimpleNamespace(**used))
