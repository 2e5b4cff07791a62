"""Values in requests."""

from __future__ import annotations

import pytest
from chat_inbox.http_errors import HTTPError
from chat_service import ServiceSettings
from chat_service.request_values import (
    MAX_TITLE,
    read_flag,
    read_message,
    read_metadata,
    read_number,
    read_text,
    read_title,
)
from starlette.requests import Request

SETTINGS = ServiceSettings(max_message_bytes=4)


def request(query: str) -> Request:
    return Request({"type": "http", "headers": [], "query_string": query.encode()})


@pytest.mark.parametrize("message", ["aaaa", "éé"])
def test_a_message_up_to_the_limit_is_accepted(message: str) -> None:
    assert read_message({"message": message}, SETTINGS) == message


@pytest.mark.parametrize("message", ["aaaaa", "ééa", "", "  ", None, 5, "\ud800"])
def test_any_other_message_is_refused(message: object) -> None:
    with pytest.raises(HTTPError) as caught:
        read_message({"message": message}, SETTINGS)
    assert caught.value.status == 400


@pytest.mark.parametrize("length", [pytest.param(0, id="empty"), pytest.param(MAX_TITLE, id="longest")])
def test_a_title_up_to_the_limit_is_accepted(length: int) -> None:
    assert read_title({"title": "é" * length}) == "é" * length


def test_a_longer_title_is_refused() -> None:
    with pytest.raises(HTTPError, match="The title has 201 characters; the limit is 200"):
        read_title({"title": "é" * (MAX_TITLE + 1)})


def test_an_optional_value_has_its_type_or_is_absent() -> None:
    assert (read_text({}, "title"), read_text({"title": "a"}, "title"), read_metadata({"metadata": {}})) == (
        None,
        "a",
        {},
    )
    for read in (lambda: read_text({"title": 5}, "title"), lambda: read_metadata({"metadata": 5})):
        with pytest.raises(HTTPError):
            read()


@pytest.mark.parametrize(("query", "expected"), [("", 7), ("n=1", 1), ("n=9", 9)])
def test_a_number_is_read_from_the_query(query: str, expected: int) -> None:
    assert read_number(request(query), "n", 7, 1, 9) == expected


@pytest.mark.parametrize("query", ["n=0", "n=10", "n=", "n=x", "n=-1", "n=1.0", "n=²", f"n={'1' * 5000}"])
def test_another_number_is_refused(query: str) -> None:
    with pytest.raises(HTTPError) as caught:
        read_number(request(query), "n", 7, 1, 9)
    assert caught.value.status == 400


def test_a_flag_is_true_or_false() -> None:
    assert (read_flag(request(""), "f"), read_flag(request("f=true"), "f")) == (False, True)
    with pytest.raises(HTTPError):
        read_flag(request("f=1"), "f")
