"""A page on which people approve the tool calls of chat-core: an ASGI application to mount or to run."""

__all__: list[str] = []
