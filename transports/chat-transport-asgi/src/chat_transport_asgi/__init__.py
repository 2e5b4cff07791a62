"""A transport of chat-core that calls an ASGI application in this process, without a socket."""

__all__: list[str] = []
