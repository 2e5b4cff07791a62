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
    decoder.end()
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
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("gzip", gzip.compress(BODY, mtime=0) * 2),
        ("deflate", zlib.compress(BODY)),
        ("deflate", zlib.compress(BODY)[2:-4]),
    ],
)
def test_a_truncated_body_raises_at_its_end(encoding: str, data: bytes) -> None:
    assert undone(encoding, b"") == b""  # an empty body is complete
    whole_members = len(data) // 2 if data.count(b"\x1f\x8b\x08") > 1 else 0
    for length in {*range(1, len(data))} - {whole_members}:
        with pytest.raises(EOFError, match="ended before its end marker"):
            undone(encoding, data[:length])


@pytest.mark.parametrize("surplus", [0, 1, 100])
def test_output_that_does_not_fit_in_a_piece_needs_no_other_chunk(surplus: int) -> None:
    body = b"a" * (1024 * 1024 + surplus)
    decoder = Decoder("deflate")
    decoder.feed(zlib.compress(body, wbits=-zlib.MAX_WBITS))
    assert b"".join(iter(decoder.read, b"")) == body
    decoder.end()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_of_empty_chunks_is_complete(encoding: str) -> None:
    decoder = Decoder(encoding)
    decoder.feed(b"")  # such as an HTTP/2 frame without data that ends the body
    assert decoder.read() == b""
    decoder.end()


def test_bytes_after_a_compressed_body_raise() -> None:
    for surplus in (b"\0\0\0\0", b"HTTP/1.1 200 OK"):
        with pytest.raises(zlib.error):
            undone("gzip", gzip.compress(BODY) + surplus)


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
