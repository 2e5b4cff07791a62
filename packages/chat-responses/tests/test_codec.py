from __future__ import annotations

import json

import pytest
from chat_core.errors import InvalidResponseError, RateLimitedError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_responses import ResponsesDialect, codec


def test_encoding_and_decoding_perform_no_io() -> None:
    dialect = ResponsesDialect(model="m", provider="p")
    messages = Messages.from_user("Hi")
    body = codec.encode(messages, NO_TOOLS, ChatOptions(), None, dialect=dialect, stream=False)
    assert json.loads(body)["input"] == [{"role": "user", "content": "Hi"}]
    answer = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}]}
    messages.append("model", codec.decode(json.dumps(answer).encode(), "p"))
    assert messages[-1].text == "Hello"


def test_all_exported_names_exist_in_sorted_order() -> None:
    assert codec.__all__ == sorted(codec.__all__)
    assert all(hasattr(codec, name) for name in codec.__all__)


def test_decode_count_returns_the_input_tokens() -> None:
    assert codec.decode_count(b'{"object":"response.input_tokens","input_tokens":16}', "p") == 16


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"input_tokens":null}', b'{"input_tokens":-1}'])
def test_a_body_without_a_token_count_raises_invalid_response(body: bytes) -> None:
    with pytest.raises(InvalidResponseError):
        codec.decode_count(body, "p")


def test_an_error_object_instead_of_a_token_count_is_raised() -> None:
    with pytest.raises(RateLimitedError):
        codec.decode_count(b'{"error":{"code":"rate_limit_exceeded","message":"Slow"}}', "p")
