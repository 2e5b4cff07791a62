"""Arguments of wrong types: errors of this library, before anything is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.testing import ScriptedProvider
from chat_memory import DocumentFilter, Entity, Passage, SqliteMemory, Statement
from chat_memory.cached_embedder import CachedEmbedder
from chat_memory.core_blocks import CoreBlocks
from chat_memory.indexing import Indexer, queue_idle
from chat_memory.model_extractor import ModelExtractor
from chat_memory.owner_memory import OwnerMemory
from chat_memory.recall import Recall
from chat_memory.tools import memory_tools
from chat_store import MemoryStore

WRONG: Any = object()
LIST: Any = []
SCOPE: Any = str
MEMORY: Any = SimpleNamespace(scope=str)
EXTRACTOR: Any = SimpleNamespace(extract=str)
STORE = MemoryStore()
MODEL = ScriptedProvider()


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[SqliteMemory]:
    async with SqliteMemory(tmp_path / "memory.db") as opened:
        yield opened


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("add", {"statement": WRONG}),
        ("get", {"id": []}),
        ("facts", {"ids": 0}),
        ("facts", {"ids": [0]}),
        ("facts", {"status": None}),
        ("promote", {"id": [], "citation": WRONG}),
        ("statements", {"id": []}),
        ("retract", {"id": []}),
        ("forget", {"id": []}),
        ("touch", {"ids": None}),
        ("add_entity", {"entity": WRONG}),
        ("add_entity", {"entity": Entity("Ana", properties=WRONG)}),
        ("relate", {"relation": WRONG}),
        ("entities", {"fact": []}),
        ("facts_near", {"entities": None}),
        ("add_passages", {"passages": None}),
        ("add_passages", {"passages": "a text"}),
        ("documents", {"ids": 0}),
        ("documents", {"ids": "1"}),
        ("documents", {"conversation": []}),
        ("search_text", {"words": "a text"}),
        ("vectors", {"model": []}),
        ("drop_vectors", {"keep": []}),
        ("drop_vectors", {"keep": -1}),
    ],
)
async def test_a_scope_refuses_wrong_arguments(memory: SqliteMemory, method: str, arguments: dict[str, object]) -> None:
    scope = memory.scope("ana")
    await scope.add(Statement("Ana", "plays", "violin"))
    with pytest.raises(UsageError):
        await getattr(scope, method)(**arguments)
    assert (await scope.stats()).statements == 1


@pytest.mark.anyio
async def test_recall_and_queue_idle_refuse_wrong_arguments(memory: SqliteMemory) -> None:
    with pytest.raises(UsageError, match="scope must be a string"):
        await Recall(memory).search(WRONG, "a question")
    with pytest.raises(UsageError, match="store must be a store"):
        await queue_idle(WRONG, WRONG)


CREATE: list[Callable[[], object]] = [
    lambda: Passage("A text.", "chat-17", position=WRONG),
    lambda: Passage("A text.", "chat-17", position=-1),
    lambda: Passage("A text.", "chat-17", speaker=WRONG),
    lambda: Statement("Ana", "plays", "violin", key=WRONG),
    lambda: Statement("Ana", "plays", "violin", text=WRONG),
    lambda: Recall(WRONG, relative_gate=WRONG),
    lambda: Recall(WRONG, WRONG),
    lambda: Recall(WRONG, where=WRONG),
    lambda: CoreBlocks(WRONG, WRONG, scope=WRONG),
    lambda: CoreBlocks(WRONG, {"user": "The user."}, scope=WRONG, max_characters=WRONG),
    lambda: CoreBlocks(WRONG, {}, scope=WRONG),
    lambda: ModelExtractor(WRONG),
    lambda: ModelExtractor(MODEL, name=WRONG),
    lambda: ModelExtractor(MODEL, options=WRONG),
    lambda: Recall(WRONG),
    lambda: Recall(MEMORY, weights=WRONG),
    lambda: Recall(MEMORY, words=WRONG),
    lambda: Recall(SqliteMemory),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - a class on purpose
    lambda: Indexer(WRONG, EXTRACTOR, scope=SCOPE),
    lambda: Indexer(MEMORY, WRONG, scope=SCOPE),
    lambda: Indexer(MEMORY, EXTRACTOR, scope=WRONG),
    lambda: Indexer(MEMORY, EXTRACTOR, scope=SCOPE, recall=WRONG),
    lambda: Indexer(MEMORY, EXTRACTOR, scope=SCOPE, chunk_characters=WRONG),
    lambda: OwnerMemory(WRONG, STORE),
    lambda: OwnerMemory(MEMORY, WRONG),
    lambda: OwnerMemory(MEMORY, STORE, recall=WRONG),
    lambda: memory_tools(WRONG, Recall(MEMORY), scope=SCOPE),
    lambda: memory_tools(MEMORY, WRONG, scope=SCOPE),
    lambda: memory_tools(MEMORY, Recall(MEMORY), scope=WRONG),
    lambda: memory_tools(MEMORY, Recall(MEMORY), scope=SCOPE, source=WRONG),
    lambda: CachedEmbedder(WRONG, "vectors.db"),
    lambda: CachedEmbedder(MODEL, WRONG),
    lambda: memory_tools(MEMORY, Recall(MEMORY), scope=SCOPE, source=LIST),
    lambda: DocumentFilter(kinds=WRONG),
    lambda: DocumentFilter(conversations=[WRONG]),
]


@pytest.mark.parametrize("create", CREATE)
def test_constructors_refuse_wrong_arguments(create: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        create()
