from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_core.errors import TransportError
from chat_core.transport import Event, SseParser
from hypothesis import given
from hypothesis import strategies as st

WIRE = Path(os.environ.get("CHAT_WIRE_DIR") or Path(__file__).resolve().parents[4] / "shared" / "wire")
CASES_FILE = WIRE / "sse_cases.json"
CASES: list[dict[str, Any]] = json.loads(CASES_FILE.read_text()) if CASES_FILE.exists() else []

Plain = tuple[str, bytes, str]


def parse(chunks: Iterable[bytes], limit: int = 1 << 24) -> list[Event]:
    parser = SseParser(limit)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.end()


def plain(events: Iterable[Event]) -> list[Plain]:
    return [(event.type, event.data, event.id) for event in events]


def cut(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    position = 0
    for size in sizes:
        yield data[position : position + size]
        position += size
    yield data[position:]


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[index : index + size] for index in range(0, len(data), size)]


def standard(data: bytes) -> tuple[list[Plain], str, int | None]:
    """Parse a stream with a direct implementation of the algorithm in the standard."""
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    events: list[Plain] = []
    buffer, kind, id_buffer, last_id = "", "", "", ""
    retry: int | None = None
    for line in text.split("\n")[:-1]:
        if not line:
            last_id = id_buffer
            if buffer:
                events.append((kind or "message", buffer[:-1].encode(), last_id))
            buffer, kind = "", ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            buffer += value + "\n"
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            id_buffer = value
        elif name == "retry" and value.isascii() and value.isdigit():
            retry = int(value)
    return events, last_id, retry


# The recorded cases


def test_standard_sse_cases_are_available() -> None:
    if not CASES:
        pytest.skip(f"no {CASES_FILE}: set CHAT_WIRE_DIR")
    assert len(CASES) >= 86


if CASES:

    @pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
    @pytest.mark.parametrize("limit", [1 << 24, 70_000])
    def test_sse_parser_passes_a_case_of_the_standard(case: dict[str, Any], limit: int) -> None:
        as_given = [base64.b64decode(chunk) for chunk in case["chunks"]]
        whole = b"".join(as_given)
        expected = [(event["event"], event["data"].encode(), event["id"]) for event in case["expected"]]
        for chunks in (as_given, [whole], in_pieces(whole, 1), in_pieces(whole, 2), in_pieces(whole, 3)):
            parser = SseParser(limit)
            events = [event for chunk in chunks for event in parser.feed(chunk)]
            assert plain(events) == expected
            assert parser.end() == []
            assert parser.last_event_id == case["last_event_id"]
            assert parser.reconnection_time == case["reconnection_time"]

    @given(st.sampled_from(CASES), st.lists(st.integers(0, 12), max_size=80))
    def test_sse_parser_passes_a_case_of_the_standard_split_at_random(case: dict[str, Any], sizes: list[int]) -> None:
        whole = b"".join(base64.b64decode(chunk) for chunk in case["chunks"])
        expected = [(event["event"], event["data"].encode(), event["id"]) for event in case["expected"]]
        assert plain(parse(cut(whole, sizes))) == expected


# The standard, on streams made of what matters to it

PIECES = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data",
        b"event: ",
        b"event:",
        b"event",
        b"id: ",
        b"id",
        b"retry: ",
        b":",
        b" ",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\r\n\r\n",
        b"x",
        b"12",
        b'{"a": "b"}',
        b"data: x\n\n",
        b"event: a\ndata: y\n\n",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xef",
        b"\xe2\x82",
        b"\xac",
        b"\xff",
        "é豆🥌\u2028\u0085".encode(),
    ]
)
STREAMS = st.lists(PIECES, max_size=40).map(b"".join)
CUTS = st.lists(st.integers(0, 9), max_size=60)


@given(STREAMS, CUTS)
def test_sse_parser_agrees_with_the_standard_however_the_stream_is_split(data: bytes, sizes: list[int]) -> None:
    parser = SseParser()
    events = [event for chunk in cut(data, sizes) for event in parser.feed(chunk)]
    expected, last_id, _ = standard(data)
    assert plain(events) == expected
    assert parser.last_event_id == last_id


@given(STREAMS, CUTS)
def test_sse_parser_state_after_a_complete_block_agrees_with_the_standard(data: bytes, sizes: list[int]) -> None:
    data += b"\n\n"
    parser = SseParser()
    events = [event for chunk in cut(data, sizes) for event in parser.feed(chunk)]
    assert (plain(events), parser.last_event_id, parser.reconnection_time) == standard(data)


@given(STREAMS, CUTS, st.integers(1, 30))
def test_event_limit_has_the_same_result_however_the_stream_is_split(data: bytes, sizes: list[int], limit: int) -> None:
    def outcome(chunks: Iterable[bytes]) -> tuple[list[Plain], bool]:
        parser = SseParser(limit)
        events: list[Event] = []
        try:
            for chunk in chunks:
                events += parser.feed(chunk)
            parser.end()
        except TransportError:
            return plain(events), True
        return plain(events), False

    events, failed = outcome([data])
    if failed:
        assert outcome(cut(data, sizes)) == (events, True)
    else:
        assert outcome(cut(data, sizes)) == (events, False)
        assert events == standard(data)[0]


