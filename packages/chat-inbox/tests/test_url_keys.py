"""Encoding of ids in URLs."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from chat_inbox.url_keys import decode_key, encode_key, quote_key
from hypothesis import given
from hypothesis import strategies as st

IDS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3)


@given(IDS)
def test_ids_are_unchanged_after_encoding_and_decoding_a_key(ids: list[str]) -> None:
    key = encode_key(*ids)

    assert decode_key(key) == tuple(ids)
    assert unquote(quote_key(ids)) == key


@given(IDS)
def test_quoted_key_is_one_normalized_path_segment(ids: list[str]) -> None:
    word = quote_key(ids)

    assert not set(word) & set("/?# \\")
    assert word.isascii()
    assert unquote(word) not in (".", "..", "")
    assert word not in (".", "..")


@pytest.mark.parametrize("name", ["chat-17", "call_1", "a.b~c", "0123456789abcdef"])
def test_plain_id_is_its_own_key(name: str) -> None:
    assert quote_key((name,)) == name


def test_path_key_joins_ids_with_commas() -> None:
    assert quote_key(("outer", "inner")) == "outer,inner"
    assert decode_key("outer,a%2Cb") == ("outer", "a,b")


def test_key_with_invalid_utf8_decodes_without_error() -> None:
    assert decode_key("%FF") == ("\ufffd",)
