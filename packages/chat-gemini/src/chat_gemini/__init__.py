"""The Gemini wire: the models of Google, over any transport."""

from chat_gemini.builder import (
    API_KEY_VARIABLES,
    DEFAULT_BASE_URL,
    GeminiBuilder,
    GeminiEmbeddingsBuilder,
    ReadyGeminiBuilder,
    gemini,
)
from chat_gemini.client import GeminiEmbeddings, GeminiProvider
from chat_gemini.options import Dialect, EmbeddingDialect, EmbeddingOptions, GeminiOptions, SafetySetting
from chat_gemini.tools import (
    CodeExecution,
    FileSearch,
    GoogleMaps,
    GoogleSearch,
    GoogleSearchRetrieval,
    NativeTool,
    UrlContext,
)

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
