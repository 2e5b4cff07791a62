"""The texts that a model receives, or that enter a stored conversation, written by this package.

They are part of its behavior: stored conversations repeat them, and prompts are tuned to them. The test of this module
has their exact bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chat_core.json import dumps

CALL_TRUNCATED: Final = "the answer was cut before this call was whole"
"""Problem of a call in a truncated item."""


def rejected_edit(arguments: Mapping[str, object]) -> str:
    """Return the reason for rejecting a remote tool whose approver gave other `arguments`."""
    return f"Ask for this instead: {dumps(dict(arguments))}"
