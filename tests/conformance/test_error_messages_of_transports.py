"""A sample of the situations in which a request fails, over the transports for aiohttp and WebSockets."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest
from chat_core import errors
from chat_core.errors import ChatError
from chat_core.options import ChatOptions
from chat_responses import ResponsesBuilder, ResponsesFrames
from chat_transport_aiohttp import AiohttpTransport
from chat_transport_websockets import BackOff, WebSocketTransport
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from .error_situations import AGAIN, API, FEWER, KEY
from .test_error_messages import KEY as SECRET
from .test_error_messages import NETWORK, QUERY, check_message, check_situations, failure

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

SAMPLE: Final = (
    "wrong key",
    "firewall",
    "rate limit with seconds",
    "login elsewhere",
    "login page",
    "truncated JSON",
    "JSON in place of a stream",
    "unknown compression",
    "hang-up",
    "another protocol",
    "broken body",
    "broken stream",
    "stream without an end",
    "silence",
    "silence within a stream",
)


@pytest.mark.parametrize("vendor", ["claude", "openai"])
async def test_errors_over_aiohttp_have_the_same_messages(anyio_backend: str, vendor: str) -> None:
    assert anyio_backend
    await check_situations(vendor, AiohttpTransport(trust_env=False), SAMPLE)


@asynccontextmanager
async def serving(
    respond: Callable[[ServerConnection], Awaitable[None]], refusal: Response | None = None
) -> AsyncGenerator[str]:
    """Yield the host of a server that responds to each message, or that rejects every handshake."""

    async def listen(connection: ServerConnection) -> None:
        async for _ in connection:
            await respond(connection)

    def handshake(_connection: ServerConnection, _request: Request) -> Response | None:
        return refusal

    async with serve(listen, "127.0.0.1", 0, process_request=handshake) as server:
        yield f"127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


async def at_once(_seconds: float) -> None:
    """Return immediately, in place of a back-off delay."""


async def check_socket_error(host: str, error: type[ChatError], message: str) -> None:
    """Check the error of a request over a WebSocket. `{ws}` in the message is the URL of the WebSocket."""
    transport = WebSocketTransport(ResponsesFrames(), trust_env=False, back_off=BackOff(sleep=at_once))
    builder = ResponsesBuilder().with_base_url(f"http://{host}/v1?{QUERY}").with_model("m")
    provider = builder.with_api_key(SECRET).with_websocket().with_transport(transport).build()
    failed = await failure(provider, ChatOptions(timeout=0.5), "stream")
    await transport.aclose()
    assert type(failed) is error, failed
    expected = message.replace("{ws}", f"ws://{host}/v1/responses")
    check_message(str(failed), expected, "responses", f"POST http://{host}/v1/responses")


LOGIN: Final = b"<title>Login</title>"
REFUSALS: Final = {
    "wrong key": (
        (401, {"content-type": "application/json"}, b'{"error": {"message": "Bad key."}}'),
        errors.AuthenticationError,
        f"{{p}} refused the request with status 401: Bad key. ({{at}}) (next step: {KEY})",
    ),
    "redirect": (
        (302, {"location": f"https://login.example/start?next={SECRET}"}, b""),
        errors.ProviderError,
        "{p} refused … status 302: a redirect to https://login.example/start; …: check the base URL ({at})",
    ),
    "no WebSocket": (
        (200, {"content-type": "text/html"}, LOGIN),
        errors.InvalidResponseError,
        (
            f"{{p}}: {{ws}} returned status 200 …WebSocket…'text/html' and begins with {LOGIN!r} "
            "(next step: check the base URL …)"
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_rejected_handshake_is_explained(anyio_backend: str, name: str) -> None:
    assert anyio_backend
    (status, fields, body), error, message = REFUSALS[name]
    headers = Headers({**fields, "content-length": str(len(body))})
    async with serving(stay_silent, Response(status, "Some reason", headers, body)) as host:
        await check_socket_error(host, error, message)


async def abort(connection: ServerConnection) -> None:
    connection.transport.abort()


async def go_away(connection: ServerConnection) -> None:
    await connection.close(1001)


async def send_text(connection: ServerConnection) -> None:
    await connection.send("hello")


async def send_error(connection: ServerConnection) -> None:
    fields = {"type": "error", "status": 429, "error": {"message": "Slow.", "code": "rate_limit_exceeded"}}
    await connection.send(json.dumps(fields))


async def stay_silent(_connection: ServerConnection) -> None:
    pass


ENDINGS: Final[dict[str, tuple[Callable[[ServerConnection], Awaitable[None]], type[ChatError], str]]] = {
    "abort": (
        abort,
        errors.NetworkError,
        f"{{p}}: {{ws}}: the connection broke before the response was complete (1006) (next step: {AGAIN})",
    ),
    "close": (
        go_away,
        errors.NetworkError,
        f"{{p}}: {{ws}}: the peer closed the connection before the response was complete (1001) (next step: {AGAIN})",
    ),
    "not JSON": (send_text, errors.InvalidResponseError, f"{{p}}: …not JSON… ({{at}}) (next step: {API})"),
    "rate limit": (
        send_error,
        errors.RateLimitedError,
        f"{{p}} …Slow.… (next step: {FEWER})",
    ),
    "silence": (
        stay_silent,
        errors.RequestTimeoutError,
        "{p}: {ws}: no data arrived within 0.5 seconds (next step: ChatOptions(timeout=…) sets the limit)",
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_the_end_of_a_websocket_is_explained(anyio_backend: str, name: str) -> None:
    assert anyio_backend
    end, error, message = ENDINGS[name]
    async with serving(end) as host:
        await check_socket_error(host, error, message)


async def test_an_unreachable_websocket_server_is_named(anyio_backend: str) -> None:
    assert anyio_backend
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"
        await check_socket_error(host, errors.NetworkError, f"{{p}}: {{ws}}: no connection (…) (next step: {NETWORK})")
