"""Web inbox for approving the tool calls of chat-core: an ASGI application to mount or to run."""

from chat_inbox.approval_service import Authorize, MaySee
from chat_inbox.inbox import Inbox
from chat_inbox.security import Authenticate
from chat_inbox.token_sign_in import TokenSignIn

__all__ = ["Authenticate", "Authorize", "Inbox", "MaySee", "TokenSignIn"]
