"""Joined chunks of response bodies, compared with the unchanged bytes in h11, which httpcore uses."""

from __future__ import annotations

import itertools

import h11
import pytest
from chat_transport_httpx._chunks import ChunkJoiner
from hypothesis import given
from hypothesis import strategies as st

REQUEST = b"POST /chat HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunks(*bodies: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(body), body) for body in bodies)


def joined(*reads: bytes, request: bytes = REQUEST) -> list[bytes]:
    joiner = ChunkJoiner()
    joiner.start(request)
    return [joiner.join(data) for data in reads]


def received(reads: list[bytes], method: str = "POST") -> tuple[list[bytes], str]:
    """Return what h11 parses from the reads: the body after each read, and the last event or the error."""
    client = h11.Connection(h11.CLIENT)
    headers = [("host", "a.example"), ("content-length", "0")]
    client.send(h11.Request(method=method, target="/chat", headers=headers))
    client.send(h11.EndOfMessage())
    bodies: list[bytes] = []
    body, last = b"", ""
    for data in reads:
        client.receive_data(data)
        try:
            while (event := client.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                last = type(event).__name__
                if isinstance(event, h11.Data):
                    body += event.data
                if isinstance(event, h11.ConnectionClosed):
                    break
        except h11.RemoteProtocolError:
            return [*bodies, body], "error"
        bodies.append(body)
    return bodies, last


def test_the_chunks_of_one_read_are_joined() -> None:
    assert joined(CHUNKED, chunks(b"one", b"two", b"three")) == [CHUNKED, chunks(b"onetwothree")]


def test_chunks_that_arrive_with_the_headers_are_joined() -> None:
    assert joined(CHUNKED + chunks(b"one", b"two")) == [CHUNKED + chunks(b"onetwo")]


def test_the_end_of_the_body_is_kept() -> None:
    assert joined(CHUNKED, chunks(b"one", b"two") + b"0\r\n\r\n") == [CHUNKED, chunks(b"onetwo") + b"0\r\n\r\n"]


def test_bytes_before_the_first_request_are_unchanged() -> None:
    data = CHUNKED + chunks(b"one", b"two")
    assert ChunkJoiner().join(data) == data


def test_the_next_response_of_a_connection_is_joined() -> None:
    joiner = ChunkJoiner()
    for _ in range(3):
        joiner.start(REQUEST)
        assert joiner.join(CHUNKED + chunks(b"one", b"two") + b"0\r\n\r\n").endswith(chunks(b"onetwo") + b"0\r\n\r\n")


UNCHANGED = {
    "a response to HEAD": (CHUNKED, chunks(b"one", b"two"), b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n"),
    "a response with a length": (b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n", chunks(b"one", b"two"), REQUEST),
    "a response without a body": (CHUNKED.replace(b"200 OK", b"204 No"), chunks(b"one", b"two"), REQUEST),
    "an interim response": (b"HTTP/1.1 103 Early\r\n\r\n", CHUNKED + chunks(b"one", b"two"), REQUEST),
    "another version": (CHUNKED.replace(b"1.1", b"1.0"), chunks(b"one", b"two"), REQUEST),
    "two encodings": (CHUNKED.replace(b"chunked", b"gzip, chunked"), chunks(b"one", b"two"), REQUEST),
    "two headers": (CHUNKED[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", chunks(b"one", b"two"), REQUEST),
    "line ends without CR": (CHUNKED.replace(b"\r\n", b"\n"), b"\r\n\r\n" + chunks(b"one", b"two"), REQUEST),
    "very long headers": (CHUNKED[:-2] + b"x: " + b"a" * 70_000, b"\r\n\r\n" + chunks(b"one", b"two"), REQUEST),
    "chunk extensions": (CHUNKED, b"3;a=b\r\none\r\n3;a=b\r\ntwo\r\n", REQUEST),
    "a size with a sign": (CHUNKED, b"+3\r\none\r\n+3\r\ntwo\r\n", REQUEST),
    "a chunk without its end": (CHUNKED, b"3\r\none3\r\ntwo\r\n", REQUEST),
}


@pytest.mark.parametrize("case", UNCHANGED.values(), ids=list(UNCHANGED))
def test_responses_of_another_form_are_unchanged(case: tuple[bytes, bytes, bytes]) -> None:
    head, body, request = case
    assert joined(head, body, body, request=request) == [head, body, body]


def test_chunks_before_an_invalid_one_are_joined_and_the_rest_is_unchanged() -> None:
    rest = b"z\r\n" + chunks(b"three", b"four")
    assert joined(CHUNKED, chunks(b"one", b"two") + rest, rest) == [CHUNKED, chunks(b"onetwo") + rest, rest]


def test_a_response_is_the_same_however_it_is_split() -> None:
    whole = CHUNKED + chunks(b"one", b"two" * 6, b"\r\n3\r\n") + b"0\r\ntrailer: 1\r\n\r\n"
    for first in range(len(whole)):
        for second in range(first, len(whole)):
            reads = [whole[:first], whole[first:second], whole[second:]]
            assert received(joined(*filter(None, reads))) == received(list(filter(None, reads)))


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
    result = joined(*reads)
    assert received(result) == received(reads)
    assert all(len(new) <= len(old) for new, old in zip(result, reads, strict=True))
