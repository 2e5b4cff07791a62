"""Texts of this package that a model receives or that a stored conversation contains.

The texts are part of the package's behavior: stored conversations repeat them, and prompts are tuned to them. The test
of this module checks their exact bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chat_core.json import dumps

CALL_TRUNCATED: Final = "the answer was cut before this call was whole"
"""Value of `FunctionCall.problem` for a call in a truncated item."""


def rejected_edit(arguments: Mapping[str, object]) -> str:
    """Return the rejection reason for a remote tool call whose approver changed the arguments to `arguments`."""
    return f"Ask for this instead: {dumps(dict(arguments))}"
