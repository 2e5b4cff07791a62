"""Situations in which a request fails, for each vendor: the class of the error, and its message."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pytest
from anyio import create_task_group, create_tcp_listener
from anyio.abc import SocketAttribute, SocketStream
from chat_claude import ClaudeBuilder
from chat_completions import MISTRAL, CompletionsBuilder, vendor_builder
from chat_core import errors
from chat_core.errors import ChatError, UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, ChatProvider
from chat_core.transport import Transport
from chat_gemini import GeminiBuilder
from chat_openai import OpenAIBuilder
from chat_responses import ResponsesBuilder
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport
from chat_vertex import VertexBuilder

from .error_situations import BOTH, RESPONSES, Method, Situation

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

KEY = "key-1234567"
QUERY = "secret=in-the-query"
NETWORK = "check the base URL, the network and the proxy"
TLS = ssl.create_default_context()
VENDORS: dict[str, Callable[[str], Any]] = {
    "claude": lambda url: ClaudeBuilder().with_base_url(url).with_model("m").with_api_key(KEY),
    "completions": lambda url: CompletionsBuilder().with_base_url(url).with_model("m").with_api_key(KEY),
    "gemini": lambda url: GeminiBuilder().with_base_url(url).with_model("m").with_api_key(KEY),
    "mistral": lambda url: vendor_builder(MISTRAL).with_base_url(url).with_model("m").with_api_key(KEY),
    "openai": lambda url: OpenAIBuilder().with_gateway(url).with_model("m").with_api_key(KEY),
    "responses": lambda url: ResponsesBuilder().with_base_url(url).with_model("m").with_api_key(KEY),
    "vertex": lambda url: (
        VertexBuilder().with_base_url(url).with_project("p", "r").with_token(KEY).with_gemini_model("m")
    ),
}


async def failure(provider: ChatProvider, options: ChatOptions, method: Method) -> ChatError:
    with pytest.raises(ChatError) as caught:
        if method == "complete":
            await provider.complete(Messages.from_user("Hi"), NO_TOOLS, options, None)
        else:
            async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, options, None) as stream:
                async for _ in stream:
                    pass
                stream.close()
    return caught.value


def respond(exchange: Exchange, situation: Situation, vendor: str) -> None:
    """Send the response of a situation."""
    if situation.ends == "silence":
        exchange.wait_closed()
        return
    body = situation.body_for(vendor)
    if situation.status:
        exchange.head(situation.status, situation.headers)
        if body:
            exchange.chunk(body)
    elif body:
        exchange.raw(body)
    if situation.ends == "whole":
        exchange.end()
    elif situation.ends == "reset":
        exchange.reset()
    elif situation.ends == "stall":
        exchange.wait_closed()


def check_message(message: str, expected: str, provider: str, address: str) -> None:
    """Check that a message is the expected one, and that it contains no secret."""
    words = expected.replace("{p}", provider).replace("{at}", address)
    assert re.fullmatch(re.escape(words).replace("…", ".*"), message, re.DOTALL), (words, message)
    for secret in (KEY, QUERY, " 0x", "cancel scope"):
        assert secret not in message


@pytest.mark.parametrize("vendor", VENDORS)
async def test_there_are_at_least_sixty_situations(anyio_backend: str, vendor: str) -> None:
    assert anyio_backend
    assert len([name for name, situation in RESPONSES.items() if vendor not in situation.except_vendors]) >= 60


async def check_situations(vendor: str, transport: Transport, names: Iterable[str]) -> None:
    """Check the errors of all methods in situations, over a transport, which is closed afterwards."""
    situation = RESPONSES["wrong key"]

    with LoopbackServer(lambda exchange: respond(exchange, situation, vendor)) as server:
        provider = VENDORS[vendor](f"http://{server.host}/v1?{QUERY}").with_transport(transport).build()
        for name in names:
            situation = RESPONSES[name]
            options = ChatOptions(timeout=0.5 if situation.ends in {"silence", "stall"} else None)
            for method in situation.methods:
                error = await failure(provider, options, method)
                path = server.exchanges[-1].path.partition("?")[0]
                assert type(error) is situation.error, (name, method, error)
                at = f"POST http://{server.host}{path}"
                check_message(str(error), situation.message_for(vendor), provider.metadata.name, at)
                assert error.retry_after == situation.retry_after, (name, method)
        await transport.aclose()


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_error_message_explains_what_happened_and_what_to_do(anyio_backend: str, vendor: str) -> None:
    assert anyio_backend
    names = [name for name, situation in RESPONSES.items() if vendor not in situation.except_vendors]
    await check_situations(vendor, HttpxTransport(trust_env=False), names)


async def check_connection_error(
    vendor: str, url: str, transport: HttpxTransport, error: type[ChatError], message: str
) -> None:
    """Check the error of both methods for a server to which no connection is made."""
    provider = VENDORS[vendor](f"{url}?{QUERY}").with_transport(transport).build()
    for method in BOTH:
        failed = await failure(provider, ChatOptions(), method)
        assert type(failed) is error
        check_message(str(failed), message, provider.metadata.name, f"POST {url}")
    await transport.aclose()


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_unreachable_server_is_named_in_the_error(anyio_backend: str, vendor: str) -> None:
    assert anyio_backend
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        message = f"{{p}}: {{at}}…: no connection (…) (next step: {NETWORK})"
        await check_connection_error(vendor, url, HttpxTransport(trust_env=False), errors.NetworkError, message)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_server_without_tls_is_named_in_the_error(anyio_backend: str, vendor: str) -> None:
    assert anyio_backend

    async def answer_in_plain_text(client: SocketStream) -> None:
        async with client:
            await client.receive()
            await client.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with await create_tcp_listener(local_host="127.0.0.1") as listener, create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer_in_plain_text)
        url = f"https://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
        message = f"{{p}}: {{at}}…: no connection (…SSL…) (next step: {NETWORK})"
        await check_connection_error(
            vendor, url, HttpxTransport(verify=TLS, trust_env=False), errors.NetworkError, message
        )
        tasks.cancel_scope.cancel()


UNCONNECTED: dict[str, tuple[Exception, type[ChatError], str]] = {
    "DNS": (
        httpx.ConnectError("Name or service not known"),
        errors.NetworkError,
        f"{{p}}: {{at}}…: no connection (ConnectError: Name or service not known) (next step: {NETWORK})",
    ),
    "certificate": (
        httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"),
        errors.NetworkError,
        f"{{p}}: {{at}}…: no connection (…CERTIFICATE_VERIFY_FAILED] self-signed certificate) (next step: {NETWORK})",
    ),
    "proxy": (
        httpx.ProxyError("407 Proxy Authentication Required"),
        errors.NetworkError,
        f"{{p}}: {{at}}…: no connection (…407 Proxy Authentication Required) (next step: {NETWORK})",
    ),
    "connect timeout": (
        httpx.ConnectTimeout(""),
        errors.RequestTimeoutError,
        (
            "{p}: {at}…: no connection within 10 seconds (ConnectTimeout) "
            "(next step: ChatOptions(timeout=…) sets the limit)"
        ),
    ),
    "write timeout": (
        httpx.WriteTimeout(""),
        errors.RequestTimeoutError,
        "{p}: {at}…: no data within 300 seconds (WriteTimeout) (next step: ChatOptions(timeout=…) sets the limit)",
    ),
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("name", UNCONNECTED)
async def test_the_error_of_a_failed_connection_states_reason_and_limit(
    anyio_backend: str, name: str, vendor: str
) -> None:
    assert anyio_backend
    reason, error, message = UNCONNECTED[name]

    def fail(_request: httpx.Request) -> httpx.Response:
        raise reason

    async with httpx.AsyncClient(transport=httpx.MockTransport(fail)) as client:
        await check_connection_error(vendor, "https://model.example/v1", HttpxTransport(client), error, message)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("key", "shown"), [("“sk-abc”", "'“' (U+201C)"), ("sk-\nabc", r"'\n' (U+000A)")])
async def test_a_key_with_invalid_header_characters_is_rejected_without_quoting_it(
    anyio_backend: str, vendor: str, key: str, shown: str
) -> None:
    assert anyio_backend
    with pytest.raises(UsageError) as caught:
        VENDORS[vendor]("http://h").with_api_key(key)
    assert shown in str(caught.value)
    assert "copy the key again" in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    ("headers", "what"),
    [
        ({"x-team": "“sk-abc”"}, "the value of the header 'x-team' contains '“' (U+201C)"),
        ({"Authorization": "Bearer sk-abc\n"}, r"the value of the header 'Authorization' contains '\n' (U+000A)"),
        ({"x-“team”": "sk-abc"}, "the name of a header contains '“' (U+201C)"),
    ],
)
async def test_headers_with_invalid_characters_are_rejected_without_quoting_their_values(
    anyio_backend: str, vendor: str, headers: dict[str, str], what: str
) -> None:
    assert anyio_backend
    with pytest.raises(UsageError) as caught:
        VENDORS[vendor]("http://h").with_headers(headers)
    assert str(caught.value).startswith(f"{what}, which HTTP does not allow: copy the ")
    assert "abc" not in str(caught.value)
    assert VENDORS[vendor]("http://h").with_headers({"x-team": "a\tb"}).build()
