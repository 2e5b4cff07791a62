"""Decoded chunks of response bodies, compared with h11, which httpcore uses."""

from __future__ import annotations

import itertools

import h11
import pytest
from chat_transport_httpx._chunks import ChunkDecoder, HeadSplitter
from hypothesis import given
from hypothesis import strategies as st

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunks(*bodies: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(body), body) for body in bodies)


def split(*reads: bytes) -> list[int | None]:
    """Return where the body begins in each read until the splitter is done."""
    splitter = HeadSplitter()
    return [splitter.find_body(data) for data in reads if not splitter.is_done]


def decoded(reads: list[bytes]) -> tuple[list[bytes], str]:
    """Return the same as `received()`, with the body decoded before h11 parses the rest."""
    splitter, decoder = HeadSplitter(), ChunkDecoder()
    client = asking()
    bodies: list[bytes] = []
    body, last, is_decoding = b"", "", False
    for read in reads:
        data: bytes | None = read
        if not is_decoding and not splitter.is_done and (position := splitter.find_body(read)) is not None:
            _, last = parse(client, read[:position])
            data, is_decoding = (read[position:], True) if last != "error" else (None, False)
        if is_decoding and data:
            piece, data = decoder.decode(data)
            body += piece
            last = "Data" if body else last
            is_decoding = data is None
        if data:
            piece, parsed = parse(client, data)
            body += piece
            last = parsed or last
        bodies.append(body)
        if last == "error":
            break
    return bodies, last


def asking(method: str = "POST") -> h11.Connection:
    client = h11.Connection(h11.CLIENT)
    headers = [("host", "a.example"), ("content-length", "0")]
    client.send(h11.Request(method=method, target="/chat", headers=headers))
    client.send(h11.EndOfMessage())
    return client


def parse(client: h11.Connection, data: bytes) -> tuple[bytes, str]:
    """Return the body that h11 parses from a read, and the name of the last event, or `error`."""
    client.receive_data(data)
    body, last = b"", ""
    try:
        while (event := client.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            last = type(event).__name__
            if isinstance(event, h11.Data):
                body += event.data
            if isinstance(event, h11.ConnectionClosed):
                break
    except h11.RemoteProtocolError:
        return body, "error"
    return body, last


def received(reads: list[bytes]) -> tuple[list[bytes], str]:
    """Return what h11 parses from the reads: the body after each read, and the last event or the error."""
    client = asking()
    bodies: list[bytes] = []
    body, last = b"", ""
    for data in reads:
        piece, parsed = parse(client, data)
        body += piece
        last = parsed or last
        bodies.append(body)
        if last == "error":
            break
    return bodies, last


def decode_all(*reads: bytes) -> tuple[list[bytes], bytes | None]:
    """Return the body in each read until another parser must continue, and the rest for that parser."""
    decoder, bodies = ChunkDecoder(), list[bytes]()
    for data in reads:
        body, rest = decoder.decode(data)
        bodies.append(body)
        if rest is not None:
            return bodies, rest
    return bodies, None


def test_the_chunks_of_one_read_are_returned_together() -> None:
    assert decode_all(chunks(b"one", b"two", b"three")) == ([b"onetwothree"], None)


def test_the_received_part_of_a_chunk_is_returned_at_once() -> None:
    assert decode_all(b"3\r\nt", b"w", b"o\r", b"\n3", b"\r\none\r\n") == ([b"t", b"w", b"o", b"", b"one"], None)


def test_the_last_chunk_is_left_to_the_other_parser() -> None:
    assert decode_all(chunks(b"one", b"two") + b"0\r\n\r\n") == ([b"onetwo"], b"0\r\n\r\n")


def test_the_body_begins_after_the_headers() -> None:
    assert split(CHUNKED) == [len(CHUNKED)]
    assert split(CHUNKED + chunks(b"one")) == [len(CHUNKED)]
    assert split(CHUNKED[:20], CHUNKED[20:] + chunks(b"one")) == [None, len(CHUNKED) - 20]


NOT_FOUND = {
    "a response with a length": (b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n", chunks(b"one", b"two")),
    "a response without a body": (CHUNKED.replace(b"200 OK", b"204 No"), chunks(b"one", b"two")),
    "an interim response": (b"HTTP/1.1 103 Early\r\n\r\n", CHUNKED + chunks(b"one", b"two")),
    "another version": (CHUNKED.replace(b"1.1", b"1.0"), chunks(b"one", b"two")),
    "two encodings": (CHUNKED.replace(b"chunked", b"gzip, chunked"), chunks(b"one", b"two")),
    "two headers": (CHUNKED[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", chunks(b"one", b"two")),
    "line ends without CR": (CHUNKED.replace(b"\r\n", b"\n"), b"\r\n\r\n" + chunks(b"one", b"two")),
    "very long headers": (CHUNKED[:-2] + b"x: " + b"a" * 70_000, b"\r\n\r\n" + chunks(b"one", b"two")),
}


@pytest.mark.parametrize("case", NOT_FOUND.values(), ids=list(NOT_FOUND))
def test_the_body_of_a_response_of_another_form_is_not_found(case: tuple[bytes, bytes]) -> None:
    assert split(*case) == [None]


OTHER = {
    "chunk extensions": b"3;a=b\r\none\r\n3;a=b\r\ntwo\r\n",
    "a size with a sign": b"+3\r\none\r\n+3\r\ntwo\r\n",
    "a chunk without its end": b"3\r\none3\r\ntwo\r\n",
    "no size": b"\r\n",
    "a long size": b"0000000003\r\none\r\n",
}


@pytest.mark.parametrize("rest", OTHER.values(), ids=list(OTHER))
def test_anything_but_a_plain_chunk_is_left_to_the_other_parser(rest: bytes) -> None:
    assert decode_all(rest) == ([b""], rest)
    assert decode_all(chunks(b"one", b"two") + rest) == ([b"onetwo"], rest)


def test_a_response_is_the_same_however_it_is_split() -> None:
    whole = CHUNKED + chunks(b"one", b"two" * 6, b"\r\n3\r\n") + b"0\r\ntrailer: 1\r\n\r\n"
    for first in range(len(whole)):
        for second in range(first, len(whole)):
            reads = [*filter(None, [whole[:first], whole[first:second], whole[second:]])]
            assert decoded(reads) == received(reads)


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=40), max_size=12),
    end=st.sampled_from([b"", b"0\r\n\r\n", b"0\r\na: b\r\n\r\n", b"5;x\r\nhello\r\n", b"\r\n", b"-1\r\n"]),
    changed=st.one_of(st.none(), st.tuples(st.integers(0, 400), st.binary(max_size=3))),
    cuts=st.lists(st.integers(0, 600), max_size=6),
)
def test_h11_receives_the_same_body_at_the_same_time(
    bodies: list[bytes], end: bytes, changed: tuple[int, bytes] | None, cuts: list[int]
) -> None:
    whole = CHUNKED + chunks(*bodies) + end
    if changed is not None:
        position, replacement = changed
        whole = whole[:position] + replacement + whole[position + 1 :]
    edges = [0, *sorted(cuts), len(whole)]
    reads = [data for first, last in itertools.pairwise(edges) if (data := whole[first:last])]
    assert decoded(reads) == received(reads)
