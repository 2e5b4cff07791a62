from __future__ import annotations

import gzip
import zlib

import pytest
from chat_core.transport import Headers
from chat_core.transport.content_encoding import Decoder, content_encoding, decoded_headers, decoder_for

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
def test_decoder_decodes_gzip_and_deflate_byte_by_byte(encoding: str, data: bytes) -> None:
    assert undone(encoding, data) == BODY


@pytest.mark.parametrize(
    ("declared", "encoding", "left"),
    [
        ({}, "identity", {}),
        ({"content-encoding": " GZIP ", "content-length": "5", "x": "1"}, "gzip", {"x": "1"}),
        ({"content-encoding": "identity", "content-length": "5"}, "identity", {}),
        ({"content-encoding": "br", "content-length": "5"}, "br", {"content-encoding": "br", "content-length": "5"}),
    ],
)
def test_headers_of_a_decoded_body_do_not_declare_its_encoding(
    declared: dict[str, str], encoding: str, left: dict[str, str]
) -> None:
    headers = Headers(declared)
    assert content_encoding(headers) == encoding
    assert dict(decoded_headers(headers)) == left
    assert (decoder_for(headers) is not None) == (encoding == "gzip")
