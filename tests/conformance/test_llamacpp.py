"""The provider for a local model passes every scenario whose capability it claims, with scripted responses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from chat_completions import CompletionsProvider
from chat_core import ContextLengthError, InvalidRequestError, ServerError
from chat_core.messages import File
from chat_core.transport import Transport
from chat_llamacpp import LlamaCppBuilder
from chat_testing import Capabilities, ProviderConformance, Refusal, Reply

from .completions_tapes import PNG, tapes


def refused(status: int, kind: str) -> Reply:
    return Reply.json({"error": {"code": status, "message": "No.", "type": kind}}, status)


# One answer holds one call at most, and nothing here asks to wait: who is not served yet waits in line.
TAPES = replace(
    tapes(),
    files=(File("image/png", data=PNG),),
    parallel=None,
    reasoning=None,
    refusals=(
        Refusal(reply=refused(400, "exceed_context_size_error"), error=ContextLengthError, retryable=False),
        Refusal(reply=refused(400, "invalid_request_error"), error=InvalidRequestError, retryable=False),
        Refusal(reply=refused(500, "server_error"), error=ServerError, retryable=True),
    ),
)


class TestLlamaCpp(ProviderConformance):
    capabilities = Capabilities(
        stream=True,
        tools=True,
        call_ids=True,
        argument_text=True,
        structured=True,
        files=True,
        usage=True,
        stream_errors=True,
        embeddings=True,
    )
    tapes = TAPES

    @pytest.fixture(autouse=True)
    def _weights(self, tmp_path: Path) -> None:
        self.weights = tmp_path / "weights.gguf"
        self.weights.touch()

    def make_provider(self, transport: Transport, /) -> CompletionsProvider:
        """Return the provider of the builder, with tapes instead of llama.cpp, so that no weights are loaded."""
        provider = LlamaCppBuilder().with_model_path(self.weights).with_projector(self.weights).build()
        object.__setattr__(provider, "_transport", transport)
        object.__setattr__(provider, "_owns_transport", False)
        return provider
