"""Opening connections: TLS, proxies, and the errors of failed attempts."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
import trustme
from chat_core.errors import TransportError
from chat_core.transport import Request, Scheme, Timeouts
from chat_testing import Exchange, LoopbackServer
from chat_transport_aiohttp import AiohttpTransport

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret"


def ask(host: str, *, scheme: Scheme = "http", timeouts: Timeouts | None = None, body: bytes = b"{}") -> Request:
    headers = (("authorization", SECRET),)
    return Request("POST", scheme, host, f"/v1?key={SECRET}", headers, body, timeouts or Timeouts(idle=10.0))


async def refused(transport: AiohttpTransport, request: Request) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await transport.send(request)
    await transport.aclose()
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    return caught.value


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL
    return context


async def test_verify_accepts_a_context_a_bundle_and_false(
    authority: trustme.CA, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL
    bundle = tmp_path / "bundle.pem"
    authority.cert_pem.write_to_path(bundle)
    with LoopbackServer(lambda exchange: exchange.answer(200, {}, b"secure"), tls=tls) as server:
        for verify in (context, str(bundle), False):
            transport = AiohttpTransport(verify=verify)
            for _ in range(2):
                assert (await transport.send(ask(server.host, scheme="https"))).body == b"secure"
                await transport.aclose()


async def test_an_untrusted_certificate_raises_a_connect_error(tls: ssl.SSLContext) -> None:
    with LoopbackServer(lambda exchange: exchange.answer(), tls=tls) as server:
        error = await refused(AiohttpTransport(), ask(server.host, scheme="https"))
    assert error.kind == "connect"
    assert server.exchanges == []


async def test_closing_a_tls_stream_early_closes_its_connection_immediately(tls: ssl.SSLContext) -> None:
    left = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(b"data: x\n\n")
        if exchange.wait_closed():
            left.set()

    with LoopbackServer(handler, tls=tls) as server:
        transport = AiohttpTransport(verify=False)
        async with transport.stream(ask(server.host, scheme="https")) as stream:
            async for _ in stream:
                break
        assert await anyio.to_thread.run_sync(left.wait, 10)
        await transport.aclose()


@pytest.fixture
def full() -> Generator[str]:
    """Return an address whose accept queue is full, so that no connection is accepted."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting: list[socket.socket] = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(address)
            waiting.append(client)
        yield f"127.0.0.1:{address[1]}"
        for client in waiting:
            client.close()


async def test_a_slow_connection_attempt_raises_a_timeout(full: str) -> None:
    error = await refused(AiohttpTransport(), ask(full, timeouts=Timeouts(connect=0.2)))
    assert error.kind == "timeout"


@pytest.mark.parametrize("size", [100, 300_000, 20_000_000])
async def test_a_server_that_reads_nothing_raises_a_timeout(size: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        error = await refused(AiohttpTransport(), ask(host, timeouts=Timeouts(idle=0.2), body=b"x" * size))
    assert error.kind == "timeout"


async def test_a_large_request_body_arrives_completely() -> None:
    body = b"0123456789" * 300_000
    with LoopbackServer(lambda exchange: exchange.answer()) as server:
        transport = AiohttpTransport()
        await transport.send(ask(server.host, body=body))
        await transport.aclose()
    [exchange] = server.exchanges
    assert (exchange.body == body, exchange.headers["content-length"]) == (True, "3000000")


async def test_the_connect_timeout_includes_the_resolution_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve_never(*_arguments: object, **_settings: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve_never)
    error = await refused(AiohttpTransport(), ask("api.example.test", timeouts=Timeouts(connect=0.1)))
    assert (error.kind, "within 0.1 seconds" in str(error)) == ("timeout", True)


@pytest.mark.parametrize("host", ["", "127.0.0.1:not-a-port", "[::1", "a..b", f"{'a' * 64}.test"])
async def test_an_invalid_host_is_refused_without_leaking_the_key(host: str) -> None:
    assert (await refused(AiohttpTransport(), ask(host))).kind == "protocol"


# Proxies


def say_what_was_asked(exchange: Exchange) -> None:
    exchange.answer(200, {"x-authorization": exchange.headers.get("proxy-authorization", "")}, exchange.path.encode())


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http://user:word@", ""])
async def test_proxies_are_read_from_the_environment(clean: pytest.MonkeyPatch, name: str, scheme: str) -> None:
    with LoopbackServer(say_what_was_asked) as server:
        clean.setenv(name, f"{scheme}{server.host}")
        clean.setenv("no_proxy", "direct.test")
        transport = AiohttpTransport()
        response = await transport.send(ask("api.example.test"))
        with pytest.raises(TransportError):
            await transport.send(ask("direct.test:9", timeouts=Timeouts(connect=0.5)))
        await transport.aclose()
    assert response.body == f"http://api.example.test/v1?key={SECRET}".encode()
    assert response.headers["x-authorization"] == ("Basic dXNlcjp3b3Jk" if scheme else "")
    assert len(server.exchanges) == 1


async def test_trust_env_false_ignores_the_proxy_of_the_environment(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("http_proxy", "http://127.0.0.1:9")
    with LoopbackServer(say_what_was_asked) as server:
        transport = AiohttpTransport(trust_env=False)
        assert (await transport.send(ask(server.host))).status == 200
        await transport.aclose()


async def test_a_proxy_for_another_scheme_is_not_used(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("https_proxy", "http://127.0.0.1:9")
    with LoopbackServer(say_what_was_asked) as server:
        transport = AiohttpTransport()
        assert (await transport.send(ask(server.host))).status == 200
        await transport.aclose()


async def test_an_unsupported_proxy_scheme_is_refused(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("ALL_PROXY", "socks5://user:word@127.0.0.1:9")
    error = await refused(AiohttpTransport(), ask("api.example.test"))
    assert error.kind == "connect"
    assert "'socks5'" in str(error)
    assert "word" not in str(error)


async def test_the_connect_timeout_includes_the_response_of_a_proxy_to_connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = AiohttpTransport(proxy=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with anyio.fail_after(10):
            error = await refused(transport, ask("api.example.test", scheme="https", timeouts=Timeouts(connect=0.1)))
    assert (error.kind, "within 0.1 seconds" in str(error)) == ("timeout", True)


async def test_a_proxy_with_an_invalid_name_raises_a_protocol_error() -> None:
    assert (await refused(AiohttpTransport(proxy="http://a..b:9"), ask("api.example.test"))).kind == "protocol"


async def test_an_unreachable_proxy_raises_a_connect_error() -> None:
    error = await refused(AiohttpTransport(proxy="http://user:word@127.0.0.1:9"), ask("api.example.test"))
    assert error.kind == "connect"
    assert "word" not in f"{error} {error.__cause__!r}"
