"""Check that a turn returned by a provider can be stored and read again without changes."""

from __future__ import annotations

from chat_core.errors import InvalidResponseError
from chat_core.messages import _turn_faults
from chat_core.messages._fields import MalformedError
from chat_core.messages.content import Turn
from chat_core.messages.messages import Messages

MOST_LEVELS = _turn_faults.MOST_LEVELS


def require_storable(turn: Turn) -> Turn:
    """Return `turn` if it can be stored: its fields have the right types, and its data is JSON of limited depth.

    Providers are not trusted to check this: a turn that could not be read again would make the whole conversation
    unreadable, and a value such as a date would be read as text.

    Args:
        turn: turn that a provider returned.

    Raises:
        InvalidResponseError: a field has another type, or metadata, opaque data, arguments or another value is not
            JSON, or it is nested more deeply than `MOST_LEVELS`. `path` names the field.
    """
    if (fault := find_turn_fault(turn)) is not None:
        msg = f"the provider returned a turn that cannot be stored: {fault.where}{fault.message}"
        # The usage of `partial` is reported as the usage of the failed call, so invalid metadata is left out.
        partial = Turn(turn.parts) if fault.where in {"metadata", "metadata.usage"} else turn
        raise InvalidResponseError(msg, path=fault.where, partial=partial)
    return turn


def find_turn_fault(turn: Turn) -> MalformedError | None:
    """Return an error that describes why a turn cannot be stored and read again without changes, or None."""
    return _turn_faults.find_turn_fault(turn, Messages)
