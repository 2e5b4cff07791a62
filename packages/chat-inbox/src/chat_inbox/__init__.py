"""A page on which people approve the tool calls of chat-core: an ASGI application to mount or to run."""

from chat_inbox.desk import Authorise
from chat_inbox.guard import Authenticate, loopback_only
from chat_inbox.inbox import Inbox

__all__ = ["Authenticate", "Authorise", "Inbox", "loopback_only"]
