"""A transport of chat-core that calls an ASGI application in this process, without a socket."""

from __future__ import annotations

from chat_transport_asgi._transport import AsgiTransport
from chat_transport_asgi._types import AsgiApp, Message, Receive, Scope, Send

__all__ = ["AsgiApp", "AsgiTransport", "Message", "Receive", "Scope", "Send"]
