from __future__ import annotations

import gzip
import zlib

import pytest
from chat_core.transport.content import Decoder, is_expected, may_be

BODY = b"data: one\n\n" * 100


def undone(encoding: str, data: bytes) -> bytes:
    decoder = Decoder(encoding)
    said = b""
    for index in range(len(data)):
        decoder.feed(data[index : index + 1])
        while piece := decoder.read():
            said += piece
    return said


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("x-gzip", gzip.compress(BODY, mtime=0)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", zlib.compress(BODY)[2:-4]),
    ],
)
def test_an_encoding_is_undone_byte_by_byte(encoding: str, data: bytes) -> None:
    assert undone(encoding, data) == BODY


def test_a_type_promises_a_framing_or_does_not() -> None:
    assert is_expected("text/event-stream; charset=utf-8", "sse")
    assert not is_expected("application/json", "sse")
    assert is_expected("application/json", "json-array")


def test_what_a_body_begins_with_may_be_the_framing_that_was_asked_for() -> None:
    assert may_be(b"data: 1", "sse")
    assert not may_be(b"<html>", "sse")
