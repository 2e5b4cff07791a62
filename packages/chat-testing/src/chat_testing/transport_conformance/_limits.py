"""Conformance scenarios for responses that exceed the limits of a transport."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Final

from chat_testing.errors import fail
from chat_testing.transport_conformance._peer import SSE, Play
from chat_testing.transport_conformance._scenario import (
    TransportSubject,
    expect_error,
    make_request,
    open_stream,
    read_data,
    scenario,
)

_PIECE: Final = b": " + b"x" * 65_000 + b"\ndata: 1\n\n"
_GZIP: Final = zlib.MAX_WBITS | 16


def _play_longer_than(subject: TransportSubject, limit: int, *, status: int = 200) -> Play:
    """Return a scripted response whose body is longer than `limit` bytes."""
    return Play(status=status, steps=(_PIECE,) * (limit // len(_PIECE) + 2), delimited=subject.delimited)


def _gzip_play_longer_than(subject: TransportSubject, limit: int) -> Play:
    """Return a scripted, compressed response whose body exceeds `limit` bytes only after decompression."""
    deflate = zlib.compressobj(9, wbits=_GZIP)
    steps = [deflate.compress(_PIECE) for _ in range(limit // len(_PIECE) + 2)]
    return subject.play(
        *[step for step in steps if step], deflate.flush(), headers=(*SSE, ("content-encoding", "gzip"))
    )


@scenario("limits", needs=("limits",))
async def body_too_long(subject: TransportSubject) -> None:
    """A body over the limit raises a `TransportError` of kind `protocol`."""
    async with subject.with_peer(_play_longer_than(subject, subject.max_body_bytes)) as (transport, peer):
        with expect_error("protocol", when=f"a body of more than {subject.max_body_bytes} bytes"):
            await transport.send(make_request(peer.host))


@scenario("limits", "refused", needs=("limits",))
async def error_body_too_long(subject: TransportSubject) -> None:
    """A long body of an error response is truncated to the limit, and the status is still reported."""
    limit = subject.max_error_bytes
    async with subject.with_peer(_play_longer_than(subject, limit, status=500)) as (transport, peer):
        response = await transport.send(make_request(peer.host))
        with expect_error("status", when="an error response with a long body") as met:
            await open_stream(transport, make_request(peer.host))
    for what, status, body in (("send()", response.status, response.body), ("stream()", met[0].status, met[0].body)):
        if status != 500 or len(body) > limit:
            fail(f"{what} reported a 500 response with a long body with the status {status} and {len(body)} bytes")


@scenario("limits", needs=("limits",))
async def stream_too_long(subject: TransportSubject) -> None:
    """A stream over the limit raises a `TransportError` of kind `protocol`, unless the request is unlimited."""
    play = _play_longer_than(subject, subject.max_stream_bytes)
    async with subject.with_peer(play) as (transport, peer):
        request = make_request(peer.host)
        async with transport.stream(request) as stream:
            with expect_error("protocol", when=f"a stream of more than {subject.max_stream_bytes} bytes"):
                await read_data(stream)
        async with transport.stream(replace(request, is_unlimited=True)) as stream:
            if (count := len(await read_data(stream))) != len(play.steps):
                fail(f"{count} of {len(play.steps)} events of an unlimited stream arrived")


@scenario("limits", needs=("compression", "limits"))
async def compressed_body_too_long(subject: TransportSubject) -> None:
    """A small body that exceeds a limit after decompression raises a `TransportError` of kind `protocol`."""
    async with subject.with_peer(_gzip_play_longer_than(subject, subject.max_body_bytes)) as (transport, peer):
        with expect_error("protocol", when=f"a body that expands to more than {subject.max_body_bytes} bytes"):
            await transport.send(make_request(peer.host))
    async with (
        subject.with_peer(_gzip_play_longer_than(subject, subject.max_stream_bytes)) as (transport, peer),
        transport.stream(make_request(peer.host)) as stream,
    ):
        with expect_error("protocol", when=f"a stream that expands to more than {subject.max_stream_bytes} bytes"):
            await read_data(stream)
