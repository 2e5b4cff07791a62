"""Chat provider for servers with a Responses API, over any `Transport`."""

from chat_responses.actions import ShellResult
from chat_responses.builder import ReadyResponsesBuilder, ResponsesBuilder
from chat_responses.client import ResponsesProvider
from chat_responses.frames import ResponsesFrames
from chat_responses.options import BackgroundResponse, ResponsesDialect, ResponsesOptions
from chat_responses.parts import MCP_APPROVAL
from chat_responses.settings import API_KEY_VARIABLE, DEFAULT_BASE_URL

__all__ = [
    "API_KEY_VARIABLE",
    "DEFAULT_BASE_URL",
    "MCP_APPROVAL",
    "BackgroundResponse",
    "ReadyResponsesBuilder",
    "ResponsesBuilder",
    "ResponsesDialect",
    "ResponsesFrames",
    "ResponsesOptions",
    "ResponsesProvider",
    "ShellResult",
]
