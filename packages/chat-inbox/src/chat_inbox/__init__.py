"""A page on which people approve the tool calls of chat-core: an ASGI application to mount or to run."""

from chat_inbox.approval_service import Authorise
from chat_inbox.inbox import Inbox
from chat_inbox.security import Authenticate, loopback_only

__all__ = ["Authenticate", "Authorise", "Inbox", "loopback_only"]
