"""A stream that is truncated never becomes a response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.errors import (
    ChatError,
    ContentFilteredError,
    NetworkError,
    ProviderError,
    StreamTruncatedError,
    TransportError,
)
from chat_core.events import TextDelta
from chat_core.messages import Pending
from chat_core.provider import Delta
from chat_core.transport import Event
from chat_core.transport.framing import framer
from chat_core.transport.provider_errors import translate_transport_error
from chat_gemini.codec import StreamDecoder

from ..exchanges import require_wire
from ..recordings import Recorded
from .decoding import PROVIDER, events_of, framing_of, read, reasoning_of, streams

require_wire()


def ends(event: Event) -> bool:
    """Return whether a stream may end after this event, because its first candidate has a finish reason."""
    chunk: Any = json.loads(event.data)
    return any(item.get("finishReason") and not item.get("index") for item in chunk.get("candidates") or ())


def broken_off(decoder: StreamDecoder) -> ChatError:
    """Return the error of a decoder whose stream ends now."""
    with pytest.raises(ChatError) as failure:
        decoder.close()
    return failure.value


def test_a_stream_truncated_after_any_event_never_gives_an_answer() -> None:
    for answer in streams():
        decoder = StreamDecoder(PROVIDER)
        said = list[Delta]()
        for event in events_of(answer):
            failure = broken_off(decoder)
            assert isinstance(failure, (StreamTruncatedError, ContentFilteredError)), (answer.id, failure)
            partial = failure.partial
            assert partial is not None
            assert partial.text == "".join([delta.text for delta in said if isinstance(delta, TextDelta)])
            assert all(isinstance(tool.status, Pending) for tool in partial.tools)
            assert failure.usage == partial.usage
            try:
                said += decoder.feed([event])
            except ProviderError:
                break  # the server reported an error, and the error stays the same
            if ends(event):
                break
        else:
            assert isinstance(read(answer), ChatError), f"{answer.id} has no end"


def test_a_truncated_stream_is_retryable() -> None:
    for answer in streams():
        decoder = StreamDecoder(PROVIDER)
        first = events_of(answer)[:1]
        decoder.feed(first)
        if not any(map(ends, first)) and not isinstance(read(answer), ContentFilteredError):
            assert broken_off(decoder).retryable, answer.id


def test_a_json_array_truncated_anywhere_raises_a_network_error() -> None:
    for answer in streams():
        if framing_of(answer) == "json-array":
            body = answer.body.rstrip()
            for size in range(0, len(body) - 1, 97):
                cutter, decoder = framer("json-array"), StreamDecoder(PROVIDER)
                decoder.feed(cutter.feed(body[:size]))
                with pytest.raises(TransportError) as failure:
                    cutter.end()
                assert isinstance(translate_transport_error(failure.value, PROVIDER), NetworkError)


def test_the_error_of_a_truncated_stream_states_the_received_bytes() -> None:
    answer = next(item for item in streams() if "parallel-tool-calls" in item.features and len(events_of(item)) > 2)
    decoder = StreamDecoder(PROVIDER)
    events = events_of(answer)
    last = next(index for index, event in enumerate(events) if ends(event))
    decoder.feed(events[:last])
    failure = broken_off(decoder)
    assert f"ended after {sum(len(event.data) for event in events[:last])} bytes without a finish reason" in str(
        failure
    )
    assert "usage so far" in str(failure)


def thinks_before_it_ends(answer: Recorded) -> bool:
    return "reasoning" in answer.features and len(events_of(answer)) > 2


def test_the_error_of_a_truncated_stream_contains_received_reasoning() -> None:
    answer = next(filter(thinks_before_it_ends, streams()))
    decoder = StreamDecoder(PROVIDER)
    decoder.feed(events_of(answer)[:1])
    failure = broken_off(decoder)
    assert failure.partial is not None
    assert reasoning_of(failure.partial)