# Properties of the parser


def test_event_without_a_closing_empty_line_is_dropped() -> None:
    assert parse([b"data: a\n\ndata: [DONE]\n"]) == [Event("message", b"a")]


def test_trailing_cr_ends_a_line_immediately() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n\r") == [Event("message", b"a")]
    assert parser.feed(b"\ndata: b\n\n") == [Event("message", b"b")]


def test_character_split_between_chunks_is_decoded() -> None:
    assert parse(in_pieces("data: 豆\n\n".encode(), 1)) == [Event("message", "豆".encode())]


def test_unicode_line_separators_do_not_end_a_line() -> None:
    text = '{"a":"x\u2028y\u0085z\x0c\x1e"}'
    assert parse([f"data: {text}\n\n".encode()]) == [Event("message", text.encode())]


def test_sse_parser_reads_any_number_of_event_names() -> None:
    names = [f"name-{number}" for number in range(1000)]
    events = parse([f"event: {name}\ndata: x\n\n".encode() for name in names])
    assert [event.type for event in events] == names


def test_retry_field_with_too_many_digits_is_ignored() -> None:
    parser = SseParser()
    parser.feed(b"retry: " + b"9" * 5000 + b"\n\n")
    assert parser.reconnection_time is None


def test_event_names_and_data_lines_are_paired_by_block_and_not_by_count() -> None:
    assert parse([b"event: a\n\nevent: b\ndata: 1\ndata: 2\n\n"]) == [Event("b", b"1\n2")]
    assert parse([b"event: a\ndata: 1\ndata: 2\n\nevent: b\n\n"]) == [Event("a", b"1\n2")]


# The limit


def test_event_may_be_as_long_as_the_limit_and_not_longer() -> None:
    fits, over = b"data: " + b"x" * 1000 + b"\n\n", b"data: " + b"x" * 1001 + b"\n\n"
    for size in (1, 7, 1000, 5000):
        assert parse(in_pieces(fits, size), 1000) == [Event("message", b"x" * 1000)]
        with pytest.raises(TransportError, match="longer than 1000 bytes") as caught:
            parse(in_pieces(over, size), 1000)
        assert caught.value.kind == "protocol"


def test_endless_line_raises_before_it_is_buffered() -> None:
    parser = SseParser(1000)
    assert parser.feed(b"x" * 600) == []
    with pytest.raises(TransportError):
        parser.feed(b"x" * 600)


def test_comments_are_not_events_and_are_not_buffered() -> None:
    parser = SseParser(1000)
    for _ in range(10_000):
        assert parser.feed(b": keep alive\n") == []
    assert parser.feed(b"data: x\n\n") == [Event("message", b"x")]


def test_events_before_an_event_that_is_too_long_are_returned_first() -> None:
    parser = SseParser(10)
    assert parser.feed(b"data: a\n\ndata: " + b"x" * 11 + b"\n\n") == [Event("message", b"a")]
    for _ in range(2):
        with pytest.raises(TransportError):
            parser.feed(b"data: b\n\n")
    with pytest.raises(TransportError):
        parser.end()


def test_data_lines_of_one_event_count_together_toward_the_limit() -> None:
    fits = b"data: 1234\n" * 20
    assert parse(in_pieces(fits + b"\n", 3), 99) == [Event("message", b"\n".join([b"1234"] * 20))]
    with pytest.raises(TransportError):
        parse(in_pieces(fits + b"\n", 3), 98)


def test_line_longer_than_the_limit_raises_even_if_it_is_complete() -> None:
    parser = SseParser(50)
    assert parser.feed(b": comment\n" * 6) == []
    with pytest.raises(TransportError):
        parser.feed(b"x" * 60 + b"\n")


def test_events_after_a_long_block_of_comments_are_parsed() -> None:
    data = b": comment\n" * 20 + b"data: a\n\ndata: b\n\nevent: c\ndata: c\n\nda"
    events = [Event("message", b"a"), Event("message", b"b"), Event("c", b"c")]
    for size in (1, 10, 1000):
        assert parse(in_pieces(data, size), 50) == events


# Time


def seconds(data: bytes, size: int) -> float:
    chunks = in_pieces(data, size)
    best = 60.0
    for _ in range(3):
        start = time.process_time()
        assert len(parse(chunks)) == 1
        best = min(best, time.process_time() - start)
    return best


def test_parsing_time_per_byte_does_not_grow_with_the_length_of_an_event() -> None:
    short, long = (b"data: " + b"x" * size + b"\n\n" for size in (1_000_000, 10_000_000))
    assert seconds(long, 1024) < 40 * seconds(short, 1024)  # ten times the bytes; a quadratic parser takes a hundred
