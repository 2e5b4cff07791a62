"""Mutated responses of every API raise a `ChatError`, or give a turn that can be stored, read and sent back."""

from __future__ import annotations

import os
from typing import Final

import pytest

from .exchanges import require_wire

require_wire()

from .fuzzing import WIRES, Wire, find_failures, summarize  # noqa: E402 - it reads the recordings

COUNT: Final = 50_000 if os.environ.get("CHAT_THOROUGH") else 1_000

CASES: Final = [
    pytest.param(wire, streamed, id=f"{wire.name}-{'streamed' if streamed else 'whole'}")
    for wire in WIRES
    for streamed in (False, True)
]


@pytest.mark.parametrize(("wire", "streamed"), CASES)
def test_a_mutated_response_raises_a_chat_error_or_can_be_stored_and_sent_back(wire: Wire, *, streamed: bool) -> None:
    found = find_failures(wire, streamed=streamed, count=COUNT)

    assert not found, summarize(found)
