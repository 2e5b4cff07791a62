"""ASGI messages that a server would not pass on, in both directions."""

from __future__ import annotations

import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request
from chat_transport_asgi import AsgiTransport, Receive, Scope, Send


async def raises(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise ValueError


@pytest.mark.anyio
async def test_a_response_without_a_body_ignores_what_the_application_sends() -> None:
    async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
        fields = [(b"content-length", b"3"), (b"content-encoding", b"gzip")]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": b"no gzip", "more_body": True})
        await send({"type": "http.response.body", "body": b"of any length"})
        sent.append(status)

    sent: list[int] = []
    for method, status in (("HEAD", 200), ("GET", 204), ("GET", 304)):
        response = await AsgiTransport(answers).send(Request(method, "http", "app.example", "/"))

        assert (response.status, response.body) == (status, b"")
    assert sent == [200, 204, 304]


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["me:pa55@a example", "a example", "例え.jp"])
async def test_a_host_with_invalid_characters_is_refused(host: str) -> None:
    with pytest.raises(TransportError, match="the host contains characters that HTTP does not allow") as caught:
        await AsgiTransport(raises).send(Request("GET", "http", host, "/"))

    assert caught.value.kind == "protocol"
    assert "pa55" not in str(caught.value)
    assert caught.value.__cause__ is None  # the application was not called


@pytest.mark.anyio
async def test_credentials_in_a_host_are_not_sent_and_not_in_errors() -> None:
    async def shows(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append((scope["headers"][0], scope["server"]))
        raise ValueError

    seen: list[object] = []
    with pytest.raises(TransportError, match=r"^GET http://app\.example/: the application raised ValueError"):
        await AsgiTransport(shows).send(Request("GET", "http", "me:pa55@app.example", "/"))

    assert seen == [((b"host", b"app.example"), ("app.example", 80))]


@pytest.mark.anyio
async def test_a_stream_of_an_unlimited_request_may_exceed_the_limit() -> None:
    async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n" * 20})

    async def count_events(*, is_unlimited: bool) -> int:
        request = Request("GET", "http", "app.example", "/", is_unlimited=is_unlimited)
        async with AsgiTransport(answers, max_stream_bytes=100).stream(request) as stream:
            return len([event async for event in stream])

    with pytest.raises(TransportError, match="longer than 100 bytes"):
        await count_events(is_unlimited=False)
    assert await count_events(is_unlimited=True) == 20
