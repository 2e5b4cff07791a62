"""Provider for local GGUF models that run in this process through llama.cpp, without API key, server or network."""

from chat_llamacpp.builder import LlamaCppBuilder, ReadyLlamaCppBuilder
from chat_llamacpp.transport import LlamaCppTransport

__all__ = ["LlamaCppBuilder", "LlamaCppTransport", "ReadyLlamaCppBuilder"]
