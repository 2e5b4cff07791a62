"""Requests, responses, events and headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from chat_core.transport import Event, EventStream, Headers, Request, Response, Timeouts, never_last, redact


def test_header_names_are_case_insensitive() -> None:
    headers = Headers({"Content-Type": "text/html", "X-Request-ID": "r1"})
    assert headers["content-type"] == headers["CONTENT-TYPE"] == "text/html"
    assert headers.get("missing") is None
    assert dict(headers) == {"content-type": "text/html", "x-request-id": "r1"}


def test_repeated_header_fields_are_joined_by_a_comma() -> None:
    assert Headers([("Via", "a"), ("via", "b")])["via"] == "a, b"


def test_repr_of_requests_responses_and_headers_shows_no_secret() -> None:
    request = Request(
        "POST",
        "https",
        "user:sk-secret@example.com",
        "/v1?key=sk-secret",
        (("authorization", "Bearer sk-secret"),),
        b'{"key": "sk-secret"}',
    )
    response = Response(200, Headers({"set-cookie": "sk-secret"}), b"sk-secret")
    assert repr(request) == "Request(POST https://example.com/v1)"
    assert "sk-secret" not in repr(response)
    assert "sk-secret" not in repr(Headers({"x-api-key": "sk-secret"}))
    assert redact({"Accept": "text/html", "x-key": "sk-secret"}) == {"Accept": "text/html", "x-key": "…"}


def test_url_of_a_request_is_built_from_its_parts() -> None:
    assert (
        Request("GET", "http", "localhost:8080", "/v1/models?limit=1").url == "http://localhost:8080/v1/models?limit=1"
    )


def test_request_has_default_timeouts_and_no_last_event() -> None:
    request = Request("GET", "http", "localhost", "/")
    assert request.timeouts == Timeouts(10.0, 300.0)
    assert request.is_last is never_last
    assert not never_last(Event("message", b"[DONE]"))


@pytest.mark.anyio
async def test_event_stream_can_be_read_by_batch_or_by_event() -> None:
    async def batches() -> AsyncIterator[Sequence[Event]]:
        yield [Event("message", b"1"), Event("message", b"2")]
        yield [Event("message", b"3")]

    one_by_one = EventStream(200, Headers(), batches())
    assert [event.data async for event in one_by_one] == [b"1", b"2", b"3"]
    by_batch = EventStream(200, Headers(), batches())
    assert [len(batch) async for batch in by_batch.batches()] == [2, 1]
