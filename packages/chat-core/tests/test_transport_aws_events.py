"""AWS event streams: every message is an event, however the bytes are split, and damage is an error."""

from __future__ import annotations

import struct
import zlib

import pytest
from chat_core.errors import TransportError
from chat_core.transport import AwsEvents, Event
from hypothesis import given
from hypothesis import strategies as st

EMPTY = bytes.fromhex("000000100000000005c248eb7d98c8ff")
"""The message without headers and payload in the test vectors of smithy-typescript."""


def string(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\7" + struct.pack(">H", len(value)) + value.encode()


def message(headers: bytes, payload: bytes = b"{}") -> bytes:
    head = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = head + struct.pack(">I", zlib.crc32(head)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


EVENT = message(string(":message-type", "event") + string(":event-type", "chunk"), b'{"bytes":"e30="}')
FAILURE = message(string(":message-type", "exception") + string(":exception-type", "throttlingException"))
ERROR = message(string(":message-type", "error") + string(":error-code", "429") + string(":error-message", "Slow."))
OTHER_HEADERS = message(
    b"\1a\0\1b\1\1c\2x\1d\3xx\1e\4xxxx\1f\5xxxxxxxx\1g\6\0\2xx\1h\10xxxxxxxx\1i\11"
    + b"x" * 16
    + string(":event-type", "chunk")
)
EVENTS = [
    Event("chunk", b'{"bytes":"e30="}'),
    Event("throttlingException", b"{}"),
    Event("error", b'{"code":"429","message":"Slow."}'),
    Event("chunk", b"{}"),
    Event("message", b""),
]
BODY = EVENT + FAILURE + ERROR + OTHER_HEADERS + EMPTY


@given(st.lists(st.integers(0, 40), max_size=30))
def test_messages_are_events_however_the_body_is_split(sizes: list[int]) -> None:
    parser, position, events = AwsEvents(), 0, list[Event]()
    for size in [*sizes, len(BODY)]:
        events += parser.feed(BODY[position : position + size])
        position += size
    assert events + parser.end() == EVENTS


@pytest.mark.parametrize("place", range(len(EVENT)))
def test_a_damaged_byte_raises_a_protocol_error(place: int) -> None:
    damaged = bytearray(EVENT)
    damaged[place] ^= 1
    parser = AwsEvents()
    with pytest.raises(TransportError, match="is invalid") as caught:
        parser.feed(bytes(damaged))
    assert caught.value.kind == "protocol"
    with pytest.raises(TransportError):
        parser.end()


@pytest.mark.parametrize("length", [1, 11, 12, len(EVENT) - 1])
def test_a_body_that_ends_within_a_message_raises_a_stream_error(length: int) -> None:
    parser = AwsEvents()
    assert parser.feed(EVENT + EVENT[:length]) == EVENTS[:1]
    with pytest.raises(TransportError, match=f"after {length} bytes of it") as caught:
        parser.end()
    assert caught.value.kind == "stream"


@pytest.mark.parametrize("headers", [b"\5ab", b"\1a\7\0\5ab", b"\1a\7", b"\1a", b"\1a\12"])
def test_a_header_that_is_truncated_or_unknown_raises_a_protocol_error(headers: bytes) -> None:
    with pytest.raises(TransportError, match=r"a header is truncated|an unknown type"):
        AwsEvents().feed(message(headers))


def test_events_before_a_damaged_message_are_returned() -> None:
    parser = AwsEvents()
    assert parser.feed(EVENT + b"\0" * 16) == EVENTS[:1]
    with pytest.raises(TransportError, match="the checksum of its lengths"):
        parser.feed(b"")


def test_headers_longer_than_the_message_raise_a_protocol_error() -> None:
    head = struct.pack(">II", 16, 1)
    with pytest.raises(TransportError, match="its headers are longer"):
        AwsEvents().feed(head + struct.pack(">I", zlib.crc32(head)))


def test_a_message_over_the_limit_raises_before_it_is_received() -> None:
    assert AwsEvents(len(EVENT)).feed(EVENT) == EVENTS[:1]
    with pytest.raises(TransportError, match="max_event_bytes"):
        AwsEvents(len(EVENT) - 1).feed(EVENT[:12])
