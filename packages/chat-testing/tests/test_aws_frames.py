"""Messages of AWS event streams are split, read and copied with another payload."""

from __future__ import annotations

import pytest
from chat_testing.conformance.aws_frames import encode_message, payload_of, split_messages, with_payload

ONE = encode_message(b'{"a":1}', "chunk")
TWO = encode_message(b"{}", "throttlingException", "exception")


def test_the_messages_of_a_chunk_are_split() -> None:
    assert split_messages(ONE + TWO) == [ONE, TWO]
    assert [payload_of(message) for message in (ONE, TWO)] == [b'{"a":1}', b"{}"]


def test_an_empty_chunk_has_no_messages() -> None:
    assert split_messages(b"") == []


@pytest.mark.parametrize("chunk", [ONE[:-1], ONE + b"x", b'data: {"a":1}\n\n', b"\0" * 12 + ONE])
def test_a_chunk_of_other_bytes_is_not_split(chunk: bytes) -> None:
    assert split_messages(chunk) is None


def test_a_copy_has_the_headers_of_its_message_and_another_payload() -> None:
    assert with_payload(ONE, b'{"a":23}') == encode_message(b'{"a":23}', "chunk")
