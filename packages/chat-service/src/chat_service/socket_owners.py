"""`SocketOwners`, which decides which WebSocket connection may send messages to a session."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from chat_service.authentication import hash_token


@final
@dataclass(slots=True)
class _Owner:
    """The owner of a session.

    Attributes:
        connection: the connection, or `None` after the connection was lost.
        token_hash: hash of the token with which another connection can take over the session.
        lost_at: time at which the connection was lost.
    """

    connection: object | None
    token_hash: str
    lost_at: float = 0.0


@final
class SocketOwners:
    """The WebSocket connections of this process that own sessions.

    The first connection that subscribes to a session owns the session. If this connection is lost, another connection
    can take over the session with the reconnect token, which is valid once. When the grace time is over, the next
    subscriber owns the session.

    Args:
        grace_seconds: time during which a lost connection's sessions stay reserved.
        clock: returns the current time in seconds.
    """

    def __init__(self, grace_seconds: float, clock: Callable[[], float]) -> None:
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._owners: dict[str, _Owner] = {}

    def claim(self, session_id: str, connection: object, token: str | None = None) -> str | None:
        """Make a connection the owner of a session, unless another connection owns it and the token is not valid.

        Args:
            session_id: id of the session.
            connection: the connection.
            token: the reconnect token, if the client has one.

        Returns:
            A new reconnect token, or `None` if the connection does not own the session.
        """
        self._forget_lost()
        owner = self._owners.get(session_id)
        has_token = owner is not None and token is not None and _matches(owner, token)
        if owner is not None and owner.connection is not connection and not has_token:
            return None
        new = secrets.token_urlsafe(32)
        self._owners[session_id] = _Owner(connection, hash_token(new))
        return new

    def owns(self, session_id: str, connection: object) -> bool:
        """Return whether a connection owns a session.

        Args:
            session_id: id of the session.
            connection: the connection.
        """
        owner = self._owners.get(session_id)
        return owner is not None and owner.connection is connection

    def release(self, session_id: str, connection: object) -> None:
        """End the ownership of a session, so that the next subscriber owns the session.

        Args:
            session_id: id of the session.
            connection: the connection.
        """
        if self.owns(session_id, connection):
            del self._owners[session_id]

    def lose(self, connection: object) -> None:
        """Record that a connection was lost. Its sessions are reserved during the grace time.

        Args:
            connection: the connection.
        """
        for owner in self._owners.values():
            if owner.connection is connection:
                owner.connection, owner.lost_at = None, self._clock()

    def _forget_lost(self) -> None:
        limit = self._clock() - self._grace_seconds
        lost = [id for id, owner in self._owners.items() if owner.connection is None and owner.lost_at < limit]
        for session_id in lost:
            del self._owners[session_id]


def _matches(owner: _Owner, token: str) -> bool:
    return bool(token.strip()) and hmac.compare_digest(owner.token_hash, hash_token(token))
