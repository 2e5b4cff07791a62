"""A process that is killed while it embeds texts loses at most one batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from chat_core import ChatOptions
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory import Passage, SqliteMemory
from chat_memory.recall import Recall

SCOPES = {"ana": 5, "ben": 4}
BATCH = 2
REQUESTS = 5


class Killed:
    """An embedder that writes down its texts, and kills the process before it answers a request."""

    metadata = ProviderMeta("test", "two")

    def __init__(self, file: Path, fatal: int) -> None:
        self._file = file
        self._left = fatal

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        del options
        with self._file.open("a", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in texts)
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), 9)
        return EmbeddingsResponse(tuple((1.0, float(text.split()[1])) for text in texts))


async def add_texts(folder: Path) -> None:
    async with SqliteMemory(folder / "memory.db") as memory:
        for scope, number in SCOPES.items():
            passages = [Passage(f"{scope} {position}", "a", position) for position in range(number)]
            await memory.scope(scope).add_passages(passages)
            ids = [document.id for document in await memory.scope(scope).documents()]
            await memory.scope(scope).put_vectors("test/one", dict.fromkeys(ids, (1.0, 2.0, 3.0)))


async def reindex(folder: Path, fatal: int) -> int:
    async with SqliteMemory(folder / "memory.db") as memory:
        return await Recall(memory, Killed(folder / "embedded", fatal)).reindex(batch=BATCH)


def was_killed(folder: Path, fatal: int) -> bool:
    """Run `reindex()` in a forked process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            anyio.run(reindex, folder, fatal)
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.WIFSIGNALED(ended)


async def check_vectors(folder: Path) -> None:
    async with SqliteMemory(folder / "memory.db") as memory:
        for scope, number in SCOPES.items():
            rows = memory.scope(scope)
            assert len((await rows.vectors("test/two"))[0]) == number
            assert (await rows.vectors("test/one"))[0] == []


@pytest.mark.parametrize("fatal", range(1, REQUESTS + 1))
def test_a_killed_reindex_continues_and_repeats_at_most_one_batch(tmp_path: Path, fatal: int) -> None:
    anyio.run(add_texts, tmp_path)
    assert was_killed(tmp_path, fatal)
    stored = anyio.run(reindex, tmp_path, 0)
    anyio.run(check_vectors, tmp_path)
    embedded = (tmp_path / "embedded").read_text(encoding="utf-8").splitlines()
    assert len(set(embedded)) == sum(SCOPES.values())
    assert len(embedded) - len(set(embedded)) in (1, BATCH)
    assert stored < sum(SCOPES.values()) or fatal == 1
