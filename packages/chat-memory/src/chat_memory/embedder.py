"""An embedder in this process, without a server, a key or a GPU. It downloads nothing.

Install it with `pip install "chat-memory[embedder]"`, and use it with `Recall(memory, LocalEmbedder())`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, final, runtime_checkable

import numpy as np
import numpy.typing as npt
from chat_core import ChatOptions
from chat_core.concurrency import finish_in_thread
from chat_core.errors import UsageError
from chat_core.provider import EmbeddingsResponse, ProviderMeta

from chat_memory._text_index import normalize_rows

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PACKAGE: Final = "wordllama"
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_MAX_CHARACTERS: Final = 20_000
"""Maximum number of characters that are embedded. The tokenizer blocks other threads, so the rest is ignored."""
_TOKENS: Final = "tokenizers/l2_supercat_tokenizer_config.json"


@runtime_checkable
class WordEmbedder(Protocol):
    """Protocol for an embedder that can compute vectors of single words at negligible cost."""

    def embed_words(self, words: Sequence[str], /) -> npt.NDArray[np.float32]:
        """Return a vector of length 1 for each word, or a vector of zeros for an unknown word."""
        ...


@final
class LocalEmbedder:
    """An `EmbeddingsProvider` that averages the vectors of a text's tokens. Vectors have 256 numbers.

    The weights are those of the package wordllama, which the extra `embedder` installs. They are read from its files at
    the first use and take 16 MB of memory. English texts only.

    Raises:
        UsageError: the extra is not installed.
    """

    def __init__(self) -> None:
        # The package is not imported: its modules configure the log of the application.
        found = find_spec(_PACKAGE)
        folders = (found and found.submodule_search_locations) or []
        self._folder = next((Path(folder) for folder in folders if _has_files(Path(folder))), Path())
        if not _has_files(self._folder) or not (find_spec("tokenizers") and find_spec("safetensors")):
            msg = 'LocalEmbedder() requires weights: pip install "chat-memory[embedder]"'
            raise UsageError(msg)
        self.metadata: ProviderMeta = ProviderMeta(_PACKAGE, f"l2_supercat_256@{version(_PACKAGE)}")

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed()`. Options have no effect."""
        del options
        vectors = await finish_in_thread(lambda: [self._average_vectors(text) for text in texts])
        return EmbeddingsResponse(tuple(vectors))

    def embed_words(self, words: Sequence[str], /) -> npt.NDArray[np.float32]:
        """Return a vector of length 1 for each word.

        `Recall` adds words of similar meaning to the words of a question.
        """
        tokens, weights = self._model
        ids = [tokens.encode(word, add_special_tokens=False).ids for word in words]
        sums = [weights[found].sum(axis=0, dtype=np.float32) for found in ids]
        return normalize_rows(np.array(sums, dtype=np.float32).reshape(len(ids), weights.shape[1]))

    def _average_vectors(self, text: str) -> tuple[float, ...]:
        tokens, weights = self._model
        # `encode_batch()` would start threads of its own.
        ids = tokens.encode(text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode(), add_special_tokens=False).ids
        mean = weights[ids].mean(axis=0, dtype=np.float32) if ids else np.zeros(weights.shape[1])
        return tuple(mean.tolist())

    @cached_property
    def _model(self) -> tuple[Tokenizer, npt.NDArray[np.float16]]:
        # Imported late: programs that never embed a text do not need the extra.
        from safetensors.numpy import load_file  # noqa: PLC0415 # pyright: ignore[reportUnknownVariableType] - no types
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

        tokens = Tokenizer.from_file(str(self._folder / _TOKENS))
        tokens.no_padding()
        tokens.no_truncation()
        weights = load_file(str(self._folder / _WEIGHTS))
        return tokens, weights["embedding.weight"]


def _has_files(folder: Path) -> bool:
    return (folder / _WEIGHTS).is_file() and (folder / _TOKENS).is_file()
