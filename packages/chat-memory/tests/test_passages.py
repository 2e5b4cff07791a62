"""Passages and vectors: what they may contain."""

from __future__ import annotations

import struct

import pytest
from chat_core.errors import UsageError
from chat_memory import Passage
from chat_memory.passages import vector_to_bytes


def test_the_kind_fact_is_reserved() -> None:
    with pytest.raises(UsageError, match="add a Statement"):
        Passage("I live in Berlin.", "chat-17", kind="fact")


def test_a_vector_is_stored_as_little_endian_numbers() -> None:
    assert vector_to_bytes([1, 0.5]) == struct.pack("<2f", 1, 0.5)


@pytest.mark.parametrize("vector", [[], [1e300], ["a"]])
def test_what_is_no_vector_is_refused(vector: list[float]) -> None:
    with pytest.raises(UsageError):
        vector_to_bytes(vector)
