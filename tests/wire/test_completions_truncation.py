"""A stream that is truncated never becomes a response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_completions.codec import StreamDecoder, is_last
from chat_core.errors import ChatError, ProviderError, StreamTruncatedError
from chat_core.events import TextDelta
from chat_core.messages import Pending
from chat_core.provider import Delta
from chat_core.transport import Event

from .decoding import PROVIDER, Answer, reasoning_of, streams
from .exchanges import require_wire

require_wire()


def ends(event: Event) -> bool:
    """Return whether a stream may end after this event: it is the last one, or a choice has a finish reason."""
    if is_last(event):
        return True
    chunk: Any = json.loads(event.data)
    return any(choice.get("finish_reason") and not choice.get("index") for choice in chunk.get("choices") or ())


def broken_off(decoder: StreamDecoder) -> ChatError:
    """Return the error of a decoder whose stream ends now."""
    with pytest.raises(ChatError) as failure:
        decoder.close()
    return failure.value


@pytest.mark.parametrize("answer", streams(), ids=lambda answer: answer.id)
def test_a_stream_truncated_after_any_event_never_gives_an_answer(answer: Answer) -> None:
    decoder = StreamDecoder(PROVIDER)
    said = list[Delta]()
    for event in answer.events:
        failure = broken_off(decoder)
        assert isinstance(failure, StreamTruncatedError), failure
        assert failure.retryable
        partial = failure.partial
        assert partial is not None
        assert partial.text == "".join([delta.text for delta in said if isinstance(delta, TextDelta)])
        assert all(isinstance(tool.status, Pending) for tool in partial.tools)
        assert failure.usage == partial.usage
        try:
            said += decoder.feed([event])
        except ProviderError:
            return  # the server reported an error, and the error stays the same
        if ends(event):
            return
    pytest.fail("the stream has no end")


def test_the_error_of_a_truncated_stream_states_the_received_bytes() -> None:
    answer = next(answer for answer in streams() if "parallel-tool-calls" in answer.features)
    decoder = StreamDecoder(PROVIDER)
    events = answer.events
    last = next(index for index, event in enumerate(events) if ends(event))
    decoder.feed(events[:last])
    failure = broken_off(decoder)
    assert f"ended after {sum(len(event.data) for event in events[:last])} bytes without `[DONE]`" in str(failure)
    assert "not run" in str(failure)
    assert "usage so far" in str(failure)


def test_the_error_of_a_truncated_stream_contains_received_reasoning() -> None:
    answer = next(answer for answer in streams() if "reasoning" in answer.features)
    decoder = StreamDecoder(PROVIDER)
    for event in answer.events:
        decoder.feed([event])
        failure = broken_off(decoder)
        if failure.partial is not None and (thought := reasoning_of(failure.partial)):
            assert thought
            return
    pytest.fail("nothing was thought")
