"""A stream of the Messages API that is truncated never becomes a response."""

from __future__ import annotations

import pytest
from chat_claude.codec import StreamDecoder, is_last
from chat_core.errors import ChatError, StreamTruncatedError
from chat_core.events import TextDelta
from chat_core.messages import Pending
from chat_core.provider import Delta

from ..exchanges import require_wire
from ..recordings import Recorded
from .answers import PROVIDER, answers, events_of

require_wire()


def all_streams() -> list[Recorded]:
    return [item for item in answers() if item.streamed]


def broken_off(decoder: StreamDecoder) -> ChatError:
    """Return the error of a decoder whose stream ends now."""
    with pytest.raises(ChatError) as failure:
        decoder.close()
    return failure.value


def test_a_stream_truncated_after_any_event_never_gives_an_answer() -> None:
    ended = 0
    for item in all_streams():
        decoder = StreamDecoder(PROVIDER)
        said = list[Delta]()
        for event in events_of(item):
            failure = broken_off(decoder)
            assert isinstance(failure, StreamTruncatedError), item.id
            assert failure.retryable
            partial = failure.partial
            assert partial is not None
            assert partial.finish_reason is None
            assert partial.text == "".join([delta.text for delta in said if isinstance(delta, TextDelta)])
            assert all(isinstance(tool.status, Pending) for tool in partial.tools)
            assert failure.usage == partial.usage
            if is_last(event):
                decoder.feed([event])
                assert decoder.close().finish_reason is not None
                ended += 1
                break
            said += decoder.feed([event])
    assert ended > 75


def test_the_error_of_a_truncated_stream_states_the_received_bytes() -> None:
    item = next(item for item in all_streams() if b'"tool_use"' in item.body and b"thinking" in item.body)
    decoder = StreamDecoder(PROVIDER)
    events = events_of(item)
    last = next(index for index, event in enumerate(events) if is_last(event))
    decoder.feed(events[:last])
    failure = broken_off(decoder)
    assert f"ended after {sum(len(event.data) for event in events[:last])} bytes without `message_stop`" in str(failure)
    assert "not run" in str(failure)
    assert "usage so far" in str(failure)
