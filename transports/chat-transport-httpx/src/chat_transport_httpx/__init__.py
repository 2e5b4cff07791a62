"""HTTP and server-sent events over httpx: the default transport of chat-core."""

from __future__ import annotations

from chat_transport_httpx._transport import HttpxTransport

__all__ = ["HttpxTransport"]
