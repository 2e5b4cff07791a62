"""Unexpected values in any field give a turn that can be stored and sent, or a `ChatError`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from chat_core.errors import ChatError
from chat_core.messages import Messages, Turn
from chat_core.wire.shapes import is_list, is_object
from chat_responses import ResponsesDialect
from chat_responses.codec import StreamDecoder, decode, encode_turn

OUTPUT: Final[list[dict[str, Any]]] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm"}],
        "content": [{"type": "reasoning_text", "text": "so"}],
        "encrypted_content": "gAAA",
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {
                "type": "output_text",
                "text": "Hi",
                "annotations": [{"type": "url_citation"}],
                "logprobs": [{"token": "Hi"}],
            },
            {"type": "refusal", "refusal": "No."},
        ],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}", "status": "incomplete"},
    {"type": "custom_tool_call", "id": "ct_1", "call_id": "b", "name": "g", "input": "x"},
    {"type": "mcp_approval_request", "id": "r_1", "server_label": "s", "name": "n", "arguments": "{}"},
    {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw==", "output_format": "png"},
    {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
]

RESPONSE: Final[dict[str, Any]] = {
    "id": "resp_1",
    "model": "m-1",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "error": None,
    "store": True,
    "usage": {"input_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}},
    "output": OUTPUT,
}

PLACE: Final = {"output_index": 0, "item_id": "x"}

EVENTS: Final[list[dict[str, Any]]] = [
    {"type": "response.created", "response": {"id": "resp_1", "usage": None}},
    {"type": "response.reasoning_summary_text.delta", **PLACE, "summary_index": 0, "delta": "Hm"},
    {"type": "response.reasoning_text.done", **PLACE, "content_index": 0, "text": "so"},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Hi"},
    {"type": "response.output_text.annotation.added", "output_index": 1, "annotation": {"type": "url_citation"}},
    {"type": "response.refusal.done", "output_index": 1, "content_index": 1, "refusal": "No."},
    {"type": "response.output_item.added", "output_index": 2, "item": OUTPUT[2]},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"},
    *[{"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(OUTPUT)],
    {
        "type": "response.image_generation_call.partial_image",
        **PLACE,
        "partial_image_b64": "iVBO",
        "output_format": "png",
    },
    {"type": "response.completed", "response": RESPONSE},
]

ODD: Final[tuple[Any, ...]] = (None, True, 7, -1.5, "", "x", [], [1], [None], {}, {"a": []}, [{"type": []}])

DIALECTS: Final = (ResponsesDialect(model="m", provider="p"), ResponsesDialect(model="m", provider="p", store=False))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place inside a value."""
    keys: list[Any] = list(value) if is_object(value) else []
    if is_list(value):
        keys += range(len(value))
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def changed(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """Return a copy with another value at a place."""
    result = copy.deepcopy(value)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return result


def use(turn: Turn) -> None:
    """Store a turn, read it again, and send it."""
    for tool in turn.tools:
        tool.cancel("enough")
    messages = Messages()
    messages.append("model", turn)
    (stored,) = Messages.from_json(messages.to_json())[0].turns
    for dialect in DIALECTS:
        items = b"[" + encode_turn("model", turn, dialect) + b"]"
        assert items == b"[" + encode_turn("model", stored, dialect) + b"]"
        assert isinstance(json.loads(items), list)


def attempt(read: Callable[[Any], Turn], said: object) -> Turn | ChatError:
    """Return the result of decoding, or its error."""
    try:
        return read(said)
    except ChatError as error:
        return error


def assert_usable_or_partial(outcome: Turn | ChatError, path: tuple[Any, ...]) -> None:
    """Check that a turn can be used, or that an error contains the received parts."""
    if isinstance(outcome, Turn):
        use(outcome)
    else:
        assert outcome.partial is not None, path


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_unexpected_values_in_a_response_are_ignored_or_raise_a_chat_error(odd: object) -> None:
    for path in places(RESPONSE):
        body = json.dumps(changed(RESPONSE, path, odd)).encode()
        assert_usable_or_partial(attempt(whole, body), path)


def whole(body: bytes) -> Turn:
    """Return the turn in a complete response."""
    return decode(body, "p")


def heard(events: list[Any]) -> Turn:
    """Return the turn in a stream whose events arrive one by one."""
    decoder = StreamDecoder("p")
    for event in events:
        decoder.feed_json([event])
    return decoder.close()


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_unexpected_values_in_a_stream_are_ignored_or_raise_a_chat_error(odd: object) -> None:
    for path in places(EVENTS[:-1]):
        events = changed(EVENTS, path, odd)
        assert_usable_or_partial(attempt(heard, events), path)
