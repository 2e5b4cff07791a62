"""Errors of a memory."""

from __future__ import annotations

from chat_core.errors import ChatError


class UnknownFactError(ChatError, LookupError):
    """The scope has no fact with this id. It may belong to another scope, or have been forgotten."""
