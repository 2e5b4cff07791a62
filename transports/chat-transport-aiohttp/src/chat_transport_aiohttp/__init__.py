"""HTTP and server-sent events over aiohttp: a fast transport for chat-core on asyncio."""

from __future__ import annotations

from chat_transport_aiohttp._transport import AiohttpTransport

__all__ = ["AiohttpTransport"]
