"""Going on from the last response instead of sending the conversation again.

A server that stores responses knows the conversation that led to one. Whether the history that is about to be sent is
that conversation is decided by what is in the history alone: the turn that a response became carries a seal, made from
everything that stood before it and from the turn itself as they go over the wire. A history that was edited, moved here
from another provider or put together from two others has no turn whose seal holds, and is sent whole.
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
"""Where in a turn's metadata its seal is."""

Encoded = tuple[Role, Turn, bytes]
"""A turn of the history, and its items."""


class Digest(Protocol):
    """A hash object of `hashlib`, whose own type has no public name."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...

    def copy(self) -> Self:
        """Return a copy, to which other bytes can be added."""
        ...

    def hexdigest(self) -> str:
        """Return the hash of all bytes, in hexadecimal digits."""
        ...


def chains(dialect: ResponsesDialect) -> bool:
    """Whether requests go on from stored responses at all."""
    return dialect.previous_response and (dialect.stores or dialect.socket)


def last_stored(history: Sequence[Encoded], dialect: ResponsesDialect) -> int | None:
    """The place of the last turn that the server has, together with everything before it."""
    candidates: list[tuple[int, str, Digest]] = []
    so_far = sha256()
    for place, (role, turn, items) in enumerate(history):
        if role == "model" and (given := _given(turn, dialect)) is not None:
            candidates.append((place, given, so_far.copy()))
        _add(so_far, items)
    for place, given, before in reversed(candidates):
        if given == _with(before, history[place][1], dialect):
            return place
    return None


def sealed(turn: Turn, history: Sequence[Encoded], dialect: ResponsesDialect) -> Turn:
    """The turn, with a seal if the server keeps it."""
    metadata = turn.metadata
    if metadata is None or metadata.id is None or metadata.finish_reason != "completed":
        return turn
    if not chains(dialect) or (metadata.extra.get("store") is False and not dialect.socket):
        return turn
    so_far = sha256()
    for _, _, items in history:
        _add(so_far, items)
    turn.metadata = replace(metadata, extra={**metadata.extra, SEAL: _with(so_far, turn, dialect)})
    return turn


def _given(turn: Turn, dialect: ResponsesDialect) -> str | None:
    """The seal of a turn, if it is one of this provider's responses and its calls are known there by these ids."""
    metadata = turn.metadata
    if metadata is None or metadata.provider != dialect.provider or metadata.id is None:
        return None
    seal = metadata.extra.get(SEAL)
    known = wire_ids(turn, dialect) == [tool.call_id for tool in turn.tools]
    return seal if isinstance(seal, str) and known else None


def _with(so_far: Digest, turn: Turn, dialect: ResponsesDialect) -> str:
    whole = so_far.copy()
    whole.update(dump_bytes(model_items(turn, dialect)))
    return whole.hexdigest()[:32]


def _add(so_far: Digest, items: bytes) -> None:
    so_far.update(items)
    so_far.update(b",")
