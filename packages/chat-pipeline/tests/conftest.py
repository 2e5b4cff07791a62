"""A pipeline world for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from chat_store import SqliteStore
from dbos import DBOS
from pipeline_world import World


@pytest.fixture
def anyio_backend() -> str:
    """DBOS runs on asyncio alone."""
    return "asyncio"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with SqliteStore(tmp_path / "chats.db") as store:
        try:
            yield World(tmp_path, store)
        finally:
            DBOS.destroy(destroy_registry=True)
