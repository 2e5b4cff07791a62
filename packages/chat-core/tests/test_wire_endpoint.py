from __future__ import annotations

from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.transport import Event, Timeouts
from chat_core.wire.endpoint import Endpoint


def test_request_url_is_below_the_base_url_and_has_its_headers() -> None:
    endpoint = Endpoint("https://host:8443/v1/", {"Authorization": "Bearer k"})
    request = endpoint.request("/chat", b"{}", None, stream=False)
    assert request.url == "https://host:8443/v1/chat"
    assert dict(request.headers) == {
        "content-type": "application/json",
        "accept": "application/json",
        "authorization": "Bearer k",
    }
    assert (request.method, request.body, request.timeouts) == ("POST", b"{}", Timeouts())


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("http://h", "/a", "http://h/a"),
        ("http://h?k=1", "/a", "http://h/a?k=1"),
        ("http://h/v1?k=1", "/a?alt=sse", "http://h/v1/a?alt=sse&k=1"),
        ("http://h/v1/", "/a?alt=sse", "http://h/v1/a?alt=sse"),
    ],
)
def test_query_of_the_base_url_is_added_to_every_request(base: str, path: str, url: str) -> None:
    assert Endpoint(base, {}).request(path, b"", None, stream=False).url == url


def test_stream_request_sets_accept_header_framing_last_event_and_timeouts() -> None:
    def last(event: Event) -> bool:
        return event.data == b"end"

    endpoint = Endpoint("http://h", {})
    request = endpoint.request("/a", b"", 3.0, stream=True, is_last=last, framing="json-lines", headers=(("x-a", "1"),))
    assert dict(request.headers)["accept"] == "application/x-ndjson"
    assert dict(request.headers)["x-a"] == "1"
    assert (request.framing, request.is_last, request.timeouts) == ("json-lines", last, Timeouts(3.0, 3.0))
    assert dict(endpoint.request("/a", b"", 60.0, stream=True).headers)["accept"] == "text/event-stream"
    assert endpoint.request("/a", b"", 60.0, stream=True).timeouts == Timeouts(10.0, 60.0)


@pytest.mark.parametrize(
    "url",
    [
        "host/v1",
        "ftp://host",
        "http://",
        "https://user:secret@host/v1",
        "http://host:port/v1",
        "http://host:99999/v1",
        "http://[::1/v1",
        "http://a host/v1",
        "http://host\r\nx/v1",
        "gw/v1?key=secret",
        "htps://gw/v1#secret",
    ],
)
def test_invalid_base_url_raises_without_showing_its_secret(url: str) -> None:
    with pytest.raises(UsageError, match="the base URL must be") as caught:
        Endpoint(url, {})
    assert "secret" not in str(caught.value)


def test_white_space_around_a_base_url_is_removed() -> None:
    assert Endpoint(" http://h/v1 \n", {}).request("/a", b"", None, stream=False).url == "http://h/v1/a"


def test_the_error_for_wrong_headers_does_not_quote_them() -> None:
    headers: Any = [("x-api-key", "sk-1234567890")]
    with pytest.raises(UsageError, match="headers must be a tuple of pairs of strings, not list") as caught:
        Endpoint("https://example.org", {}).request("/x", b"", None, stream=False, headers=headers)
    assert "sk-" not in str(caught.value)


def test_repr_of_an_endpoint_shows_no_headers() -> None:
    assert repr(Endpoint("https://h/v1", {"authorization": "Bearer k"})) == "Endpoint(https://h/v1)"


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("https://gw/", "https://gw/v1beta/models"),
        ("https://gw/v1beta", "https://gw/v1beta/models"),
        ("https://gw/?key=K", "https://gw/v1beta/models?key=K"),
        ("https://gw/a/v1beta/?key=K/", "https://gw/a/v1beta/models?key=K/"),
    ],
)
def test_suffix_follows_the_path_of_a_base_url_from_the_environment(
    value: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY", value)
    endpoint = Endpoint.from_environment("GATEWAY", "https://host", {}, suffix="/v1beta")
    assert endpoint.request("/models", b"", None, stream=False).url == url
