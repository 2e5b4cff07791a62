"""Replacement of the beginning of a conversation by `previous_response_id` or a conversation on the server.

A server that stores responses also has the conversation before each response. The turn for each stored response has a
seal in its metadata, a hash of this turn and of all encoded turns before it. If the seal matches the history, only
later turns are sent. If the history was edited, merged, or continued by another provider, the seals after the change do
not match. Without any matching seal, the whole history is sent.

A server adds the items of a request and of its response to the conversation that the request names. It repeats the id
of that conversation in the response, which is stored in the metadata of the turn. Only later turns are sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, Protocol, Self

from chat_core.errors import UnsupportedOptionError
from chat_core.json import dump_bytes
from chat_core.messages import Messages, Role, Turn
from chat_core.wire.shapes import mapping

from chat_responses.options import ResponsesDialect
from chat_responses.parts import model_items, wire_ids

SEAL: Final = "seal"
"""Key of the seal in a turn's metadata."""

Encoded = tuple[Role, Turn, bytes]
"""A turn of the history with its role and its encoded items."""


class Digest(Protocol):
    """Protocol for the hash objects of `hashlib`, which does not export their type."""

    def update(self, data: bytes, /) -> None:
        """Add `data` to the hashed bytes."""
        ...

    def copy(self) -> Self:
        """Return an independent copy of this hash object."""
        ...

    def hexdigest(self) -> str:
        """Return the hash of all added bytes in hexadecimal digits."""
        ...


def may_chain(dialect: ResponsesDialect) -> bool:
    """Return whether requests with the settings in `dialect` may refer to a previous response."""
    return dialect.previous_response and (dialect.stores or dialect.socket)


def last_stored(history: Sequence[Encoded], dialect: ResponsesDialect) -> int | None:
    """Return the index of the last model turn up to which the server has stored the whole history.

    Args:
        history: all turns that are sent as messages.
        dialect: settings of the provider.

    Returns:
        The index, or `None` if the server has stored no matching history.
    """
    candidates: list[tuple[int, str, Digest]] = []
    history_hash = sha256()
    for place, (role, turn, items) in enumerate(history):
        if role == "model" and (seal := _seal_of(turn, dialect)) is not None:
            candidates.append((place, seal, history_hash.copy()))
        _add_to_hash(history_hash, items)
    for place, seal, before in reversed(candidates):
        if seal == _compute_seal(before, history[place][1], dialect):
            return place
    return None


def last_in_conversation(
    messages: Messages, history: Sequence[Encoded], conversation: str, dialect: ResponsesDialect
) -> int | None:
    """Return the index of the last model turn that was received in a conversation on the server.

    Args:
        messages: the conversation, including turns that are not sent.
        history: the turns that are sent as messages.
        conversation: id of the conversation on the server.
        dialect: settings of the provider.

    Returns:
        The index, or `None` if no turn was received in that conversation.

    Raises:
        UnsupportedOptionError: the last of these turns is not in `history`.
    """
    ids = [_id_in_conversation(turn, conversation, dialect) for _, turn in messages.turns]
    received = [id_ for id_ in ids if id_ is not None]
    if not received:
        return None
    for place in range(len(history) - 1, -1, -1):
        if _id_in_conversation(history[place][1], conversation, dialect) == received[-1]:
            return place
    msg = (
        f"the conversation {conversation!r} on the server contains a response that is no longer part of this history, "
        "for example after rewind() or summarize(): create another conversation, which receives the history as it is "
        "now, or remove the option"
    )
    raise UnsupportedOptionError(msg)


def sealed(turn: Turn, history: Sequence[Encoded], dialect: ResponsesDialect) -> Turn:
    """Add a seal, a hash of the conversation, to the metadata of a turn if the server stored its response.

    Args:
        turn: the received turn, which is changed in place.
        history: all turns of the request, including turns that were not sent.
        dialect: settings of the request.

    Returns:
        The turn that was passed.
    """
    metadata = turn.metadata
    if metadata is None or metadata.id is None or metadata.finish_reason != "completed":
        return turn
    if not may_chain(dialect) or (metadata.extra.get("store") is False and not dialect.socket):
        return turn
    history_hash = sha256()
    for _, _, items in history:
        _add_to_hash(history_hash, items)
    turn.metadata = replace(metadata, extra={**metadata.extra, SEAL: _compute_seal(history_hash, turn, dialect)})
    return turn


def _seal_of(turn: Turn, dialect: ResponsesDialect) -> str | None:
    """Return the stored seal of a turn, or `None`.

    The result is `None` if another provider produced the turn, or if call ids have to be replaced.
    """
    metadata = turn.metadata
    if metadata is None or metadata.provider != dialect.provider or metadata.id is None:
        return None
    seal = metadata.extra.get(SEAL)
    ids_are_known = wire_ids(turn, dialect) == [tool.call_id for tool in turn.tools]
    return seal if isinstance(seal, str) and ids_are_known else None


def _id_in_conversation(turn: Turn, conversation: str, dialect: ResponsesDialect) -> str | None:
    """Return the id of the response if it is in a conversation on the server, or `None`.

    The server adds a response to the conversation when it ends, so a part of a response is not in the conversation.
    """
    metadata = turn.metadata
    if metadata is None or metadata.provider != dialect.provider or metadata.finish_reason is None:
        return None
    return metadata.id if mapping(metadata.extra.get("conversation")).get("id") == conversation else None


def _compute_seal(history_hash: Digest, turn: Turn, dialect: ResponsesDialect) -> str:
    """Return the seal for `turn`, which is `history_hash` with the encoded turn added."""
    extended = history_hash.copy()
    extended.update(dump_bytes(model_items(turn, dialect)))
    return extended.hexdigest()[:32]


def _add_to_hash(history_hash: Digest, items: bytes) -> None:
    """Add the encoded items of one turn to `history_hash`."""
    history_hash.update(items)
    history_hash.update(b",")
