"""Use of `previous_response_id` instead of sending the whole conversation.

A server that stores responses also has the conversation before each of them. Only the history decides whether this
conversation is the one to be sent. The turn of each stored response has a seal in its metadata: a hash of the encoded
turns before it and of the turn itself. If a history was edited, merged, or continued by another provider, the seals
after the change do not match, and the whole history is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, Protocol, Self

from chat_core.json import dump_bytes
from chat_core.messages import Role, Turn

from chat_responses.options import ResponsesDialect
from chat_responses.parts import model_items, wire_ids

SEAL: Final = "seal"
"""Key of the seal in a turn's metadata."""

Encoded = tuple[Role, Turn, bytes]
"""A turn of the history with its role and its encoded items."""


class Digest(Protocol):
    """Protocol of the hash objects of `hashlib`, which does not export their type."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...

    def copy(self) -> Self:
        """Return a copy, to which other bytes can be added."""
        ...

    def hexdigest(self) -> str:
        """Return the hash of all bytes, in hexadecimal digits."""
        ...


def may_chain(dialect: ResponsesDialect) -> bool:
    """Return whether requests may refer to a previous response."""
    return dialect.previous_response and (dialect.stores or dialect.socket)


def last_stored(history: Sequence[Encoded], dialect: ResponsesDialect) -> int | None:
    """Return the index of the last turn that the server has together with all turns before it.

    Args:
        history: all turns after the instructions.
        dialect: settings of the provider.

    Returns:
        The index, or `None` if no seal matches.
    """
    candidates: list[tuple[int, str, Digest]] = []
    received_items = sha256()
    for place, (role, turn, items) in enumerate(history):
        if role == "model" and (seal := _seal_of(turn, dialect)) is not None:
            candidates.append((place, seal, received_items.copy()))
        _update(received_items, items)
    for place, seal, before in reversed(candidates):
        if seal == _compute_seal(before, history[place][1], dialect):
            return place
    return None


def sealed(turn: Turn, history: Sequence[Encoded], dialect: ResponsesDialect) -> Turn:
    """Add a seal to the metadata of a turn, in place, if the server stored its response.

    Args:
        turn: the received turn.
        history: the turns of the request, all of them.
        dialect: settings of the request.

    Returns:
        The same turn.
    """
    metadata = turn.metadata
    if metadata is None or metadata.id is None or metadata.finish_reason != "completed":
        return turn
    if not may_chain(dialect) or (metadata.extra.get("store") is False and not dialect.socket):
        return turn
    received_items = sha256()
    for _, _, items in history:
        _update(received_items, items)
    turn.metadata = replace(metadata, extra={**metadata.extra, SEAL: _compute_seal(received_items, turn, dialect)})
    return turn


def _seal_of(turn: Turn, dialect: ResponsesDialect) -> str | None:
    """Return the seal of a turn, if the turn is a response of this provider and its call ids were not replaced."""
    metadata = turn.metadata
    if metadata is None or metadata.provider != dialect.provider or metadata.id is None:
        return None
    seal = metadata.extra.get(SEAL)
    ids_are_known = wire_ids(turn, dialect) == [tool.call_id for tool in turn.tools]
    return seal if isinstance(seal, str) and ids_are_known else None


def _compute_seal(received_items: Digest, turn: Turn, dialect: ResponsesDialect) -> str:
    """Return the seal of `turn` after the hashed history."""
    extended = received_items.copy()
    extended.update(dump_bytes(model_items(turn, dialect)))
    return extended.hexdigest()[:32]


def _update(received_items: Digest, items: bytes) -> None:
    """Hash the items of one turn."""
    received_items.update(items)
    received_items.update(b",")
