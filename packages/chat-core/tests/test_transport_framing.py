from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import pytest
from chat_core.errors import TransportError
from chat_core.transport import Event, EventStream, Framing, Headers, JsonArray, JsonLines, SseParser, framed, framer
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio

CUTS = st.lists(st.integers(0, 9), max_size=60)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(['a"b', "\\", "[{", '\\"', "\u2028"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def cut(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    position = 0
    for size in sizes:
        yield data[position : position + size]
        position += size
    yield data[position:]


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[index : index + size] for index in range(0, len(data), size)]


def read(framing: Framing, chunks: Iterable[bytes], limit: int = 1 << 24) -> list[bytes]:
    cutter = framer(framing, limit)
    events = [event for chunk in chunks for event in cutter.feed(chunk)]
    return [event.data for event in events + cutter.end()]


# JSON lines


@given(st.lists(JSON_VALUES, max_size=8), st.sampled_from(["\n", "\r\n", "\n\n", " \n"]), st.booleans(), CUTS)
def test_json_lines_are_parsed_however_they_are_split(
    values: list[Any], end: str, last_end: bool, sizes: list[int]
) -> None:
    text = end.join(json.dumps(value, ensure_ascii=False) for value in values) + (end if last_end else "")
    data = text.encode(errors="replace")
    whole = read("json-lines", [data])
    assert [json.loads(event) for event in whole] == [json.loads(line) for line in data.split(b"\n") if line.strip()]
    assert read("json-lines", cut(data, sizes)) == whole


def test_json_lines_without_a_final_line_break_end_with_a_complete_line() -> None:
    assert read("json-lines", [b'{"a": 1}\n{"b"', b": 2}"]) == [b'{"a": 1}', b'{"b": 2}']


def test_json_line_with_an_escaped_lone_surrogate_is_complete() -> None:
    assert read("json-lines", [rb'{"a": "\ud83d"}']) == [rb'{"a": "\ud83d"}']


def test_json_lines_that_end_within_a_value_raise() -> None:
    cutter = JsonLines()
    assert cutter.feed(b'{"a": 1}\n{"b": ') == [Event("message", b'{"a": 1}')]
    with pytest.raises(TransportError, match="in the middle of a JSON value") as caught:
        cutter.end()
    assert caught.value.kind == "stream"


def test_byte_order_mark_before_json_lines_is_removed() -> None:
    assert read("json-lines", [b"\xef", b"\xbb\xbf{}\n"]) == [b"{}"]


def test_invalid_utf8_in_json_lines_is_replaced() -> None:
    assert read("json-lines", [b'"a\xff"\n']) == ['"a\ufffd"'.encode()]


def test_json_line_may_be_as_long_as_the_limit_and_not_longer() -> None:
    fits, over = b'"' + b"x" * 98 + b'"\r\n', b'"' + b"x" * 99 + b'"\r\n'
    for size in (1, 7, 500):
        assert read("json-lines", in_pieces(fits, size), 100) == [fits.strip()]
        with pytest.raises(TransportError, match="longer than 100 bytes"):
            read("json-lines", in_pieces(over, size), 100)


def test_endless_json_line_raises_before_it_is_buffered() -> None:
    cutter = JsonLines(100)
    assert cutter.feed(b"x" * 80) == []
    with pytest.raises(TransportError):
        cutter.feed(b"x" * 80)
    with pytest.raises(TransportError):
        cutter.end()


def test_json_lines_before_a_line_that_is_too_long_are_returned_first() -> None:
    cutter = JsonLines(10)
    assert cutter.feed(b"1\n" + b"2" * 11 + b"\n") == [Event("message", b"1")]
    with pytest.raises(TransportError):
        cutter.feed(b"3\n")


# One JSON array


@given(st.lists(JSON_VALUES, max_size=6), st.sampled_from([None, 2]), st.sampled_from(["", "\r\n", " "]), CUTS)
def test_json_array_is_parsed_however_it_is_split(
    values: list[Any], indent: int | None, pad: str, sizes: list[int]
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False).replace("\n", "\r\n")
    data = (pad + text + pad).encode(errors="replace")
    whole = read("json-array", [data])
    assert [json.loads(event) for event in whole] == json.loads(data)
    assert read("json-array", cut(data, sizes)) == whole
    assert read("json-array", in_pieces(data, 1)) == whole


@given(st.lists(JSON_VALUES, max_size=4), CUTS)
def test_truncated_json_array_raises_a_stream_error(values: list[Any], sizes: list[int]) -> None:
    data = json.dumps(values).encode()
    for end in range(len(data)):
        with pytest.raises(TransportError) as caught:
            read("json-array", cut(data[:end], sizes))
        assert caught.value.kind == "stream"


def test_json_array_element_is_returned_with_its_last_byte() -> None:
    cutter = JsonArray()
    assert cutter.feed(b'[{"a": "}]"}') == [Event("message", b'{"a": "}]"}')]
    assert cutter.feed(b"\r\n") == []
    assert cutter.feed(b',\r\n{"b": [') == []
    assert cutter.feed(b"]}") == [Event("message", b'{"b": []}')]
    assert cutter.feed(b"\r\n]\r\n") == []
    assert cutter.end() == []


def test_backslash_at_the_end_of_a_chunk_escapes_the_next_character() -> None:
    assert read("json-array", [b'[{"a": "\\', b'"}, {"}]']) == [b'{"a": "\\"}, {"}']


@pytest.mark.parametrize("body", [b'{"error": {"code": 400}}', b"<html>no</html>", b'"[1]"'])
def test_body_that_is_not_a_json_array_raises_with_its_beginning(body: bytes) -> None:
    with pytest.raises(TransportError, match="not a JSON array") as caught:
        read("json-array", [b" \r\n", body])
    assert caught.value.kind == "protocol"
    assert caught.value.body == body


def test_data_after_the_json_array_raises() -> None:
    cutter = JsonArray()
    assert cutter.feed(b"[1] [2]") == [Event("message", b"1")]
    with pytest.raises(TransportError, match="continues after the end of its JSON array"):
        cutter.end()
    with pytest.raises(TransportError, match="continues after the end of its JSON array"):
        read("json-array", [b"[1]", b" ", b"2"])


def test_json_array_element_may_be_as_long_as_the_limit_and_not_longer() -> None:
    fits, over = b'{"a": "' + b"x" * 91 + b'"}', b'{"a": "' + b"x" * 92 + b'"}'
    for size in (1, 7, 500):
        assert read("json-array", in_pieces(b"[" + fits + b" , " + fits + b"]", size), 100) == [fits, fits]
        with pytest.raises(TransportError, match="longer than 100 bytes"):
            read("json-array", in_pieces(b"[" + over + b"]", size), 100)


def test_endless_json_array_element_raises_before_it_is_buffered() -> None:
    cutter = JsonArray(100)
    assert cutter.feed(b'[1, "' + b"x" * 80) == [Event("message", b"1")]
    with pytest.raises(TransportError):
        cutter.feed(b"x" * 80)
    with pytest.raises(TransportError):
        cutter.feed(b"x")


def test_white_space_between_array_elements_is_not_buffered() -> None:
    cutter = JsonArray(100)
    cutter.feed(b"[1")
    for _ in range(100):
        cutter.feed(b" ,\n")
        assert cutter.feed(b" " * 90 + b"\n") == []
    assert cutter.feed(b"2]") == [Event("message", b"2")]


def seconds(cutter: Callable[[], Any], data: bytes) -> float:
    best = 60.0
    for _ in range(3):
        reader = cutter()
        start = time.process_time()
        assert sum(len(reader.feed(chunk)) for chunk in in_pieces(data, 1024)) == 1
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(("cutter", "before", "after"), [(JsonLines, b'"', b'"\n'), (JsonArray, b'[{"a":"', b'"}]')])
def test_parsing_time_per_byte_does_not_grow_with_the_length_of_an_event(
    cutter: Callable[[], Any], before: bytes, after: bytes
) -> None:
    short, long = (before + rb"\n" * size + after for size in (500_000, 5_000_000))
    assert seconds(cutter, long) < 40 * seconds(cutter, short)  # ten times the bytes; a quadratic one takes a hundred


# From chunks to batches


def test_framer_returns_the_parser_of_each_framing() -> None:
    assert isinstance(framer("sse"), SseParser)
    assert isinstance(framer("json-lines"), JsonLines)
    assert isinstance(framer("json-array"), JsonArray)


class Chunks:
    """Body that records whether it was closed."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.chunks:
            raise StopAsyncIteration
        return self.chunks.pop(0)

    async def aclose(self) -> None:
        self.closed = True


async def test_framed_yields_all_events_that_a_chunk_completes_as_one_batch() -> None:
    chunks = Chunks(b"data: a\n\ndata: b\n\nda", b"ta: c", b"\n\n")
    batches = [[event.data for event in batch] async for batch in framed(chunks, "sse")]
    assert batches == [[b"a", b"b"], [b"c"]]
    assert chunks.closed


async def test_framed_yields_or_rejects_the_remainder_at_the_end_of_the_body() -> None:
    assert [batch async for batch in framed(Chunks(b"1\n2"), "json-lines")] == [
        [Event("message", b"1")],
        [Event("message", b"2")],
    ]
    chunks = Chunks(b"[1,")
    with pytest.raises(TransportError):
        [batch async for batch in framed(chunks, "json-array")]
    assert chunks.closed


async def test_closing_framed_closes_the_chunks() -> None:
    chunks = Chunks(b"data: a\n\n", b"data: b\n\n")
    async with aclosing(framed(chunks, "sse")) as batches:
        async for _ in batches:
            break
        assert not chunks.closed
    assert chunks.closed


async def test_closing_framed_closes_a_generator_of_chunks() -> None:
    seen: list[str] = []

    async def chunks() -> AsyncGenerator[bytes]:
        try:
            yield b"data: a\n\n"
        finally:
            seen.append("closed")

    async with aclosing(framed(chunks(), "sse")) as batches:
        assert await anext(batches) == [Event("message", b"a")]
    assert seen == ["closed"]


async def test_error_of_the_chunks_propagates_and_closes_them() -> None:
    class Broken(Chunks):
        async def __anext__(self) -> bytes:
            raise TransportError("stream", "reset")

    chunks = Broken()
    with pytest.raises(TransportError, match="reset"):
        [batch async for batch in framed(chunks, "sse")]
    assert chunks.closed


async def test_errors_of_the_chunks_are_translated_by_the_passed_context_manager() -> None:
    class ForeignError(Exception):
        pass

    class Broken(Chunks):
        async def __anext__(self) -> bytes:
            if self.chunks:
                return self.chunks.pop(0)
            raise ForeignError

    @contextmanager
    def translated() -> Generator[None]:
        try:
            yield
        except ForeignError as exc:
            msg = "reset"
            raise TransportError("stream", msg) from exc

    chunks = Broken(b"data: a\n\n")
    async with aclosing(framed(chunks, "sse", errors=translated())) as batches:
        assert await anext(batches) == [Event("message", b"a")]
        with pytest.raises(TransportError, match="reset") as caught:
            await anext(batches)
    assert isinstance(caught.value.__cause__, ForeignError)
    assert chunks.closed


async def test_framed_ends_at_the_last_event_even_if_the_connection_continues() -> None:
    chunks = Chunks(b"data: a\n\n", b"data: b\n\ndata: end\n\ndata: of the next answer\n\n", b"data: c\n\n")
    batches = [batch async for batch in framed(chunks, "sse", is_last=lambda event: event.data == b"end")]
    assert [[event.data for event in batch] for batch in batches] == [[b"a"], [b"b", b"end"]]


async def test_framed_passes_the_event_limit_to_the_framer() -> None:
    with pytest.raises(TransportError, match="longer than 5 bytes"):
        [batch async for batch in framed(Chunks(b"data: 123456\n\n"), "sse", max_event_bytes=5)]


async def test_event_stream_iterates_over_single_events() -> None:
    stream = EventStream(200, Headers(), framed(Chunks(b"data: a\n\ndata: b\n\n", b"data: c\n\n"), "sse"))
    first = [event.data async for event in stream]
    assert first == [b"a", b"b", b"c"]
