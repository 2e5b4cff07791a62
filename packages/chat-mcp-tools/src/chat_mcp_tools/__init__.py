"""Tools of MCP servers for chat-core, with the servers' annotations as metadata for policies."""

from chat_mcp_tools.annotations import McpAnnotations
from chat_mcp_tools.errors import ServerGoneError, ServerUnavailableError, ToolRefusedError
from chat_mcp_tools.progress import McpProgress
from chat_mcp_tools.servers import HttpServer, McpServer, StdioServer
from chat_mcp_tools.tools import mcp_tools

__all__ = [
    "HttpServer",
    "McpAnnotations",
    "McpProgress",
    "McpServer",
    "ServerGoneError",
    "ServerUnavailableError",
    "StdioServer",
    "ToolRefusedError",
    "mcp_tools",
]
