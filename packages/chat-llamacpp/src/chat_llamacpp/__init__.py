"""A local model in this process, by llama.cpp: no key, no server to start, no network."""

from chat_llamacpp.builder import LlamaCppBuilder, ReadyLlamaCppBuilder
from chat_llamacpp.transport import LlamaCppTransport

__all__ = ["LlamaCppBuilder", "LlamaCppTransport", "ReadyLlamaCppBuilder"]
