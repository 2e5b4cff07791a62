"""One WebSocket, many turns: the WebSocket transport of chat-core, for asyncio."""

__all__: list[str] = []
