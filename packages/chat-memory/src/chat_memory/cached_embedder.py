"""A cache of vectors in a file, keyed by the hash of each text: `CachedEmbedder(embedder, "vectors.db")`.

A text is embedded once for all scopes. Its vector stays in the file after its document is deleted.
"""

from __future__ import annotations

import hashlib
import logging
import os
from array import array
from collections.abc import Mapping, Sequence
from typing import Final, Self, cast, final

from chat_core import ChatOptions
from chat_core.arguments import require_path, require_type
from chat_core.concurrency import finish_in_thread
from chat_core.errors import ChatError, UsageError
from chat_core.json import dumps
from chat_core.provider import EmbeddingsProvider, EmbeddingsResponse, ProviderMeta
from chat_store.sql.sqlite_pool import SqlitePool

from chat_memory._embedding import embed_texts
from chat_memory.passages import vector_to_bytes

_log = logging.getLogger("chat_memory")
_MIGRATIONS: Final = (("CREATE TABLE chat_memory_cache (hash TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID",),)
_READ: Final = "SELECT hash, vector FROM chat_memory_cache WHERE hash IN (SELECT value FROM json_each(?))"


@final
class CachedEmbedder:
    """An `EmbeddingsProvider` that caches the vectors of another provider in a SQLite file.

    The file contains hashes of texts, and no texts. It does not belong to a scope: `delete_all()` does not change it.
    It grows with each new text. To forget all vectors, delete the file while no process uses it. Requests with options
    and the questions of `Recall` are not cached. If the file cannot be read or written, a warning is logged, and texts
    are embedded without the cache.

    Args:
        embedder: computes vectors of new texts.
        path: the file.
        busy_seconds: maximum time to wait for another writer. After this time, the vectors are returned without being
            cached.

    Attributes:
        embedder: the embedder that computes vectors of new texts.
        metadata: the metadata of that embedder.

    Raises:
        UsageError: `path` is not the path of a file.
    """

    def __init__(
        self, embedder: EmbeddingsProvider, path: str | os.PathLike[str], *, busy_seconds: float = 10.0
    ) -> None:
        require_type("embedder", embedder, EmbeddingsProvider, "a provider with embed()")
        require_path("path", path)
        if os.fspath(path) in ("", ":memory:"):
            msg = f"CachedEmbedder() requires the path of a file, not {path!r}: use a file in a temporary folder"
            raise UsageError(msg)
        self.embedder = embedder
        self.metadata: ProviderMeta = embedder.metadata
        self._pool = SqlitePool(path, busy_seconds, _MIGRATIONS, "chat_memory_cache_schema")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed()`. Only new texts are sent."""
        if options != ChatOptions():
            return await self.embedder.embed(texts, options)
        keys = {text: self._hash_text(text) for text in texts}
        known = await self._read_or_miss(list(keys.values()))
        new = [text for text, key in keys.items() if key not in known]
        response = await embed_texts(self.embedder, new) if new else EmbeddingsResponse(())
        added = {keys[text]: vector_to_bytes(vector) for text, vector in zip(new, response.vectors, strict=True)}
        if added:
            await self._write_or_warn(added)
        found = {**known, **added}
        vectors = tuple(_vector_from_bytes(found[keys[text]]) for text in texts)
        return EmbeddingsResponse(vectors, response.usage, response.model)

    async def aclose(self) -> None:
        """Close the file."""
        await finish_in_thread(self._pool.close)

    def _hash_text(self, text: str) -> str:
        """Return a hash of the text and of everything else that its vector depends on: provider, model, dimensions."""
        key = [self.metadata.name, self.metadata.model, text]
        if self.metadata.dimensions is not None:
            key.append(str(self.metadata.dimensions))
        return hashlib.sha256(dumps(key).encode("utf-8", "surrogatepass")).hexdigest()

    async def _read_or_miss(self, keys: Sequence[str]) -> dict[str, bytes]:
        try:
            return await finish_in_thread(lambda: self._read_vectors(keys))
        except (OSError, ChatError) as error:
            _log.warning("the cache of vectors cannot be read, so all texts are embedded: %s", error)
            return {}

    async def _write_or_warn(self, vectors: Mapping[str, bytes]) -> None:
        try:
            await finish_in_thread(lambda: self._write_vectors(vectors))
        except (OSError, ChatError) as error:
            _log.warning("vectors are not cached, because the cache cannot be written: %s", error)

    def _read_vectors(self, keys: Sequence[str]) -> dict[str, bytes]:
        with self._pool.read() as connection:
            return cast("dict[str, bytes]", dict(connection.execute(_READ, (dumps(list(keys)),)).fetchall()))

    def _write_vectors(self, vectors: Mapping[str, bytes]) -> None:
        with self._pool.write() as connection:
            connection.executemany("INSERT OR IGNORE INTO chat_memory_cache VALUES (?, ?)", list(vectors.items()))


def _vector_from_bytes(data: bytes) -> tuple[float, ...]:
    numbers = array("f", data)
    if array("H", [1]).tobytes() != b"\1\0":
        numbers.byteswap()
    return tuple(numbers)
