"""The embedder in this process, with the weights of the installed wheel."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from chat_core import ChatOptions, EmbeddingsProvider
from chat_core.errors import UsageError
from chat_memory import embedder as module
from chat_memory.embedder import LocalEmbedder

pytestmark = pytest.mark.anyio


async def test_texts_about_one_topic_are_similar_without_common_words() -> None:
    texts = ["Which instrument does she play?", "I practice the violin daily.", "It rained."]
    vectors = np.array((await LocalEmbedder().embed(texts, ChatOptions())).vectors)
    question, near, far = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert question @ near > question @ far + 0.2


async def test_a_vector_does_not_depend_on_other_texts_of_the_request() -> None:
    alone = await LocalEmbedder().embed(["the violin"], ChatOptions())
    together = await LocalEmbedder().embed(["a longer text about tea", "", "the violin"], ChatOptions())
    assert together.vectors[2] == alone.vectors[0]
    assert together.vectors[1] == (0.0,) * 256


def test_the_model_name_of_the_embedder_contains_the_version_of_its_weights() -> None:
    embedder = LocalEmbedder()
    assert isinstance(embedder, EmbeddingsProvider)
    assert embedder.metadata.name == "wordllama"
    assert embedder.metadata.model.startswith("l2_supercat_256@0.")


def test_a_missing_extra_raises_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACKAGE", "no_such_package")
    with pytest.raises(UsageError, match=r'pip install "chat-memory\[embedder\]"'):
        LocalEmbedder()


def test_weights_are_loaded_at_the_first_use_without_network_or_log_handlers() -> None:
    program = """
import anyio, logging, socket, sys
from chat_core import ChatOptions
from chat_memory.embedder import LocalEmbedder

def refuse(*args): raise AssertionError("a connection")
socket.socket.connect = refuse
embedder = LocalEmbedder()
assert "tokenizers" not in sys.modules
anyio.run(embedder.embed, ["tea"], ChatOptions())
assert "tokenizers" in sys.modules
assert "wordllama" not in sys.modules
assert not logging.getLogger().handlers
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr.decode()
