"""The store in memory passes the store suite."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime

from chat_store import MemoryStore
from chat_store.testing import StoreConformance, StoreFactory


class TestMemoryStore(StoreConformance):
    backends = ("asyncio", "trio")

    @contextmanager
    def stores(self) -> Generator[StoreFactory]:
        first = MemoryStore()

        def open_one(now: Callable[[], datetime]) -> MemoryStore:
            return MemoryStore(now=now, beside=first)

        yield open_one
