"""A DBOS for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from chat_store import SqliteStore
from dbos import DBOS
from dbos_world import Shop


@pytest.fixture
def anyio_backend() -> str:
    """DBOS runs on asyncio alone."""
    return "asyncio"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Shop]:
    async with SqliteStore(tmp_path / "chats.db") as store:
        shop = Shop(tmp_path, store)
        await shop.say("Pay, please.")
        try:
            yield shop
        finally:
            DBOS.destroy(destroy_registry=True)
