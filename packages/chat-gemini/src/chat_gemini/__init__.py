"""Chat and embeddings providers for Google's Gemini API and Vertex AI, over any `Transport`."""

from chat_gemini.builder import (
    GeminiBuilder,
    GeminiEmbeddingsBuilder,
    ReadyGeminiBuilder,
    gemini,
)
from chat_gemini.client import GeminiEmbeddings, GeminiProvider
from chat_gemini.native import (
    CodeExecution,
    FileSearch,
    GoogleMaps,
    GoogleSearch,
    GoogleSearchRetrieval,
    NativeTool,
    UrlContext,
)
from chat_gemini.options import Dialect, EmbeddingDialect, EmbeddingOptions, GeminiOptions, SafetySetting
from chat_gemini.settings import API_KEY_VARIABLES, DEFAULT_BASE_URL

__all__ = [
    "API_KEY_VARIABLES",
    "DEFAULT_BASE_URL",
    "CodeExecution",
    "Dialect",
    "EmbeddingDialect",
    "EmbeddingOptions",
    "FileSearch",
    "GeminiBuilder",
    "GeminiEmbeddings",
    "GeminiEmbeddingsBuilder",
    "GeminiOptions",
    "GeminiProvider",
    "GoogleMaps",
    "GoogleSearch",
    "GoogleSearchRetrieval",
    "NativeTool",
    "ReadyGeminiBuilder",
    "SafetySetting",
    "UrlContext",
    "gemini",
]
