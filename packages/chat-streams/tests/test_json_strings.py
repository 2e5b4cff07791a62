"""JSON strings in UTF-8."""

from __future__ import annotations

import json

import pytest
from chat_streams.json_strings import quote


@pytest.mark.parametrize("text", ["", "é😀", '"\\', "\r\n\x00", "\u2028", "\ud83d", "a\udc00b"])
def test_a_quoted_text_is_decoded_to_the_same_text(text: str) -> None:
    assert json.loads(quote(text)) == text


def test_only_texts_with_lone_surrogates_are_escaped_to_ascii() -> None:
    assert quote("é") == '"é"'.encode()
    assert quote("\ud83d") == b'"\\ud83d"'
