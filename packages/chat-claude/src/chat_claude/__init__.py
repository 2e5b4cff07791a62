"""Chat provider for Claude: the Anthropic Messages API over any `Transport`."""

from __future__ import annotations

from chat_claude.builder import ClaudeBuilder, claude
from chat_claude.client import ClaudeProvider
from chat_claude.codec import on_bedrock, on_vertex
from chat_claude.files import cached, document, search_result, uploaded
from chat_claude.native import (
    Advisor,
    CodeExecution,
    KnownTool,
    ToolSearch,
    UserLocation,
    WebFetch,
    WebSearch,
)
from chat_claude.options import (
    AdaptiveThinking,
    BudgetThinking,
    Cache,
    ClaudeOptions,
    Dialect,
    McpServer,
    NativeTool,
    NoThinking,
)

__all__ = [
    "AdaptiveThinking",
    "Advisor",
    "BudgetThinking",
    "Cache",
    "ClaudeBuilder",
    "ClaudeOptions",
    "ClaudeProvider",
    "CodeExecution",
    "Dialect",
    "KnownTool",
    "McpServer",
    "NativeTool",
    "NoThinking",
    "ToolSearch",
    "UserLocation",
    "WebFetch",
    "WebSearch",
    "cached",
    "claude",
    "document",
    "on_bedrock",
    "on_vertex",
    "search_result",
    "uploaded",
]
