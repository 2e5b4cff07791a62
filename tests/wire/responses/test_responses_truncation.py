"""A recorded stream that is truncated after any event never becomes a response, and its tools do not run."""

from __future__ import annotations

import json

import pytest
from chat_core.errors import ChatError, StreamTruncatedError
from chat_core.messages import Pending
from chat_core.transport import Event
from chat_responses.codec import StreamDecoder

from ..exchanges import require_wire
from .decoding import PROVIDER, TERMINAL, Answer, answers

require_wire()


def kind_of(event: Event) -> str:
    """Return the type in the data of an event."""
    try:
        said: object = json.loads(event.data)
    except ValueError:
        return ""
    return str(said.get("type")) if isinstance(said, dict) else ""  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType] - JSON


def ended_at(answer: Answer) -> int:
    """Return the position of the event that ends a stream."""
    return next(place for place, event in enumerate(answer.events) if kind_of(event) in TERMINAL)


def streamed() -> list[Answer]:
    return [answer for answer in answers() if answer.streamed]


def test_a_stream_truncated_before_its_last_event_raises_an_error() -> None:
    cuts = 0
    for answer in streamed():
        decoder = StreamDecoder(PROVIDER)
        for place, event in enumerate(answer.events[: ended_at(answer)]):
            with pytest.raises(StreamTruncatedError) as error:
                decoder.close()
            assert error.value.retryable, answer.id
            partial = error.value.partial
            assert partial is not None
            assert all(isinstance(tool.status, Pending) for tool in partial.tools), (answer.id, place)
            assert partial.finish_reason is None
            decoder.feed([event])
            cuts += 1
        with pytest.raises(StreamTruncatedError):
            decoder.close()
    assert cuts > 2300


def test_a_stream_truncated_after_its_last_event_is_complete() -> None:
    for answer in streamed():
        decoder = StreamDecoder(PROVIDER)
        try:
            decoder.feed(answer.events[: ended_at(answer) + 1])
            decoder.close()
        except ChatError:
            assert any("error" in feature for feature in answer.features), answer.id
