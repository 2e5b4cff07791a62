"""What goes wrong with a server.

ChatError
└── ServerUnavailableError     it does not start, does not answer, or does not speak the protocol
Exception                 what a call ends in, for the model to read: the tool is `Failed`
├── ServerGoneError            it went away
└── ToolRefusedError           it says no, or its tool failed
"""

from __future__ import annotations

from typing import final

from chat_core.errors import ChatError


@final
class ServerUnavailableError(ChatError):
    """The server does not start, does not answer, or does not speak the protocol. No tool of it was called."""


@final
class ServerGoneError(Exception):
    """The server went away. The model reads whether this call may have taken effect."""


@final
class ToolRefusedError(Exception):
    """The server says that the tool failed, or does not take the call. The model reads the server's words."""
