"""Embedding of texts, and storage of the vectors for a scope's documents."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from chat_core import ChatOptions
from chat_core.errors import (
    ChatError,
    InvalidRequestError,
    InvalidResponseError,
    NetworkError,
    RefusalError,
    ServerError,
    UsageError,
)
from chat_core.provider import EmbeddingsProvider, EmbeddingsResponse, ProviderMeta

from chat_memory.memory import MemoryScope
from chat_memory.passages import Document, vector_to_bytes

MAX_EMBEDDED_CHARACTERS: Final = 8000
"""Maximum number of characters of a text that are embedded, because embedders limit the length of a text."""
_ACCEPTED_TEXT: Final = "text"
"""Text that every working embedder accepts. It is embedded to check whether the embedder works."""
_ERRORS_OF_A_TEXT: Final = (InvalidRequestError, InvalidResponseError, NetworkError, RefusalError, ServerError)
"""Errors that a single text can cause. Other errors, such as a rate limit, concern the embedder or the account."""
_log = logging.getLogger("chat_memory")


def embedder_name(metadata: ProviderMeta) -> str:
    """Return a name for an embedder that is different for each provider, model and number of dimensions.

    Args:
        metadata: the metadata of the embedder.
    """
    provider = metadata.name.replace("%", "%25").replace("/", "%2F")
    return f"{provider}/{metadata.model}" + ("" if metadata.dimensions is None else f"@{metadata.dimensions}")


async def embed_texts(embedder: EmbeddingsProvider, texts: Sequence[str]) -> EmbeddingsResponse:
    """Embed texts, and check that the response contains a vector for each text.

    Long texts are truncated, and unpaired surrogates, which UTF-8 cannot encode, are replaced.

    Args:
        embedder: the provider that computes the vectors.
        texts: the texts to embed, in the order of the vectors.

    Raises:
        InvalidResponseError: the number of vectors differs from the number of texts.
        ChatError: the embedder failed.
    """
    sent = [text[:MAX_EMBEDDED_CHARACTERS].encode("utf-8", "replace").decode() for text in texts]
    response = await embedder.embed(sent, ChatOptions())
    if len(response.vectors) != len(texts):
        name = embedder_name(embedder.metadata)
        msg = f"the embedder {name!r} returned {len(response.vectors)} vectors for {len(texts)} texts"
        raise InvalidResponseError(msg)
    return response


async def embed_batch(
    scope: MemoryScope, embedder: EmbeddingsProvider, batch: int, *, uncached: EmbeddingsProvider
) -> int:
    """Embed texts of a scope that have no vector, store the vectors, and return the number of texts.

    A text that the embedder refuses, or fails for repeatedly, gets a vector of zeros. It can then be found only by its
    words, and is not sent again.

    Args:
        scope: the scope whose texts are embedded.
        embedder: the provider that computes the vectors.
        batch: the maximum number of texts.
        uncached: the same provider without a cache. It is asked whether an error concerns a text or every text.

    Raises:
        ChatError: the embedder failed, or refuses every text.
    """
    model = embedder_name(embedder.metadata)
    documents = await scope.without_vector(model, limit=batch)
    if documents:
        vectors = await _embed_or_blank(embedder, uncached, documents)
        texts = {document.id: document.text for document in documents}
        await scope.put_vectors(model, dict(zip(texts, vectors, strict=True)), texts=texts)
    return len(documents)


async def _embed_or_blank(
    embedder: EmbeddingsProvider, uncached: EmbeddingsProvider, documents: Sequence[Document]
) -> list[Sequence[float]]:
    """Return the vectors of documents. Documents without a usable vector get a vector of zeros."""
    vectors: Sequence[Sequence[float]]
    try:
        vectors = (await embed_texts(embedder, [document.text for document in documents])).vectors
    except _ERRORS_OF_A_TEXT:
        # Raises again if the embedder fails for every text, for example because its server is down.
        blank = [0.0] * len((await embed_texts(uncached, [_ACCEPTED_TEXT])).vectors[0])
        vectors = await _embed_halves(embedder, uncached, documents, blank)
    return [_usable_vector(embedder, *pair) for pair in zip(documents, vectors, strict=True)]


async def _embed_halves(
    embedder: EmbeddingsProvider, uncached: EmbeddingsProvider, documents: Sequence[Document], blank: Sequence[float]
) -> Sequence[Sequence[float]]:
    """Embed the halves of a failed request separately, recursively until each failed request has one text."""
    middle = len(documents) // 2
    found: list[Sequence[float]] = []
    for half in (documents[:middle], documents[middle:]):
        try:
            found += (await embed_texts(embedder, [document.text for document in half])).vectors if half else ()
        except _ERRORS_OF_A_TEXT as error:
            if len(half) > 1:
                found += await _embed_halves(embedder, uncached, half, blank)
            else:
                found.append(await _retry_or_blank(embedder, uncached, half[0], blank, error))
    return found


async def _retry_or_blank(
    embedder: EmbeddingsProvider,
    uncached: EmbeddingsProvider,
    document: Document,
    blank: Sequence[float],
    error: ChatError,
) -> Sequence[float]:
    """Retry a text whose own request failed, unless the embedder refused it. Return zeros if it fails again."""
    if not isinstance(error, InvalidRequestError):
        # Raises during an outage, which must neither blank texts nor lead to a request for each of them.
        await embed_texts(uncached, [_ACCEPTED_TEXT])
        try:
            return (await embed_texts(embedder, [document.text])).vectors[0]
        except _ERRORS_OF_A_TEXT as again:
            error = again
    _warn_unusable(embedder, document, error)
    return blank


def _usable_vector(embedder: EmbeddingsProvider, document: Document, vector: Sequence[float]) -> Sequence[float]:
    try:
        vector_to_bytes(vector)
    except UsageError as error:
        _warn_unusable(embedder, document, error)
        return [0.0] * len(vector)
    return vector


def _warn_unusable(embedder: EmbeddingsProvider, document: Document, error: Exception) -> None:
    _log.warning(
        "only words find the document %d, because %s has no vector for it: %s",
        document.id,
        embedder_name(embedder.metadata),
        error,
    )
