"""The tools of an MCP server as tools of chat-core, with their annotations for a policy to read."""

from chat_mcp.annotations import McpAnnotations
from chat_mcp.errors import ServerGoneError, ServerUnavailableError, ToolRefusedError
from chat_mcp.progress import McpProgress
from chat_mcp.servers import HttpServer, McpServer, StdioServer
from chat_mcp.tools import mcp_tools

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
