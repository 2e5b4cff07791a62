"""The base class of decoders, tested with a minimal protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.errors import ChatError, InvalidResponseError, ServerError, StreamTruncatedError
from chat_core.events import TextDelta
from chat_core.messages import Text, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Metadata, Usage
from chat_core.wire.event_decoder import SKIP, EventDecoder
from chat_core.wire.shapes import is_object, require_text

USAGE = Usage(input_tokens=7)


class EchoDecoder(EventDecoder):
    """The decoder of `{"text": "…"}` and `{"end": true}`."""

    TERMINATOR = "`end`"

    def __init__(self) -> None:
        super().__init__("echo")
        self.texts: list[str] = []

    def take(self, chunk: Any, name: str, out: list[Delta], /) -> None:
        if name == "error":
            message = "overloaded"
            raise ServerError(message)
        if chunk.get("end"):
            self.done = True
        else:
            text = require_text(chunk["text"], "text")
            self.texts.append(text)
            out.append(TextDelta(text))

    def take_body(self, body: Any, /) -> None:
        self.take(body, "message", [])
        self.done = True

    def parse_irregular(self, event: Event) -> object:
        if event.data == b"stop":
            self.done = True
        return SKIP if event.data in (b"", b"stop") else super().parse_irregular(event)

    def full_path(self, path: str) -> str:
        return f"echo.{path}"

    def shape_error(self, chunk: object) -> ChatError | None:
        return self.wrong_shape(None if is_object(chunk) and "text" in chunk else "")

    def finish(self) -> Turn:
        if not self.done:
            raise self.truncated(len(self.texts))
        return self.partial()

    def partial(self) -> Turn:
        return Turn([Text("".join(self.texts))], metadata=Metadata("echo", "m", usage=USAGE))


def events(*chunks: object, name: str = "message") -> list[Event]:
    return [Event(name, one if isinstance(one, bytes) else json.dumps(one).encode()) for one in chunks]


def test_decoder_converts_events_to_deltas_and_a_turn() -> None:
    decoder = EchoDecoder()
    assert decoder.feed(events({"text": "a"}, b"", {"text": "b"})) == [TextDelta("a"), TextDelta("b")]
    assert decoder.feed(events({"end": True}, {"text": "late"})) == []
    assert decoder.feed(events({"text": "later"})) == []
    assert decoder.close().text == "ab"


def test_skipped_data_can_end_the_response() -> None:
    decoder = EchoDecoder()
    assert decoder.feed(events({"text": "a"}, b"stop", {"text": "late"})) == [TextDelta("a")]
    assert decoder.close().text == "a"


def test_read_decodes_a_whole_body_like_events() -> None:
    assert EchoDecoder().read(b'{"text": "a"}').text == "a"
    with pytest.raises(InvalidResponseError) as error:
        EchoDecoder().read(b'{"text": 7}')
    assert (error.value.path, error.value.raw, str(error.value)) == (
        "echo.text",
        b'{"text": 7}',
        "echo: echo.text is not a string",
    )


def test_deltas_before_a_failure_are_returned_before_it_raises() -> None:
    decoder = EchoDecoder()
    assert decoder.feed(events({"text": "a"}) + events({}, name="error")) == [TextDelta("a")]
    for raised in (lambda: decoder.feed(events({"text": "b"})), decoder.close):
        with pytest.raises(ServerError) as error:
            raised()
        assert error.value is decoder.failure
    assert decoder.failure is not None
    assert decoder.failure.partial is not None
    assert (decoder.failure.partial.text, decoder.failure.usage) == ("a", USAGE)
    assert decoder.failure.metadata == Metadata("echo", "m", usage=USAGE)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "echo: the response is not JSON: Expecting property name enclosed in double quotes"),
        (b"[" * 300 + b"]" * 300, "echo: the response is not JSON: the JSON is nested too deeply"),
        (b"7", "echo: the response has an unexpected structure"),
    ],
)
def test_data_that_cannot_be_decoded_raises_invalid_response_error(data: bytes, message: str) -> None:
    with pytest.raises(InvalidResponseError) as error:
        EchoDecoder().feed(events(data))
    assert str(error.value).startswith(message)
    assert (error.value.path, error.value.raw) == ("", data)
    assert error.value.__cause__ is not None
    assert error.value.partial is not None


def test_error_that_is_not_caused_by_the_data_is_not_translated() -> None:
    with pytest.raises(AttributeError):
        EchoDecoder().feed([*events({"text": "a"}), None])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType] - wrong on purpose


@pytest.mark.parametrize(("calls", "lost"), [(0, ""), (1, "; 1 call was not run"), (2, "; 2 calls were not run")])
def test_truncated_stream_error_reports_size_calls_and_usage(calls: int, lost: str) -> None:
    decoder = EchoDecoder()
    for _ in range(calls):
        decoder.feed(events({"text": "a"}))
    with pytest.raises(StreamTruncatedError) as error:
        decoder.close()
    size = len(b'{"text": "a"}') * calls
    assert str(error.value) == f"the stream of echo ended after {size} bytes without `end`{lost}; usage so far: {USAGE}"
    assert error.value.usage == USAGE


def test_character_split_between_two_events_is_joined() -> None:
    decoder = EchoDecoder()
    decoder.feed(events(b'{"text": "\\ud83e"}'))
    decoder.feed(events(b'{"text": "\\udd89"}', {"end": True}))
    assert decoder.close().text == "\U0001f989"


def test_default_hooks_of_a_decoder_do_not_translate_errors() -> None:
    decoder = EchoDecoder()
    assert EventDecoder.full_path(decoder, "a.b") == "a.b"
    assert EventDecoder.shape_error(decoder, {}) is None
    with pytest.raises(ValueError, match="x"):
        EventDecoder.parse_irregular(decoder, Event("message", b"x"))
