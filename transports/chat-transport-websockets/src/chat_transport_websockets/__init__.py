"""WebSocket transport for chat-core on asyncio. It reuses connections for several exchanges."""

from __future__ import annotations

from chat_transport_websockets._backoff import BackOff
from chat_transport_websockets._frames import FrameProtocol
from chat_transport_websockets._transport import WebSocketTransport

__all__ = ["BackOff", "FrameProtocol", "WebSocketTransport"]
