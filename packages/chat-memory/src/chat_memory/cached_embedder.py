"""A cache of vectors in a file, by the hash of each text: `CachedEmbedder(embedder, "vectors.db")`.

A text is embedded once for all scopes. Its vector stays in the file after its document is deleted.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Mapping, Sequence
from typing import Final, Self, cast, final

from chat_core import ChatOptions
from chat_core.concurrency import finish_in_thread
from chat_core.json import dumps
from chat_core.provider import EmbeddingsProvider, EmbeddingsResponse, ProviderMeta
from chat_store.sql.sqlite_pool import SqlitePool

from chat_memory.passages import vector_to_bytes

_MIGRATIONS: Final = (("CREATE TABLE chat_memory_cache (hash TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID",),)
_READ: Final = "SELECT hash, vector FROM chat_memory_cache WHERE hash IN (SELECT value FROM json_each(?))"


@final
class CachedEmbedder:
    """An `EmbeddingsProvider` that keeps the vectors of another one in a SQLite file.

    The file contains hashes of texts, and no texts. It belongs to no scope: `delete_all()` does not change it. Delete
    the file to forget all vectors. Requests with options are not cached.

    Args:
        embedder: computes vectors of new texts.
        path: the file.
        busy_seconds: how long to wait for another writer before `TimeoutError` is raised.
    """

    def __init__(
        self, embedder: EmbeddingsProvider, path: str | os.PathLike[str], *, busy_seconds: float = 10.0
    ) -> None:
        self._embedder = embedder
        self.metadata: ProviderMeta = embedder.metadata
        self._pool = SqlitePool(path, busy_seconds, _MIGRATIONS, "chat_memory_cache_schema")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed()`. Only new texts are sent."""
        if options != ChatOptions():
            return await self._embedder.embed(texts, options)
        keys = {text: self._hash(text) for text in texts}
        known = await finish_in_thread(lambda: self._read(list(keys.values())))
        new = [text for text, key in keys.items() if key not in known]
        response = await self._embedder.embed(new, options) if new else EmbeddingsResponse(())
        added = {keys[text]: vector_to_bytes(vector) for text, vector in zip(new, response.vectors, strict=True)}
        if added:
            await finish_in_thread(lambda: self._write(added))
        found = {**known, **added}
        vectors = tuple(_vector_from_bytes(found[keys[text]]) for text in texts)
        return EmbeddingsResponse(vectors, response.usage, response.model)

    async def aclose(self) -> None:
        """Close the file."""
        await finish_in_thread(self._pool.close)

    def _hash(self, text: str) -> str:
        """Return a hash of the text and the name of the embedder."""
        return hashlib.sha256(dumps([self.metadata.name, self.metadata.model, text]).encode()).hexdigest()

    def _read(self, keys: Sequence[str]) -> dict[str, bytes]:
        with self._pool.read() as connection:
            return cast("dict[str, bytes]", dict(connection.execute(_READ, (dumps(list(keys)),)).fetchall()))

    def _write(self, vectors: Mapping[str, bytes]) -> None:
        with self._pool.write() as connection:
            connection.executemany("INSERT OR IGNORE INTO chat_memory_cache VALUES (?, ?)", list(vectors.items()))


def _vector_from_bytes(data: bytes) -> tuple[float, ...]:
    numbers = array("f", data)
    if array("H", [1]).tobytes() != b"\1\0":
        numbers.byteswap()
    return tuple(numbers)
