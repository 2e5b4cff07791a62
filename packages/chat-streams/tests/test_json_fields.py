"""Fields of a JSON request."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any

import pytest
from chat_core.approvals import owner_may_decide
from chat_streams import AGUI, ClientInputError
from chat_streams.json_fields import describe_value, read_body, require_list, require_object, require_text
from chat_streams.openai import read_completions_request, read_responses_request
from chat_streams.vercel import read_request
from stream_world import LOCATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, '{"a":' * 300 + "1" + "}" * 300])
def test_a_body_that_is_not_a_json_object_is_refused(body: bytes | str) -> None:
    with pytest.raises(ClientInputError) as refused:
        read_body(body)
    assert refused.value.status == 400


def test_fields_of_the_right_type_are_returned() -> None:
    fields = read_body('{"list": [1], "object": {}, "text": ""}')
    assert require_list(fields["list"], "list") == [1]
    assert require_object(fields["object"], "object") == {}
    assert require_text(fields, "text") == ""


@pytest.mark.parametrize(
    "read",
    [
        lambda: require_list({}, "x"),
        lambda: require_list(None, "x"),
        lambda: require_object([], "x"),
        lambda: require_text({"x": 1}, "x"),
        lambda: require_text({}, "x"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_in_the_error(read: Callable[[], object]) -> None:
    with pytest.raises(ClientInputError, match=r"malformed: x must be an? \w+, not (\{\}|\[\]|null|1)\."):
        read()


def test_long_values_in_errors_are_truncated() -> None:
    assert describe_value({"a": ["é", None]}) == r'{"a": ["\u00e9", null]}'
    assert describe_value("x" * 1_000) == '"' + "x" * 59


# --- All requests -----------------------------------------------------------------------------------------------------

IMAGE = "data:image/png;base64,cG5n"
REQUESTS: list[tuple[Callable[[bytes], object], dict[str, Any]]] = [
    (
        AGUI(may_decide=owner_may_decide).read,
        {
            "threadId": "t",
            "runId": "r",
            "messages": [
                {"id": "a", "role": "user", "content": [{"type": "text", "text": "hi"}]},
                {
                    "id": "b",
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "data", "value": "cG5n", "mimeType": "image/png"}}
                    ],
                },
                {
                    "id": "c",
                    "role": "assistant",
                    "content": "hi",
                    "toolCalls": [{"id": "d", "function": {"name": "pay", "arguments": "{}"}}],
                },
                {"id": "e", "role": "tool", "toolCallId": "d", "content": "paid", "error": "no"},
            ],
            "tools": [LOCATE],
            "resume": [{"interruptId": "1.d", "status": "resolved", "payload": {"approved": True}}],
        },
    ),
    (
        read_request,
        {
            "id": "t",
            "trigger": "submit-message",
            "messages": [
                {
                    "id": "a",
                    "role": "user",
                    "parts": [
                        {"type": "text", "text": "hi"},
                        {"type": "file", "url": IMAGE, "mediaType": "image/png", "filename": "a.png"},
                    ],
                },
                {
                    "id": "b",
                    "role": "assistant",
                    "parts": [
                        {
                            "type": "tool-pay",
                            "toolCallId": "c",
                            "state": "approval-responded",
                            "input": {},
                            "approval": {"id": "1.c", "approved": True, "reason": "fine"},
                        },
                        {
                            "type": "tool-pay",
                            "toolCallId": "d",
                            "state": "output-error",
                            "input": {},
                            "errorText": "no",
                        },
                    ],
                },
            ],
            "tools": [LOCATE],
        },
    ),
    (
        read_responses_request,
        {
            "model": "m",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}]},
                {"role": "user", "content": [{"type": "input_file", "file_data": IMAGE, "filename": "a"}]},
                {"type": "function_call_output", "call_id": "c", "output": "paid"},
                {"type": "mcp_approval_response", "approval_request_id": "1.c", "approve": True, "reason": "fine"},
            ],
            "tools": [{"type": "function", **LOCATE}],
            "previous_response_id": "resp_a.1",
            "stream": True,
            "temperature": 1,
            "max_output_tokens": 9,
        },
    ),
    (
        read_completions_request,
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]},
                {
                    "role": "user",
                    "content": [{"type": "input_audio", "input_audio": {"data": "cG5n", "format": "wav"}}],
                },
                {"role": "user", "content": [{"type": "file", "file": {"file_data": IMAGE, "filename": "a"}}]},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 1,
            "max_tokens": 9,
        },
    ),
]
WRONG: list[object] = [None, True, -1, 1.5, 10**30, "", "\0", "\ud800", "data:,", [], [[]], [None], {}, {"a": 1}]


def variants(value: Any) -> Iterator[Any]:
    """Yield a JSON value with each of its fields replaced by each wrong value, and with each of its texts changed."""
    yield from WRONG
    plain: object = value  # keeps the type of `value` open
    if isinstance(plain, str):
        yield from (f"{plain}é", f"{plain}%", plain[:-1])
    keys: list[Any] = [*value] if isinstance(plain, dict) else [*range(len(value))] if isinstance(plain, list) else []
    for key in keys:
        for variant in variants(value[key]):
            changed = copy(value)
            changed[key] = variant
            yield changed


@pytest.mark.parametrize(("read", "request_fields"), REQUESTS, ids=["agui", "vercel", "responses", "completions"])
def test_a_wrong_type_in_any_field_raises_client_input_error(
    read: Callable[[bytes], object], request_fields: dict[str, Any]
) -> None:
    read(json.dumps(request_fields).encode())
    for variant in variants(request_fields):
        with suppress(ClientInputError):
            read(json.dumps(variant).encode())
