"""Whatever an id is made of, an address leads to it, through what browsers and servers do to addresses."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from chat_inbox.url_keys import decode_key, encode_key, quote_key
from hypothesis import given
from hypothesis import strategies as st

IDS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3)


@given(IDS)
def test_an_address_leads_back_to_its_ids(ids: list[str]) -> None:
    key = encode_key(*ids)

    assert decode_key(key) == tuple(ids)
    assert unquote(quote_key(ids)) == key


@given(IDS)
def test_an_address_is_one_word_that_a_browser_leaves_alone(ids: list[str]) -> None:
    word = quote_key(ids)

    assert not set(word) & set("/?# \\")
    assert word.isascii()
    assert unquote(word) not in (".", "..", "")
    assert word not in (".", "..")


@pytest.mark.parametrize("name", ["chat-17", "call_1", "a.b~c", "0123456789abcdef"])
def test_a_plain_id_stands_as_it_is(name: str) -> None:
    assert quote_key((name,)) == name


def test_a_path_is_its_ids_with_commas() -> None:
    assert quote_key(("outer", "inner")) == "outer,inner"
    assert decode_key("outer,a%2Cb") == ("outer", "a,b")


def test_bytes_that_no_id_has_name_nothing() -> None:
    assert decode_key("%FF") == ("\ufffd",)
