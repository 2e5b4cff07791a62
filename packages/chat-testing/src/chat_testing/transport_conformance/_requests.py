"""Conformance scenarios for requests, complete responses and missing responses."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from chat_core.errors import TransportError, UsageError
from chat_core.transport import Request, Transport

from chat_testing.errors import fail
from chat_testing.transport_conformance._peer import SSE, LoopbackPeer, Peer, Play, Received
from chat_testing.transport_conformance._scenario import (
    HEADERS,
    PATH,
    SECRET,
    TransportSubject,
    both_methods,
    expect_error,
    make_request,
    open_stream,
    read_data,
    scenario,
)

_UNUSUAL_PATHS = ("/a//b/?z=1&a=2&z=%2F", "/%c3%a9+e?q=a+b%20c", "/long?" + "x" * 4_000)
_LONG_VALUE = "y" * 6_000
"""Value of a header. Tokens of some identity providers are this long."""
_BINARY = bytes(range(256)) * 1_000
_PADDED = b" \n{} \n"
_METHODS = ("GET", "PUT", "PATCH", "DELETE")
_OWN_HEADERS = {
    "accept",
    "accept-encoding",
    "accept-language",
    "baggage",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "pragma",
    "priority",
    "te",
    "trailer",
    "transfer-encoding",
    "traceparent",
    "tracestate",
    "upgrade",
    "user-agent",
    "via",
}
"""Headers that HTTP clients, proxies and instrumentation add to a request."""


@scenario("moves", "url", "headers")
async def request_as_written(subject: TransportSubject) -> None:
    """Each request arrives with exactly its own method, path, query, headers and body. Cookies are not stored."""
    play = subject.play(headers=(("set-cookie", "kept=1; Path=/"),))
    bodies = [body for body in (b"{}", b"", _PADDED, _BINARY) for _ in range(2)]
    # The first request is repeated, so that a cache would be noticed.
    once = [(method, path) for method in _METHODS for path in _UNUSUAL_PATHS] + [(_METHODS[0], _UNUSUAL_PATHS[0])]
    others = [(method, path) for method, path in once for _ in range(2)]
    async with subject.with_peer(play) as (transport, peer):
        for body in bodies[::2]:
            for call in both_methods(transport, make_request(peer.host, body=body)).values():
                await call()
        for method, path in once:
            headers, body = (("x-empty", ""), ("x-long", _LONG_VALUE)), b"" if method == "GET" else b"{}"
            for call in both_methods(transport, Request(method, "http", peer.host, path, headers, body)).values():
                await call()
        host = peer.host
    if len(peer.received) != len(bodies) + len(others):
        fail(f"{len(bodies) + len(others)} requests were made, but {len(peer.received)} arrived")
    for received, body in zip(peer.received, bodies, strict=False):
        _require_as_written(received, body)
        if (name := received.headers.get("host", host)) != host:
            fail(f"a request to the host {host!r} arrived with the header host: {name}")
    for (method, path), received in zip(others, peer.received[len(bodies) :], strict=True):
        _require_unusual_request(received, method, path)


def _require_unusual_request(received: Received, method: str, path: str) -> None:
    if kept := {"authorization", "cookie", "x-kind"} & set(received.headers):
        fail(f"the headers {sorted(kept)} of earlier exchanges were sent with a request that does not have them")
    _require_no_added_header(received, {"x-empty", "x-long"})
    if (received.method, received.path) != (method, path):
        fail(f"{method} of {path[:100]!r} arrived as {received.method} of {received.path[:100]!r}")
    if received.body != (b"" if method == "GET" else b"{}"):
        fail(f"the body of a {method} request arrived as {received.body!r}")
    if received.headers.get("x-empty") != "":
        fail(f"a header with an empty value arrived as {received.headers.get('x-empty')!r}")
    if (value := received.headers.get("x-long", "")) != _LONG_VALUE:
        fail(f"a header of {len(_LONG_VALUE)} characters arrived with {len(value)}")


def _require_no_added_header(received: Received, names: set[str]) -> None:
    if added := set(received.headers) - names - _OWN_HEADERS:
        fail(f"a request arrived with the headers {sorted(added)}, which it does not have")


def _require_as_written(received: Received, body: bytes) -> None:
    _require_no_added_header(received, {name.lower() for name, _ in HEADERS})
    if (received.method, received.path) != ("POST", PATH):
        fail(f"POST {PATH} arrived as {received.method} {received.path}")
    if received.headers.get("authorization") != f"Bearer {SECRET}":
        fail("a header did not arrive")
    if received.headers.get("x-kind") != "a, b":
        fail(f"the header sent twice, as 'a' and 'b', arrived as {received.headers.get('x-kind')!r}")
    for name in ("accept", "user-agent"):
        if received.headers.get(name) != dict(HEADERS)[name]:
            fail(f"the header {name}: {dict(HEADERS)[name]} arrived as {received.headers.get(name)!r}")
    if received.body != body:
        fail(f"a body of {len(body)} bytes arrived changed, with {len(received.body)} bytes")


@scenario("whole")
async def any_status(subject: TransportSubject) -> None:
    """`send()` returns the complete response, with status, headers and body, for any status."""
    for status in (200, 201, 400, 404, 408, 429, 500, 503, 504):
        play = subject.play(
            b"so", b"rry", status=status, headers=(("X-Id", "Ab7"), ("x-empty", ""), ("content-type", "text/plain"))
        )
        async with subject.with_peer(play) as (transport, peer):
            response = await transport.send(make_request(peer.host))
        headers = response.headers
        found = response.status, headers.get("x-id"), headers.get("x-empty"), response.body
        if found != (status, "Ab7", "", b"sorry"):
            fail(
                f"a response with status {status} and the body 'sorry' was "
                f"returned as {response!r} with {response.body!r}"
            )


@scenario("whole", "refused")
async def repeated_headers(subject: TransportSubject) -> None:
    """Response headers with the same name are joined by a comma, so that no value is lost."""
    for status in (200, 429):
        play = subject.play(b"data: x\n\n", status=status, headers=(*SSE, ("x-many", "a"), ("X-Many", "b")))
        async with subject.with_peer(play) as (transport, peer):
            found = [(await transport.send(make_request(peer.host))).headers.get("x-many")]
            try:
                async with transport.stream(make_request(peer.host)) as stream:
                    found.append(stream.headers.get("x-many"))
            except TransportError as error:
                found.append(error.headers.get("x-many"))
        if found != ["a, b"] * 2:
            fail(f"the response header sent twice, as 'a' and 'b', was returned as {found} with status {status}")


@scenario("whole", "refused")
async def redirect(subject: TransportSubject) -> None:
    """A redirect is returned and not followed, because a request and its secrets are meant for one host."""
    for status in (301, 302, 303, 307, 308):
        await _require_unfollowed(subject, status)


async def _require_unfollowed(subject: TransportSubject, status: int) -> None:
    def answer(received: Received) -> Play:
        location = (("location", "/elsewhere"),)
        return (
            subject.play(b"data: x\n\n")
            if received.path == "/elsewhere"
            else subject.play(status=status, headers=location)
        )

    async with subject.with_peer(answer) as (transport, peer):
        response = await transport.send(make_request(peer.host))
        if len(peer.received) != 1:
            fail(f"send() followed a redirect with status {status} to {peer.received[-1].path!r}")
        if (response.status, response.headers.get("location")) != (status, "/elsewhere"):
            fail(f"a redirect with status {status} was returned as {response!r}")
        with expect_error("status", when=f"a stream request with a redirect response {status}"):
            await open_stream(transport, make_request(peer.host))
        if len(peer.received) != 2:
            fail(f"stream() followed a redirect with status {status} to {peer.received[-1].path!r}")


@scenario("whole")
async def body_of_any_length(subject: TransportSubject) -> None:
    """A body of any length arrives complete, whether it is chunked, has a length or ends with the connection."""
    for delimited in ("chunked", "length", "close") if subject.capabilities.chunked else ("close",):
        for body in (b"", b"x", _PADDED, _BINARY):
            pieces = tuple([body[start : start + 50_000] for start in range(0, len(body), 50_000)])
            play = Play(steps=pieces, headers=(("content-type", "image/png"),), delimited=delimited)
            async with subject.with_peer(play) as (transport, peer):
                response = await transport.send(make_request(peer.host))
            if response.body != body:
                fail(f"a body of {len(body)} bytes ({delimited}) was returned changed, with {len(response.body)} bytes")


_ONE_EVENT: Final = b"data: x\n\n"
_HEAD: Final = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n"
_LENGTH: Final = b"content-length: 9\r\n\r\n" + _ONE_EVENT
_CHUNKED: Final = b"transfer-encoding: chunked\r\n\r\n"
_UNUSUAL_RESPONSES: Final = {
    "after an interim response": b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + _HEAD + _LENGTH,
    "without a reason phrase": _HEAD.replace(b"OK", b"") + _LENGTH,
    "with a chunk extension": _HEAD + _CHUNKED + b"9;a=b\r\n" + _ONE_EVENT + b"\r\n0\r\n\r\n",
    "with a trailer": _HEAD + _CHUNKED + b"9\r\n" + _ONE_EVENT + b"\r\n0\r\nx-sum: 17\r\n\r\n",
    "with a coding in capitals": _HEAD + _CHUNKED.replace(b"c", b"C") + b"9\r\n" + _ONE_EVENT + b"\r\n0\r\n\r\n",
}
"""Responses that HTTP allows (RFC 9110, section 15.2, and RFC 9112, sections 4 and 7.1), but that few servers send."""


@scenario("whole", "listens", needs=("chunked",))
async def unusual_responses(subject: TransportSubject) -> None:
    """Interim responses, chunk extensions, trailers, a missing reason and a 204 are read as HTTP defines them."""
    for what, raw in _UNUSUAL_RESPONSES.items():
        async with subject.with_peer(Play(raw=raw, ends="cut")) as (transport, peer):
            if not isinstance(peer, LoopbackPeer):
                return  # the requests do not go to an HTTP server
            try:
                response = await transport.send(make_request(peer.host))
                async with transport.stream(make_request(peer.host)) as stream:
                    events = await read_data(stream)
            except TransportError as error:
                fail(f"a response {what} raised {error!r}")
        if (response.status, response.body, events) != (200, _ONE_EVENT, [b"x"]):
            fail(f"a response {what} was read as status {response.status}, {response.body!r} and the events {events}")
    async with subject.with_peer(Play(raw=b"HTTP/1.1 204 No Content\r\n\r\n", ends="stall")) as (transport, peer):
        try:
            response = await transport.send(make_request(peer.host, idle=subject.patience / 8))
        except TransportError as error:
            fail(f"a response with status 204, which has no body, raised {error!r}")
    if (response.status, response.body) != (204, b""):
        fail(f"a response with status 204 was read as {response!r}")


@scenario("whole", "listens", needs=("compression",))
async def compressed(subject: TransportSubject) -> None:
    """A compressed body is decoded, and the `content-encoding` header is removed."""
    body = b"data: " + b"x" * 1000 + b"\n\n"
    members = gzip.compress(body[:500]) + gzip.compress(body[500:])
    for encoding, squeezed in (("gzip", gzip.compress(body)), ("gzip", members), ("deflate", zlib.compress(body))):
        play = subject.play(squeezed[:7], squeezed[7:], headers=(*SSE, ("content-encoding", encoding)))
        async with subject.with_peer(play) as (transport, peer):
            response = await transport.send(make_request(peer.host))
            async with transport.stream(make_request(peer.host)) as stream:
                events, headers = await read_data(stream), stream.headers
        if response.body != body or events != [body[6:-2]]:
            fail(f"a body in {encoding} was not decoded")
        if "content-encoding" in response.headers or "content-encoding" in headers:
            fail(f"a body in {encoding} was decoded, but the response still has the header content-encoding")


@scenario("not_whole", "broke", needs=("compression",))
async def cut_compressed_body(subject: TransportSubject) -> None:
    """A compressed body without its end raises a `TransportError` of kind `stream`, even if HTTP delivers all of it."""
    body = b"data: " + b"".join([b"%d " % (number**5) for number in range(200)]) + b"\n\n"
    for encoding, squeezed in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
        for missing in (1, len(squeezed) // 2):
            play = subject.play(squeezed[:-missing], headers=(*SSE, ("content-encoding", encoding)))
            async with subject.with_peer(play) as (transport, peer):
                with expect_error("stream", when=f"send() for a body in {encoding} without its end"):
                    await transport.send(make_request(peer.host))
                with expect_error("stream", when=f"the end of a stream in {encoding} without its end"):
                    async with transport.stream(make_request(peer.host)) as stream:
                        await read_data(stream)


@scenario("not_whole", needs=("chunked",))
async def cut_answer(subject: TransportSubject) -> None:
    """A truncated body raises a `TransportError` of kind `stream`, with any kind of body framing."""
    plain = (("content-type", "application/json"),)
    plays = {
        "a body that ended without its last chunk": Play(headers=plain, steps=(b'{"a": 1',), ends="cut"),
        "a body that is shorter than its length": Play(
            headers=plain, steps=(b'{"a": 1',), delimited="length", length=100, ends="cut"
        ),
        "a connection that broke in the middle of a body": Play(headers=plain, steps=(b'{"a": 1',), ends="reset"),
    }
    for what, play in plays.items():
        async with subject.with_peer(play) as (transport, peer):
            with expect_error("stream", when=what):
                await transport.send(make_request(peer.host))


@scenario("not_whole", "no_answer", needs=("network",))
async def nobody_there(subject: TransportSubject) -> None:
    """A failed connection attempt raises a `TransportError` of kind `connect`."""
    async with subject.without_peer(listens=False) as (transport, peer):
        for name, call in both_methods(transport, make_request(peer.host)).items():
            with expect_error("connect", when=f"{name} to an address where no server listens"):
                await call()


@scenario("not_whole", "no_answer", needs=("network",))
async def hung_up(subject: TransportSubject) -> None:
    """If the peer closes or resets the connection without a response, a `TransportError` of kind `stream` is raised."""
    plays = {"closed": Play(raw=b"", ends="cut"), "reset": Play(raw=b"", ends="reset")}
    for what, play in plays.items():
        async with subject.with_peer(play) as (transport, peer):
            for name, call in both_methods(transport, make_request(peer.host)).items():
                with expect_error("stream", when=f"{name} over a connection that was {what} without a response"):
                    await call()


@scenario("moves", needs=("network",))
async def asked_once(subject: TransportSubject) -> None:
    """A request is sent only once. A transport does not retry, because the first attempt may have had an effect."""
    for play in (Play(raw=b"", ends="cut"), subject.play(status=503)):
        async with subject.with_peer(play) as (transport, peer):
            for name, call in both_methods(transport, make_request(peer.host)).items():
                before = len(peer.received)
                with suppress(TransportError):
                    await call()
                if (times := len(peer.received) - before) != 1:
                    what = "without a response" if play.raw is not None else "with a 503 response"
                    fail(f"a request of {name} {what} was sent {times} times")


@scenario("no_answer", needs=("network",))
async def another_protocol(subject: TransportSubject) -> None:
    """A response that is not HTTP raises a `TransportError` of kind `protocol`."""
    async with subject.with_peer(Play(raw=b"SSH-2.0-OpenSSH_9.9\r\n\r\n", ends="cut")) as (transport, peer):
        for name, call in both_methods(transport, make_request(peer.host)).items():
            with expect_error("protocol", when=f"{name} with a response that is not HTTP"):
                await call()


@scenario("silence", "no_answer", needs=("timeouts",))
async def no_answer_in_time(subject: TransportSubject) -> None:
    """If no response begins within the idle timeout, a `TransportError` of kind `timeout` is raised."""
    never = threading.Event()
    async with subject.with_peer(Play(before=never)) as (transport, peer):
        for name, call in both_methods(transport, make_request(peer.host, idle=0.2)).items():
            with expect_error("timeout", when=f"{name} without a response within the idle timeout"):
                await call()


@scenario("silence", "not_whole", needs=("chunked", "timeouts"))
async def stalled_body(subject: TransportSubject) -> None:
    """A pause in the body of a complete response that exceeds the idle timeout raises a `timeout` error."""
    play = Play(headers=(("content-type", "application/json"),), steps=(b'{"a": 1',), ends="stall")
    async with subject.with_peer(play) as (transport, peer):
        with expect_error("timeout", when="send(), and a body that stalls"):
            await transport.send(make_request(peer.host, idle=0.2))


@scenario("silence", needs=("timeouts",))
async def deaf_peer(subject: TransportSubject) -> None:
    """If the peer does not read a long request, a `TransportError` of kind `timeout` is raised."""
    async with subject.without_peer(listens=True) as (transport, peer):
        with expect_error("timeout", when="send() to a peer that does not read the request"):
            await transport.send(make_request(peer.host, body=b"x" * 20_000_000, idle=0.2))


@scenario("secrets", needs=("network",))
async def secrets(subject: TransportSubject) -> None:
    """No error contains a request header, the request body or the query of the URL."""
    plays = {
        "an error response": Play(status=401, delimited=subject.delimited),
        "a closed connection": Play(raw=b"", ends="cut"),
        "a response that is not HTTP": Play(raw=b"SSH-2.0-OpenSSH_9.9\r\n\r\n", ends="cut"),
        "a connection that broke in the middle of a stream": Play(steps=(b"data: a\n\n",), ends="reset"),
    }
    for what, play in plays.items():
        async with subject.with_peer(play) as (transport, peer):
            await _require_secrets_hidden(what, transport, peer)
    async with subject.without_peer(listens=False) as (transport, peer):
        await _require_secrets_hidden("a refused connection", transport, peer)


async def _require_secrets_hidden(what: str, transport: Transport, peer: Peer) -> None:
    try:
        async with transport.stream(make_request(peer.host, body=SECRET.encode())) as stream:
            await read_data(stream)
    except TransportError as error:
        told = [repr(transport), repr(error), str(error), repr(error.__cause__), str(error.__cause__)]
        if any(SECRET in text for text in told):
            fail(f"the error of {what} contains a secret of the request: {error!r} from {error.__cause__!r}")


@scenario("url", "address", needs=("checks_headers",))
async def address_with_control_characters(subject: TransportSubject) -> None:
    """A host or path with a control character raises `UsageError`, and nothing is sent."""
    async with subject.with_peer(subject.play()) as (transport, peer):
        for character in ("\r\n", "\n", "\0", "\x7f"):
            for host, path in ((peer.host, f"/a{character}b"), (f"{peer.host}{character}", "/")):
                request = Request("POST", "http", host, path)
                for name, call in both_methods(transport, request).items():
                    await _require_usage_error(call, f"{name} of an address with {character!r}")
    if peer.received:
        fail(f"an address with a control character was sent as {peer.received[0].path!r}")


async def _require_usage_error(call: Callable[[], Awaitable[object]], what: str) -> None:
    try:
        await call()
    except UsageError:
        return
    except Exception as error:  # noqa: BLE001 - any other error is a violation
        fail(f"{what} raised {type(error).__name__} instead of UsageError: {error}")
    fail(f"{what} was sent")


@scenario("headers", "secrets", needs=("checks_headers",))
async def header_that_breaks_out(subject: TransportSubject) -> None:
    """A header with a line break is rejected before anything is sent, and the error does not quote its value."""
    async with subject.with_peer(subject.play()) as (transport, peer):
        for value in (f"{SECRET}\n", f"{SECRET}\r\nx-other: 1"):
            request = Request("POST", "http", peer.host, "/", (("authorization", value),))
            for name, call in both_methods(transport, request).items():
                with expect_error("protocol", when=f"{name} with a header that has a line end") as met:
                    await call()
                if met and SECRET in f"{met[0]!r} {met[0].__cause__!r}":
                    fail("the error of an invalid header contains the header's value")
    if peer.received:
        fail("a request with a line break in a header was sent")
