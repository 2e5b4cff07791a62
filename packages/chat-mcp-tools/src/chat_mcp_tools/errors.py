"""Errors that are raised for MCP servers.

ChatError
└── ServerUnavailableError     the server does not start, respond, or speak the protocol
Exception                      raised inside a tool call: the call becomes `Failed`, the model reads the message
├── ServerGoneError            the connection to the server is lost
└── ToolRefusedError           the server rejected the call, or its tool failed
"""

from __future__ import annotations

from typing import final

from chat_core.errors import ChatError


@final
class ServerUnavailableError(ChatError):
    """The MCP server does not start, does not respond, or does not speak the protocol. No tool was called."""


@final
class ServerGoneError(Exception):
    """The connection to the MCP server is lost. The message states whether the call may have taken effect."""


@final
class ToolRefusedError(Exception):
    """The tool failed, or the MCP server rejected the call. The model receives the server's message."""
